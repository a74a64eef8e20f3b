"""T5 with the Hugging Face interface: the paper's model, folders of both versions, errors."""

import json

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models import pretrained
from minitorch_attn.serialization import read_safetensors, write_safetensors

SIZE = dict(
    vocab_size=13, d_model=6, d_kv=5, d_ff=7, num_layers=2, num_heads=3, num_decoder_layers=1,
    relative_attention_num_buckets=8, relative_attention_max_distance=11, decoder_start_token_id=2,
)  # fmt: skip
IDS = [[4, 7, 2, 9, 1], [3, 12, 1, 0, 0]]
MASK = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
ANSWER = [[6, 5, 11], [8, 1, -100]]


def build(name="T5ForConditionalGeneration", device="cpu", **changes):
    mt.manual_seed(3)
    model = getattr(pretrained, name)({**SIZE, **changes}).eval()
    rng = np.random.default_rng(7)
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.uniform(-0.6, 0.6, parameter.shape))
    return model.to(device)


def place(array, device="cpu"):
    return mt.tensor(np.asarray(array), device=device)


def test_the_interface_shows_the_papers_model(device):
    model = build(device=device)
    output = model(place(IDS, device), place(MASK, device), labels=place(ANSWER, device))
    mask = mt.masks.padding([5, 3], 5, device=device)
    logits = model.body(place(IDS, device), place([[2, 6, 5], [2, 8, 1]], device), mask)
    assert (output.logits.numpy() == logits.numpy()).all()
    rows = logits.numpy().reshape(-1, 13)[:5]
    shares = np.exp(rows) / np.exp(rows).sum(-1, keepdims=True)
    expected = -np.log(shares[range(5), [6, 5, 11, 8, 1]]).mean()
    assert output.loss.item() == pytest.approx(expected)


@pytest.mark.parametrize("field", ["tie_word_embeddings", "scale_decoder_outputs"])
def test_the_output_is_scaled_if_the_configuration_says_so(field):
    tied, changed = build(), build(**{field: False})
    assert tied.body.scale == 6**-0.5 and changed.body.scale == 1.0
    shared = changed.body.head.weight is changed.body.token_embedding.weight
    assert shared == (field == "scale_decoder_outputs")


def test_version_1_1_as_published_and_as_saved_again(tmp_path):
    """Published: not tied, says so. Saved again by Hugging Face: the file has the matrix, and only
    scale_decoder_outputs tells."""
    model = build(tie_word_embeddings=False, feed_forward_proj="gated-gelu")
    ids, labels = place(IDS), place(ANSWER)
    expected = model(ids, labels=labels).logits.numpy()
    model.save_pretrained(tmp_path)
    names = set(read_safetensors(tmp_path / "model.safetensors")[1])
    assert {"shared.weight", "lm_head.weight"} <= names
    assert "encoder.block.1.layer.1.DenseReluDense.wi_1.weight" in names
    config = json.loads((tmp_path / "config.json").read_text())
    again = {**config, "tie_word_embeddings": True, "scale_decoder_outputs": False}
    for fields in (config, again):
        (tmp_path / "config.json").write_text(json.dumps(fields))
        opened = mt.models.from_pretrained(tmp_path)
        assert (opened(ids, labels=labels).logits.numpy() == expected).all()
        assert opened.body.head.weight is not opened.body.token_embedding.weight


def test_a_folder_with_copies_and_leftovers_opens(tmp_path):
    model = build()
    model.save_pretrained(tmp_path)
    arrays = read_safetensors(tmp_path / "model.safetensors")[1]
    assert "lm_head.weight" not in arrays and "encoder.embed_tokens.weight" not in arrays
    shared = arrays["shared.weight"]
    arrays |= {
        "lm_head.weight": shared, "encoder.embed_tokens.weight": shared,
        "decoder.embed_tokens.weight": shared,
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": np.ones((8, 3)),
    }  # fmt: skip
    write_safetensors(tmp_path / "model.safetensors", arrays)
    opened = mt.models.from_pretrained(tmp_path)
    assert opened.body.head.weight is opened.body.token_embedding.weight
    ids = place(IDS)
    encoder = pretrained.T5EncoderModel.from_pretrained(tmp_path)
    base = pretrained.T5Model.from_pretrained(tmp_path)
    expected = model.get_encoder()(ids).last_hidden_state.numpy()
    assert (encoder(ids).last_hidden_state.numpy() == expected).all()
    assert (base.encode(ids)[0].numpy() == expected).all()
    assert encoder.body.decoder is None


