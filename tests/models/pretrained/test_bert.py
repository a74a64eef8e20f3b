"""BERT with the Hugging Face interface: the paper's model, folders new and old, errors."""

import json

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.models import pretrained
from minitorch_attn.serialization import read_safetensors, write_safetensors

SIZE = dict(
    vocab_size=13, hidden_size=6, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=10, max_position_embeddings=7,
)  # fmt: skip
IDS = [[4, 7, 2, 9, 3], [1, 12, 5, 0, 0]]
MASK = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]


def build(name, device="cpu", **changes):
    """A model with numbers in all of its parameters."""
    mt.manual_seed(3)
    model = getattr(pretrained, name)({**SIZE, **changes}).eval()
    rng = np.random.default_rng(7)
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.uniform(-0.6, 0.6, parameter.shape))
    return model.to(device)


def place(array, device):
    return mt.tensor(np.asarray(array), device=device)


def test_the_interface_shows_the_papers_model(device):
    model = build("BertModel", device)
    ids, mask = place(IDS, device), place(MASK, device)
    segments = place([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], device)
    output = model(ids, attention_mask=mask, token_type_ids=segments)
    hidden = model.bert(ids, segments, mt.masks.padding([5, 3], 5, device=device))
    assert (output.last_hidden_state.numpy() == hidden.numpy()).all()
    assert (output.pooler_output.numpy() == model.bert.pool(hidden).numpy()).all()


@pytest.mark.parametrize("dtype", ["int64", "bool", "float64"])
@pytest.mark.parametrize("axes", [2, 3])
def test_masks_of_every_kind(device, dtype, axes):
    model, ids = build("BertModel", device), place(IDS, device)
    mask = np.asarray(MASK, dtype)
    expected = model(ids, attention_mask=place(MASK, device)).last_hidden_state.numpy()
    if axes == 3:
        mask = np.repeat(mask[:, None], 5, axis=1)
    found = model(ids, attention_mask=place(mask, device)).last_hidden_state.numpy()
    assert (found == expected).all()
    assert (model(ids).last_hidden_state.numpy()[1] != expected[1]).all()


def test_a_mask_for_each_query_and_head(device):
    model, ids = build("BertModel", device), place(IDS, device)
    order = np.tril(np.ones((5, 5), bool))
    causal = np.broadcast_to(order, (2, 5, 5))
    expected = model(ids, attention_mask=place(causal, device)).last_hidden_state.numpy()
    found = model(ids, attention_mask=place(causal[:, None], device)).last_hidden_state.numpy()
    assert (found == expected).all()
    scores = place(np.where(causal[:, None], 0.0, -np.inf), device)
    found = model(ids, attention_mask=scores).last_hidden_state.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(DTypeError, match="must be boolean or floating-point"):
        model(ids, attention_mask=place(causal[:, None].astype(int), device))


def test_embeddings_instead_of_ids(device):
    model, ids = build("BertModel", device), place(IDS, device)
    embeds = model.bert.token_embedding(ids)
    found = model(inputs_embeds=embeds).last_hidden_state.numpy()
    assert (found == model(ids).last_hidden_state.numpy()).all()


def test_what_is_collected(device):
    model = build("BertModel", device)
    output = model(place(IDS, device), output_hidden_states=True, output_attentions=True)
    assert list(output) == ["last_hidden_state", "pooler_output", "attentions", "hidden_states"]
    assert len(output.hidden_states) == 3 and len(output.attentions) == 2
    last = output.last_hidden_state.numpy()
    np.testing.assert_allclose(output.hidden_states[-1].numpy(), last, rtol=1e-12)
    weights = output.attentions[1].numpy()
    assert weights.shape == (2, 2, 5, 5)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-12)
    assert "attentions" not in model(place(IDS, device))


