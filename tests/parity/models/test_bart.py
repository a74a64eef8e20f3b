"""BART against transformers: random configurations, every class, saving and loading."""

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
)  # fmt: skip
from parity.models.peers import check, compare

import minitorch_attn as mt
from minitorch_attn.models import pretrained
from minitorch_attn.serialization import read_safetensors, write_safetensors

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

CLASSES = [
    "BartModel", "BartForConditionalGeneration", "BartForSequenceClassification",
    "BartForQuestionAnswering",
]  # fmt: skip
EVERYTHING = {"output_hidden_states": True, "output_attentions": True}


def pair(name, rng, folder, seed=0, **fixed):
    config = transformers.BartConfig(**draw_fields(rng, **fixed))
    return make_pair(getattr(transformers, name)(config), seed, folder)


def answers_of(name, rng):
    if name == "BartForConditionalGeneration":
        return {"labels": labels_of(rng)}
    if name == "BartForSequenceClassification":
        return {"labels": rng.integers(0, 3, BATCH)}
    if name == "BartForQuestionAnswering":
        return {"start_positions": np.array([0, 3, 11]), "end_positions": np.array([2, 4, 1])}
    return {}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(4))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    peer, ours = pair(name, rng, tmp_path, seed)
    inputs = {**source_of(rng), **answers_of(name, rng)}
    if name != "BartForSequenceClassification" and seed % 2:  # else the shifted source
        inputs.update(target_of(rng, masked=seed == 3))
    assert compare(peer, ours, inputs, **EVERYTHING) > 30


@pytest.mark.parametrize("seed", range(3))
def test_labels_are_what_the_decoder_reads_one_to_the_right(seed, tmp_path):
    rng = np.random.default_rng(seed + 10)
    peer, ours = pair("BartForConditionalGeneration", rng, tmp_path, seed)
    labels = labels_of(rng, tokens=6)
    compare(peer, ours, {**source_of(rng), "labels": labels}, **EVERYTHING)
    ids = source_of(rng)["input_ids"]
    compare(peer, ours, {"input_ids": ids}, **EVERYTHING)


@pytest.mark.parametrize("seed", range(3))
def test_embeddings_as_input(seed, tmp_path):
    rng = np.random.default_rng(seed + 20)
    peer, ours = pair("BartForConditionalGeneration", rng, tmp_path, seed, scale_embedding=True)
    width = peer.config.d_model
    inputs = {
        "inputs_embeds": rng.normal(size=(BATCH, SOURCE, width)),
        "attention_mask": mask_of(rng, SOURCE),
        "decoder_inputs_embeds": rng.normal(size=(BATCH, TARGET, width)),
    }
    compare(peer, ours, inputs, **EVERYTHING)


@pytest.mark.parametrize("seed", range(2))
def test_the_encoder_alone_and_its_output_as_input(seed, tmp_path):
    rng = np.random.default_rng(seed + 30)
    peer, ours = pair("BartForConditionalGeneration", rng, tmp_path, seed)
    inputs = {**source_of(rng), **target_of(rng)}
    memory = rng.normal(size=(BATCH, SOURCE, peer.config.d_model))

    def encode(model, input_ids, attention_mask, **_):
        return model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask, **EVERYTHING)

    compare(peer, ours, inputs, call=encode)

    def decode(model, memory, attention_mask, input_ids=None, **target):
        return model(encoder_outputs=(memory,), attention_mask=attention_mask, **target)

    compare(peer, ours, {**inputs, "memory": memory}, call=decode)


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_decoder_alone(seed, memory, tmp_path):
    rng = np.random.default_rng(seed + 40)
    peer, ours = pair("BartForCausalLM", rng, tmp_path, seed)
    inputs = {
        "input_ids": rng.integers(3, VOCABULARY, (BATCH, TARGET)),
        "attention_mask": mask_of(rng, TARGET), "labels": labels_of(rng),
    }  # fmt: skip
    if memory:
        inputs["encoder_hidden_states"] = rng.normal(size=(BATCH, SOURCE, peer.config.d_model))
        inputs["encoder_attention_mask"] = mask_of(rng, SOURCE)
    # The peer's cache has as many layers as the encoder, which may be too few.
    compare(peer, ours, inputs, use_cache=False, **EVERYTHING)
    del inputs["labels"]
    compare(peer, ours, inputs, use_cache=False, logits_to_keep=2)