def test_a_cache_and_given_encoder_outputs(device):
    model = build(device=device)
    ids, mask = place(IDS, device), place(MASK, device)
    answer = place([[2, 6, 5, 9], [2, 8, 1, 3]], device)
    whole = model(ids, mask, answer).logits.numpy()
    encoded, past, parts = model.get_encoder()(input_ids=ids, attention_mask=mask), None, []
    for start, stop in ((0, 1), (1, 3), (3, 4)):
        output = model(
            encoder_outputs=encoded, attention_mask=mask, past_key_values=past, use_cache=True,
            decoder_input_ids=answer[:, start:stop],
        )  # fmt: skip
        past = output.past_key_values
        parts.append(output.logits.numpy())
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, rtol=1e-10, atol=1e-12)
    assert [x.shape for x in past[0]] == [(2, 3, 4, 5)] * 2 + [(2, 3, 5, 5)] * 2
    as_tuple = model(encoder_outputs=(encoded[0],), attention_mask=mask, decoder_input_ids=answer)
    assert (as_tuple.logits.numpy() == whole).all()
    assert "past_key_values" not in model(ids, mask, answer, use_cache=False)


def test_what_is_collected(device):
    output = build(device=device)(
        place(IDS, device), labels=place(ANSWER, device), output_hidden_states=True,
        output_attentions=True,
    )  # fmt: skip
    shapes = {
        name: [x.shape for x in output[name]]
        for name in output
        if name.endswith(("attentions", "hidden_states"))
    }
    assert shapes == {
        "decoder_hidden_states": [(2, 3, 6)] * 2,
        "decoder_attentions": [(2, 3, 3, 3)],
        "cross_attentions": [(2, 3, 3, 5)],
        "encoder_hidden_states": [(2, 5, 6)] * 3,
        "encoder_attentions": [(2, 3, 5, 5)] * 2,
    }
    assert not np.triu(output.decoder_attentions[0].numpy()[0, 0], 1).any()
    last = output.encoder_last_hidden_state.numpy()
    assert (output.encoder_hidden_states[-1].numpy() == last).all()


def test_the_last_end_of_a_text_counts(device):
    model = build("T5ForSequenceClassification", device, num_labels=4)
    text = place([[4, 1, 2, 9, 1], [3, 1, 5, 1, 6]], device)
    hidden, _ = model.run(text, decoder_input_ids=model.shifted(text))
    logits = model.classification_head(hidden).numpy()
    found = model(text).logits.numpy()
    np.testing.assert_allclose(found, logits[[0, 1], [4, 3]], rtol=1e-12)
    for wrong in ([[4, 1, 2, 9, 1], [3, 1, 5, 6, 6]], [[4, 4], [5, 5]]):
        with pytest.raises(ArgumentError, match="number of </s>"):
            model(place(wrong, device))


def test_the_initial_values_have_their_factor():
    mt.manual_seed(0)
    config = {**SIZE, "vocab_size": 400, "d_model": 20}
    plain = pretrained.T5Model(config).body.token_embedding.weight.numpy().std()
    scaled = pretrained.T5Model({**config, "initializer_factor": 0.25})
    assert plain == pytest.approx(1, rel=0.05)
    assert scaled.body.token_embedding.weight.numpy().std() == pytest.approx(0.25, rel=0.05)
    assert (scaled.body.encoder.norm.weight.numpy() == 0.25).all()


@pytest.mark.parametrize(
    ("name", "changes", "field"),
    [("T5Model", {"is_encoder_decoder": False}, "is_encoder_decoder"),
     ("T5EncoderModel", {"is_decoder": True}, "is_decoder"),
     ("T5Model", {"feed_forward_proj": "open-gelu"}, "feed_forward_proj"),
     ("T5Model", {"feed_forward_proj": "gated-nothing"}, "nothing"),
     ("T5ForQuestionAnswering", {"num_labels": 3}, "num_labels must be 2")],
)  # fmt: skip
def test_fields_that_are_refused(name, changes, field):
    with pytest.raises(ArgumentError, match=field):
        getattr(pretrained, name)({**SIZE, **changes})


def test_arguments_that_are_refused(device):
    model, ids = build(device=device), place(IDS, device)
    with pytest.raises(ArgumentError, match="one of decoder_input_ids and decoder_inputs_embeds"):
        model(ids)
    with pytest.raises(ShapeError, match="decoder_attention_mask"):
        model(ids, decoder_input_ids=ids, decoder_attention_mask=place(np.ones((2, 4)), device))
    model.config.decoder_start_token_id = None
    with pytest.raises(ArgumentError, match="decoder_start_token_id"):
        model(ids, labels=ids)
