"""Marian with the Hugging Face interface: names, vocabularies, folders, cache, errors."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, CheckpointError
from minitorch_attn.models import pretrained
from minitorch_attn.serialization import read_safetensors, write_safetensors

FIELDS = dict(
    vocab_size=11, d_model=6, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
    decoder_attention_heads=3, encoder_ffn_dim=8, decoder_ffn_dim=10, max_position_embeddings=9,
    activation_function="swish", scale_embedding=True, pad_token_id=10,
    decoder_start_token_id=10, eos_token_id=0,
)  # fmt: skip
TWO = dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=13)


def make(device, rng, name="MarianMTModel", **changes):
    model = getattr(pretrained, name)({**FIELDS, **changes}).double().to(device).eval()
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.uniform(-1, 1, parameter.shape), device=device)
    return model


def inputs_on(device):
    return {
        "input_ids": mt.tensor([[3, 4, 9, 0], [7, 0, 10, 10]], device=device),
        "attention_mask": mt.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], device=device),
        "decoder_input_ids": mt.tensor([[10, 5, 6], [10, 8, 2]], device=device),
    }


def logits_of(model, device):
    return model(**inputs_on(device)).logits.numpy()


@pytest.mark.parametrize(
    ("changes", "matrices"),
    [
        ({}, {"model.shared": 11}),
        (TWO, {"model.encoder.embed_tokens": 11, "model.decoder.embed_tokens": 13}),
        (
            {"tie_word_embeddings": False},
            {
                "model.shared": 11, "model.encoder.embed_tokens": 11,
                "model.decoder.embed_tokens": 11, "lm_head": 11,
            },
        ),
        (
            {**TWO, "tie_word_embeddings": False},
            {"model.encoder.embed_tokens": 11, "model.decoder.embed_tokens": 13, "lm_head": 13},
        ),
    ],
)  # fmt: skip
def test_the_matrices_in_the_file(device, rng, tmp_path, changes, matrices):
    model = make(device, rng, **changes)
    model.save_pretrained(tmp_path)
    shapes = {
        name: array.shape
        for name, array in read_safetensors(tmp_path / "model.safetensors")[1].items()
    }
    words = ("shared", "embed_tokens", "lm_head")
    found = {name: shape for name, shape in shapes.items() if any(w in name for w in words)}
    assert found == {f"{name}.weight": (rows, 6) for name, rows in matrices.items()}
    assert shapes["final_logits_bias"] == (1, max(matrices.values()))
    assert shapes["model.encoder.embed_positions.weight"] == (9, 6)
    assert shapes["model.decoder.layers.1.encoder_attn.k_proj.weight"] == (6, 6)
    again = mt.models.from_pretrained(tmp_path, device=device)
    assert (logits_of(again, device) == logits_of(model, device)).all()


def test_the_bias_of_the_logits_and_the_scale(device, rng):
    model = make(device, rng)
    before = logits_of(model, device)
    bias = rng.uniform(-1, 1, (1, 11))
    model.final_logits_bias.data = mt.tensor(bias, device=device)
    np.testing.assert_allclose(logits_of(model, device), before + bias, rtol=1e-12)
    given = inputs_on(device)
    table = model.paper.source_embedding.tokens.weight
    scaled = table[given.pop("input_ids")] * np.sqrt(6)
    target = table[given.pop("decoder_input_ids")]  # the decoder scales what it is given
    found = model(inputs_embeds=scaled, decoder_inputs_embeds=target, **given).logits.numpy()
    np.testing.assert_allclose(found, before + bias, rtol=1e-10)


def test_a_file_may_leave_out_what_everyone_knows(device, rng, tmp_path):
    model = make(device, rng)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    arrays = dict(read_safetensors(path)[1])
    for name in list(arrays):
        if "embed_positions" in name or name == "final_logits_bias":
            del arrays[name]
    write_safetensors(path, arrays)
    again = mt.models.from_pretrained(tmp_path, device=device)
    assert (logits_of(again, device) == logits_of(model, device)).all()
    del arrays["model.encoder.layers.0.fc1.bias"]
    write_safetensors(path, arrays)
    with pytest.raises(CheckpointError, match=r"missing +model.encoder.layers.0.fc1.bias"):
        mt.models.from_pretrained(tmp_path)


def test_pieces_through_the_cache(device, rng):
    model = make(device, rng, **TWO)
    given = inputs_on(device)
    full = model(**given).logits.numpy()
    ids = given.pop("decoder_input_ids")
    encoded = model.get_encoder()(**given)
    mask, past, parts = given["attention_mask"], None, []
    for start, end in [(0, 2), (2, 3)]:
        out = model(
            encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=ids[:, start:end],
            past_key_values=past, use_cache=True,
        )  # fmt: skip
        past = list(out.past_key_values)
        parts.append(out.logits.numpy())
    np.testing.assert_allclose(np.concatenate(parts, 1), full, rtol=1e-10)
    assert len(past) == 2 and [t.shape for t in past[1]] == [(2, 3, 3, 2)] * 2 + [(2, 3, 4, 2)] * 2


def test_a_decoder_out_of_a_whole_model(device, rng, tmp_path):
    model = make(device, rng)
    model.save_pretrained(tmp_path)
    decoder = pretrained.MarianForCausalLM.from_pretrained(tmp_path, device=device)
    given = inputs_on(device)
    memory = model.encode(given["input_ids"], given["attention_mask"]).last_hidden_state
    found = decoder(
        given["decoder_input_ids"], encoder_hidden_states=memory,
        encoder_attention_mask=given["attention_mask"],
    ).logits.numpy()  # fmt: skip
    np.testing.assert_allclose(found, logits_of(model, device), rtol=1e-10)
    alone = decoder(given["decoder_input_ids"], logits_to_keep=1).logits.numpy()
    assert alone.shape == (2, 1, 11) and abs(alone - found[:, -1:]).max() > 1e-3


def test_what_is_refused(device, rng):
    with pytest.raises(ArgumentError, match="decoder_vocab_size=13"):
        pretrained.MarianModel({**FIELDS, "decoder_vocab_size": 13})
    with pytest.raises(ArgumentError, match="'softsignal'"):
        pretrained.MarianModel({**FIELDS, "activation_function": "softsignal"})
    model = make(device, rng)
    with pytest.raises(ArgumentError, match="neither"):
        model(mt.tensor([[3, 4]], device=device))
