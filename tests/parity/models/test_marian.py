"""Marian against transformers: random configurations, shared and separate vocabularies."""

import numpy as np
import pytest
import torch
from parity.models.encoder_decoders import (
    BATCH,
    SOURCE,
    TARGET,
    VOCABULARY,
    draw_fields,
    labels_of,
    make_pair,
    mask_of,
    source_of,
    target_of,
)
from parity.models.peers import compare

import minitorch_attn as mt
from minitorch_attn.models import pretrained
from minitorch_attn.models.marian import split_sinusoidal_positions
from minitorch_attn.serialization import read_safetensors, write_safetensors

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

EVERYTHING = {"output_hidden_states": True, "output_attentions": True}
# (share_encoder_decoder_embeddings, tie_word_embeddings, decoder_vocab_size)
VOCABULARIES = {
    "one_matrix": (True, True, None),
    "untied": (True, False, None),
    "two_vocabularies": (False, True, 31),
    "two_vocabularies_untied": (False, False, 31),
}


def pair(name, rng, folder, kind="one_matrix", seed=0, **fixed):
    share, tie, size = VOCABULARIES[kind]
    fields = draw_fields(
        rng, share_encoder_decoder_embeddings=share, tie_word_embeddings=tie,
        decoder_vocab_size=size, **fixed,
    )  # fmt: skip
    peer = getattr(transformers, name)(transformers.MarianConfig(**fields))
    return make_pair(peer, seed, folder)


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("seed", range(3))
def test_translation(kind, seed, tmp_path):
    rng = np.random.default_rng(seed)
    peer, ours = pair("MarianMTModel", rng, tmp_path, kind, seed)
    inputs = {**source_of(rng), **target_of(rng, masked=seed > 0), "labels": labels_of(rng)}
    assert compare(peer, ours, inputs, **EVERYTHING) > 30
    inputs = {**source_of(rng), "labels": labels_of(rng, tokens=6)}
    compare(peer, ours, inputs, **EVERYTHING)


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_the_base_model(kind, tmp_path):
    rng = np.random.default_rng(10)
    peer, ours = pair("MarianModel", rng, tmp_path, kind)
    compare(peer, ours, {**source_of(rng), **target_of(rng)}, **EVERYTHING)


@pytest.mark.parametrize("scaled", [False, True])
def test_embeddings_as_input(scaled, tmp_path):
    rng = np.random.default_rng(20)
    peer, ours = pair("MarianMTModel", rng, tmp_path, scale_embedding=scaled)
    width = peer.config.d_model
    inputs = {
        "inputs_embeds": rng.normal(size=(BATCH, SOURCE, width)),
        "attention_mask": mask_of(rng, SOURCE),
        "decoder_inputs_embeds": rng.normal(size=(BATCH, TARGET, width)),
    }
    compare(peer, ours, inputs, **EVERYTHING)


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("memory", [False, True])
def test_the_decoder_alone(kind, memory, tmp_path):
    rng = np.random.default_rng(30)
    peer, ours = pair("MarianForCausalLM", rng, tmp_path, kind)
    inputs = {
        "input_ids": rng.integers(3, VOCABULARY, (BATCH, TARGET)),
        "attention_mask": mask_of(rng, TARGET),
    }
    if memory:
        inputs["encoder_hidden_states"] = rng.normal(size=(BATCH, SOURCE, peer.config.d_model))
        inputs["encoder_attention_mask"] = mask_of(rng, SOURCE)
    if kind != "two_vocabularies":  # there the peer's loss has the wrong number of classes
        inputs["labels"] = labels_of(rng)
    # The peer's cache has as many layers as the encoder, which may be too few.
    compare(peer, ours, inputs, use_cache=False, **EVERYTHING)


def test_token_after_token(tmp_path):
    rng = np.random.default_rng(40)
    peer, ours = pair("MarianMTModel", rng, tmp_path, decoder_layers=2)
    inputs = {**source_of(rng), **target_of(rng, masked=False)}

    def in_pieces(model, input_ids, attention_mask, decoder_input_ids):
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask)
        past, parts = None, {}
        for start, end in [(0, 1), (1, 4), (4, 5)]:
            out = model(
                encoder_outputs=encoded, attention_mask=attention_mask, past_key_values=past,
                decoder_input_ids=decoder_input_ids[:, start:end], use_cache=True,
            )  # fmt: skip
            parts[f"logits_{start}"], past = out["logits"], out["past_key_values"]
        return parts

    compare(peer, ours, inputs, call=in_pieces)


@pytest.mark.parametrize("width", [6, 7, 512])
def test_the_positions_are_the_peers(width):
    table = transformers.models.marian.modeling_marian.MarianSinusoidalPositionalEmbedding(
        13, width
    )
    expected = table.create_weight().numpy()
    found = split_sinusoidal_positions(13, width).numpy()
    np.testing.assert_allclose(found, expected, atol=6e-8)


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("name", ["MarianModel", "MarianMTModel", "MarianForCausalLM"])
def test_what_the_peer_reads_from_our_folder(name, kind, tmp_path):
    rng = np.random.default_rng(50)
    peer, ours = pair(name, rng, tmp_path / "theirs", kind)
    ours.save_pretrained(tmp_path / "ours")
    again, report = type(peer).from_pretrained(
        tmp_path / "ours", output_loading_info=True, dtype=torch.float64
    )
    assert not any(report.values()), report
    for key, value in peer.state_dict().items():
        if "embed_positions" not in key or name == "MarianModel":  # else not in the peer's file
            assert torch.equal(value, again.state_dict()[key]), key
        else:
            np.testing.assert_allclose(again.state_dict()[key], value, atol=6e-8)


def test_folders_as_they_are_on_the_hub(tmp_path):
    """Aliases written out; positions and the bias of the logits left out."""
    rng = np.random.default_rng(60)
    peer, _ = pair("MarianMTModel", rng, tmp_path)
    path = tmp_path / "model.safetensors"
    arrays = dict(read_safetensors(path)[1])
    bias = arrays.pop("final_logits_bias")
    for alias in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        arrays[f"{alias}.weight"] = arrays["model.shared.weight"].copy()
    arrays = {name: array for name, array in arrays.items() if "embed_positions" not in name}
    write_safetensors(path, arrays)
    again = mt.models.from_pretrained(tmp_path)
    with torch.no_grad():
        peer.final_logits_bias.sub_(torch.tensor(bias))
    inputs = {**source_of(rng), **target_of(rng)}
    compare(peer, again, inputs, tolerance=1e-6)  # sines that round differently to float32
    base = pretrained.MarianModel.from_pretrained(tmp_path)
    compare(peer.model, base, inputs, tolerance=1e-6)


def test_the_published_size():
    fields = dict(
        vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048, max_position_embeddings=512,
    )  # fmt: skip
    with torch.device("meta"):
        peer = transformers.MarianModel(transformers.MarianConfig(**fields))
    with mt.nn.init.skip_init():
        ours = mt.models.marian_base()
    positions = 2 * 512 * 512  # a frozen parameter of the peer, a buffer here
    assert sum(p.numel() for p in ours.parameters()) == peer.num_parameters() - positions