@pytest.mark.parametrize("past_as_tuples", [False, True])
def test_token_after_token(past_as_tuples, tmp_path):
    """The peer's own cache and ours, in pieces; gradients flow back through what is held."""
    rng = np.random.default_rng(50)
    peer, ours = pair("BartForConditionalGeneration", rng, tmp_path, decoder_layers=2)
    inputs = {**source_of(rng), **target_of(rng, masked=False)}

    def in_pieces(model, input_ids, attention_mask, decoder_input_ids):
        encoded = model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask)
        past, parts = None, {}
        for start, end in [(0, 2), (2, 3), (3, 5)]:
            out = model(
                encoder_outputs=encoded, attention_mask=attention_mask, past_key_values=past,
                decoder_input_ids=decoder_input_ids[:, start:end], use_cache=True,
            )  # fmt: skip
            parts[f"logits_{start}"], past = out["logits"], out["past_key_values"]
            if past_as_tuples and model is ours:
                past = tuple(past)
        return parts

    compare(peer, ours, inputs, call=in_pieces)


@pytest.mark.parametrize(
    ("problem", "labels"),
    [
        (None, np.array([0.0, 1, 1, 0, 1]) * np.ones((BATCH, 1))),
        ("regression", np.linspace(-1, 1, BATCH * 5).reshape(BATCH, 5)),
        ("multi_label_classification", np.tri(BATCH, 5)),
        ("single_label_classification", np.array([4, 0, 2])),
    ],
)
def test_kinds_of_classification(problem, labels, tmp_path):
    rng = np.random.default_rng(60)
    peer, ours = pair(
        "BartForSequenceClassification", rng, tmp_path, num_labels=5, problem_type=problem
    )
    assert ours.config.num_labels == 5
    compare(peer, ours, {**source_of(rng), "labels": labels})


def test_what_the_peer_reads_from_our_folder(tmp_path):
    rng = np.random.default_rng(70)
    for i, name in enumerate([*CLASSES, "BartForCausalLM"]):
        peer, ours = pair(name, rng, tmp_path / f"{i}")
        ours.save_pretrained(tmp_path / f"ours{i}")
        again, report = type(peer).from_pretrained(
            tmp_path / f"ours{i}", output_loading_info=True, dtype=torch.float64
        )
        assert not any(report.values()), report
        for key, value in peer.state_dict().items():
            assert torch.equal(value, again.state_dict()[key]), key


def rewritten(folder, change):
    """The folder with other tensors in its file."""
    path = folder / "model.safetensors"
    arrays = dict(read_safetensors(path)[1])
    change(arrays)
    write_safetensors(path, arrays)
    return folder


def test_folders_as_they_are_on_the_hub(tmp_path):
    """Aliases written out, no bias of the logits, and two numbers that nobody reads."""
    rng = np.random.default_rng(80)
    peer, ours = pair("BartForConditionalGeneration", rng, tmp_path, tie_word_embeddings=True)

    def change(arrays):
        del arrays["final_logits_bias"]
        shared = arrays["model.shared.weight"]
        for alias in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
            arrays[f"{alias}.weight"] = shared.copy()
        arrays["model.encoder.version"] = arrays["model.decoder.version"] = np.ones(1)

    again = mt.models.from_pretrained(rewritten(tmp_path, change))
    assert not again.final_logits_bias.numpy().any()
    with torch.no_grad():
        peer.final_logits_bias.zero_()
    compare(peer, again, {**source_of(rng), **target_of(rng)})


def test_a_base_model_and_one_with_a_head_read_each_other(tmp_path):
    rng = np.random.default_rng(90)
    peer, whole = pair(
        "BartForConditionalGeneration", rng, tmp_path / "whole", tie_word_embeddings=True
    )
    inputs = {**source_of(rng), **target_of(rng)}
    base = pretrained.BartModel.from_pretrained(tmp_path / "whole")
    compare(peer.model, base, inputs)
    base.save_pretrained(tmp_path / "base")
    again = pretrained.BartForConditionalGeneration.from_pretrained(tmp_path / "base")
    logits = whole(**{k: mt.tensor(v) for k, v in inputs.items()}).logits.numpy()
    got = again(**{k: mt.tensor(v) for k, v in inputs.items()}).logits.numpy()
    bias = peer.final_logits_bias.numpy()
    check("logits", got + bias, logits, 1e-12)
    decoder = pretrained.BartForCausalLM.from_pretrained(tmp_path / "whole")
    theirs = transformers.BartForCausalLM(peer.config).double().eval()
    theirs.model.decoder.load_state_dict(peer.model.decoder.state_dict())
    ids = {"input_ids": inputs["decoder_input_ids"]}
    compare(theirs, decoder, ids)
    peer.config.is_decoder, peer.config.is_encoder_decoder = False, True


@pytest.mark.parametrize("size", ["base", "large"])
def test_published_sizes(size):
    large = dict(vocab_size=50265)
    base = dict(
        large, d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12,
        decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072,
    )  # fmt: skip
    with torch.device("meta"):
        peer = transformers.BartModel(
            transformers.BartConfig(**(base if size == "base" else large))
        )
    with mt.nn.init.skip_init():
        ours = getattr(mt.models, f"bart_{size}")()
    assert sum(p.numel() for p in ours.parameters()) == peer.num_parameters()