def test_a_folder_as_of_2018_opens(tmp_path):
    """gamma and beta, buffers, the output matrix a second time, heads that nobody asked for."""
    model = build("BertForPreTraining")
    model.save_pretrained(tmp_path)
    arrays = read_safetensors(tmp_path / "model.safetensors")[1]
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in arrays.items()
    }
    assert old.keys() != arrays.keys()
    table = old["bert.embeddings.word_embeddings.weight"]
    old |= {
        "cls.predictions.decoder.weight": table,
        "cls.predictions.decoder.bias": old["cls.predictions.bias"],
        "bert.embeddings.position_ids": np.arange(7)[None],
    }
    write_safetensors(tmp_path / "model.safetensors", old)
    config = json.loads((tmp_path / "config.json").read_text())
    for name in ("BertForPreTraining", "BertForMaskedLM"):
        (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": [name]}))
        opened = mt.models.from_pretrained(tmp_path)
        assert type(opened).__name__ == name
        ids = mt.tensor(IDS)
        assert (opened(ids)[0].numpy() == model(ids)[0].numpy()).all()


def test_saving_writes_hugging_face_names(tmp_path):
    build("BertForMaskedLM").save_pretrained(tmp_path)
    names = set(read_safetensors(tmp_path / "model.safetensors")[1])
    assert "bert.encoder.layer.1.attention.output.LayerNorm.bias" in names
    assert "cls.predictions.bias" in names and "cls.predictions.transform.dense.weight" in names
    assert not any("decoder" in name or "pooler" in name for name in names)
    build("BertForMaskedLM", tie_word_embeddings=False).save_pretrained(tmp_path)
    more = set(read_safetensors(tmp_path / "model.safetensors")[1]) - names
    assert more == {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}


def test_a_file_with_two_matrices_where_the_configuration_says_one(tmp_path):
    """The file decides, as in Hugging Face."""
    model = build("BertForMaskedLM", tie_word_embeddings=False)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["tie_word_embeddings"] = True
    (tmp_path / "config.json").write_text(json.dumps(config))
    opened = mt.models.from_pretrained(tmp_path)
    assert (opened(mt.tensor(IDS))[0].numpy() == model(mt.tensor(IDS))[0].numpy()).all()
    assert opened.config.tie_word_embeddings is False


def test_the_decoder_with_and_without_a_cache(device):
    model = build("BertLMHeadModel", device, is_decoder=True, add_cross_attention=True)
    rng = np.random.default_rng(1)
    memory = place(rng.normal(size=(2, 3, 6)), device)
    ids = place(IDS, device)
    whole = model(ids, encoder_hidden_states=memory).logits.numpy()
    past, parts = None, []
    for start, stop in ((0, 2), (2, 3), (3, 5)):
        output = model(ids[:, start:stop], encoder_hidden_states=memory, past_key_values=past)
        past = output.past_key_values
        parts.append(output.logits.numpy())
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, rtol=1e-10, atol=1e-12)
    assert len(past[1]) == 4 and past[1][0].shape == (2, 2, 5, 3)
    changed = place([[4, 7, 2, 9, 5], IDS[1]], device)
    after = model(changed, encoder_hidden_states=memory).logits.numpy()
    assert (after[0, :4] == whole[0, :4]).all() and (after[0, 4] != whole[0, 4]).all()


def test_the_loss_of_masked_tokens(device):
    model = build("BertForMaskedLM", device)
    labels = np.array([[-100, 3, -100, 12, -100], [-100] * 5])
    output = model(place(IDS, device), labels=place(labels, device))
    logits = output.logits.numpy()[0, [1, 3]]
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert output.loss.item() == pytest.approx(-np.log(shares[[0, 1], [3, 12]]).mean())


@pytest.mark.parametrize(
    "changes",
    [{"position_embedding_type": "relative_key"}, {"pruned_heads": {"0": [1]}},
     {"add_cross_attention": True}, {"tie_encoder_decoder": True}],
)  # fmt: skip
def test_fields_that_are_refused(changes):
    with pytest.raises(ArgumentError, match=next(iter(changes))):
        pretrained.BertModel({**SIZE, **changes})


def test_arguments_that_are_refused(device):
    model, ids = build("BertModel", device), place(IDS, device)
    with pytest.raises(ArgumentError, match="one of input_ids and inputs_embeds"):
        model()
    with pytest.raises(ShapeError, match="attention_mask"):
        model(ids, attention_mask=place(np.ones((2, 4)), device))
    with pytest.raises(ShapeError, match="at most 7"):
        model(place(np.zeros((1, 8), int), device))
    with pytest.raises(ArgumentError, match="is_decoder=True"):
        model(ids, encoder_hidden_states=place(np.zeros((2, 3, 6)), device))
    with pytest.raises(TypeError):
        model(ids, no_such_argument=1)
    decoder = build("BertLMHeadModel", device, is_decoder=True)
    with pytest.raises(ArgumentError, match="add_cross_attention=True"):
        decoder(ids, encoder_hidden_states=place(np.zeros((2, 3, 6)), device))
    with pytest.raises(ArgumentError, match="num_labels must be 2"):
        pretrained.BertForQuestionAnswering({**SIZE, "num_labels": 3})


def test_a_tuple_where_one_is_asked_for():
    model = build("BertModel")
    hidden, pooled = model(mt.tensor(IDS), return_dict=False)
    assert (hidden.shape, pooled.shape) == ((2, 5, 6), (2, 6))
    model.config.return_dict = False
    assert isinstance(model(mt.tensor(IDS)), tuple)
