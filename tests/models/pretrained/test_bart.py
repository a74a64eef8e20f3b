"""BART with the Hugging Face interface: names, heads, labels, dropped layers, errors."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, CheckpointError
from minitorch_attn.models import pretrained
from minitorch_attn.models.pretrained.encoder_decoder import shift_right
from minitorch_attn.nn import functional as F
from minitorch_attn.serialization import read_safetensors

FIELDS = dict(
    vocab_size=11, d_model=6, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
    decoder_attention_heads=3, encoder_ffn_dim=8, decoder_ffn_dim=10, max_position_embeddings=9,
)  # fmt: skip
SOURCE = [[0, 4, 9, 2], [0, 7, 2, 1]]
MASK = [[1, 1, 1, 1], [1, 1, 1, 0]]


def make(device, rng, name, **changes):
    model = getattr(pretrained, name)({**FIELDS, **changes}).double().to(device).eval()
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.uniform(-1, 1, parameter.shape), device=device)
    return model


def source_on(device):
    return {
        "input_ids": mt.tensor(SOURCE, device=device),
        "attention_mask": mt.tensor(MASK, device=device),
    }


def test_the_names_of_the_file(device, rng, tmp_path):
    make(device, rng, "BartForConditionalGeneration").save_pretrained(tmp_path)
    names = set(read_safetensors(tmp_path / "model.safetensors")[1])
    pairs = [f"{kind}.{end}" for kind in ("self_attn.q_proj", "self_attn.k_proj",
             "self_attn.v_proj", "self_attn.out_proj", "self_attn_layer_norm", "fc1", "fc2",
             "final_layer_norm") for end in ("weight", "bias")]  # fmt: skip
    expected = {"final_logits_bias", "model.shared.weight"}
    for stack, layers in (("encoder", 1), ("decoder", 2)):
        expected.add(f"model.{stack}.embed_positions.weight")
        expected |= {f"model.{stack}.layernorm_embedding.{e}" for e in ("weight", "bias")}
        for i in range(layers):
            expected |= {f"model.{stack}.layers.{i}.{pair}" for pair in pairs}
            if stack == "decoder":
                cross = [p.replace("self", "encoder") for p in pairs if "self" in p]
                expected |= {f"model.decoder.layers.{i}.{pair}" for pair in cross}
    assert names == expected


def test_what_is_collected_is_what_happens(device, rng):
    model = make(device, rng, "BartModel")
    out = model(**source_on(device), output_attentions=True, output_hidden_states=True)
    plain = model(**source_on(device))
    np.testing.assert_allclose(
        out.last_hidden_state.numpy(), plain.last_hidden_state.numpy(), rtol=1e-10
    )
    assert len(out.encoder_hidden_states) == 2 and len(out.decoder_hidden_states) == 3
    assert (out.decoder_hidden_states[-1].numpy() == out.last_hidden_state.numpy()).all()
    assert [a.shape for a in out.encoder_attentions] == [(2, 2, 4, 4)]
    assert [a.shape for a in out.cross_attentions] == [(2, 3, 4, 4)] * 2
    assert not np.triu(out.decoder_attentions[1].numpy(), 1).any()
    for weights in out.cross_attentions:
        assert not weights.numpy()[1, :, :, 3].any() and weights.numpy()[0, :, :, 3].all()
    assert plain.decoder_attentions is None and "decoder_attentions" not in plain


def test_shift_right(device):
    labels = mt.tensor([[5, -100, 7], [3, 4, -100]], device=device)
    found = shift_right(labels, pad_token_id=1, decoder_start_token_id=2).numpy()
    assert found.tolist() == [[2, 5, 1], [2, 3, 4]]
    with pytest.raises(ArgumentError, match="decoder_start_token_id=None"):
        shift_right(labels, 1, None)


def test_labels_alone(device, rng):
    model = make(device, rng, "BartForConditionalGeneration", decoder_start_token_id=3)
    labels = mt.tensor([[5, 6, 7], [8, -100, -100]], device=device)
    out = model(**source_on(device), labels=labels)
    assert "past_key_values" not in out
    read = mt.tensor([[3, 5, 6], [3, 8, 1]], device=device)
    same = model(**source_on(device), decoder_input_ids=read)
    assert (same.logits.numpy() == out.logits.numpy()).all() and same.past_key_values is not None
    logits = same.logits.reshape(-1, 11)
    loss = F.cross_entropy(logits, labels.reshape(-1)).item()
    assert out.loss.item() == pytest.approx(loss, rel=1e-12)


def test_classes_are_read_off_at_the_last_end(device, rng):
    model = make(device, rng, "BartForSequenceClassification")
    assert model(**source_on(device)).logits.shape == (2, 3)  # three labels, as in Hugging Face
    ids = mt.tensor([[0, 2, 9, 2, 5], [2, 7, 4, 6, 2]], device=device)
    x = model.run(ids, None, shift_right(ids, 1, 2))[0].numpy()
    last = np.stack([x[0, 3], x[1, 4]])
    w = {k: v.numpy() for k, v in model.classification_head.state_dict().items()}
    hidden = np.tanh(last @ w["dense.weight"].T + w["dense.bias"])
    expected = hidden @ w["out_proj.weight"].T + w["out_proj.bias"]
    np.testing.assert_allclose(model(ids).logits.numpy(), expected, rtol=1e-10)
    for wrong in ([[0, 2, 9], [2, 7, 2]], [[0, 3, 9], [4, 7, 6]]):
        with pytest.raises(ArgumentError, match="tokens of id 2"):
            model(mt.tensor(wrong, device=device))


def test_answers(device, rng):
    model = make(device, rng, "BartForQuestionAnswering")
    spans = {
        "start_positions": mt.tensor([1, 0], device=device),
        "end_positions": mt.tensor([2, 9], device=device),  # behind the text: no answer
    }
    out = model(**source_on(device), **spans)
    start, end = out.start_logits.numpy(), out.end_logits.numpy()
    assert start.shape == end.shape == (2, 4)

    def loss(logits, places):
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return -np.mean([logs[row, place] for row, place in places])

    expected = (loss(start, [(0, 1), (1, 0)]) + loss(end, [(0, 2)])) / 2
    assert out.loss.item() == pytest.approx(expected, rel=1e-10)


def test_layers_are_dropped_only_while_training(device, rng):
    drops = {"encoder_layerdrop": 1.0, "decoder_layerdrop": 1.0}
    off = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model = make(device, rng, "BartModel", **drops, **off)
    out = model(**source_on(device), output_hidden_states=True)
    assert len(out.decoder_hidden_states) == 3
    model.train()
    out = model(**source_on(device), output_hidden_states=True, output_attentions=True)
    assert len(out.decoder_hidden_states) == len(out.encoder_hidden_states) == 1
    assert out.cross_attentions == ()


@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_is_where_it_belongs(device, rng, name):
    off = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model = make(device, rng, "BartModel", **{**off, name: 0.5})
    still = model(**source_on(device)).last_hidden_state.numpy()
    model.train()
    assert abs(model(**source_on(device)).last_hidden_state.numpy() - still).max() > 1e-3
    layers = [*model.paper.encoder.layers, *model.paper.decoder.layers]
    assert all(layer.attention.dropout == model.config.attention_dropout for layer in layers)
    assert all(layer.feed_forward.dropout.p == model.config.activation_dropout for layer in layers)


def test_aliases_of_fields():
    model = pretrained.BartModel({**FIELDS, "num_hidden_layers": 2, "hidden_size": 12})
    assert len(model.paper.encoder.layers) == model.config.encoder_layers == 2
    assert model.config.d_model == 12 and model.config.num_attention_heads == 2


def test_what_is_refused(device, rng, tmp_path):
    model = make(device, rng, "BartForConditionalGeneration")
    with pytest.raises(ArgumentError, match="decoder's input is missing"):
        model(encoder_outputs=(mt.zeros(2, 3, 6, device=device),))
    with pytest.raises(ArgumentError, match="both"):
        model(**source_on(device), inputs_embeds=mt.zeros(2, 4, 6, device=device))
    with pytest.raises(ArgumentError, match="input_ids=None"):
        make(device, rng, "BartForSequenceClassification")(
            inputs_embeds=mt.zeros(2, 4, 6, device=device)
        )
    make(device, rng, "BartModel").save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"missing +qa_outputs.weight"):
        pretrained.BartForQuestionAnswering.from_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="qa_outputs.weight"):
        pretrained.BartForQuestionAnswering.from_pretrained(tmp_path, strict=False)
