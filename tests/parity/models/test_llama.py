"""Llama against transformers: random configurations, every class and kind of rotary positions."""

import numpy as np
import pytest
import torch
from parity.models.decoders import (
    BATCH,
    TOKENS,
    check_peer_opens,
    compare_embeddings,
    compare_left_padding,
    head_labels,
    ids_of,
    padding,
    pair,
)
from parity.models.peers import compare, opened, randomise

import minitorch_attn as mt

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

CLASSES = [
    "LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification",
    "LlamaForTokenClassification", "LlamaForQuestionAnswering",
]  # fmt: skip
SCALINGS = {
    "linear": {"factor": 2.5},
    "dynamic": {"factor": 3.0},
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
    "yarn_slow": {
        "factor": 4.0, "beta_fast": 3.0, "beta_slow": 0.2, "truncate": False,
        "mscale": 0.7, "mscale_all_dim": 0.4, "original_max_position_embeddings": 40,
    },
    "yarn_given": {
        "factor": 2.0, "attention_factor": 1.3, "original_max_position_embeddings": 16,
    },
}  # fmt: skip


class _Float64:
    """torch for a peer that computes norms, angles and weights in float32: here in float64."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture(autouse=True)
def in_float64(monkeypatch):
    from transformers import modeling_rope_utils
    from transformers.models.llama import modeling_llama

    for module in (modeling_llama, modeling_rope_utils):
        monkeypatch.setattr(module, "torch", _Float64())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def draw_config(rng, **fixed):
    groups, heads = int(rng.choice([1, 2])), int(rng.choice([1, 2, 3]))
    head_dim = int(rng.choice([4, 6]))
    config = dict(
        vocab_size=29, hidden_size=groups * heads * head_dim, intermediate_size=10,
        num_hidden_layers=int(rng.choice([1, 2, 3])), num_attention_heads=groups * heads,
        num_key_value_heads=heads, head_dim=int(rng.choice([4, 8])),
        hidden_act=str(rng.choice(["silu", "gelu", "relu"])), max_position_embeddings=16,
        rms_norm_eps=float(rng.choice([1e-6, 1e-2])),
        tie_word_embeddings=bool(rng.random() < 0.5), attention_bias=bool(rng.random() < 0.5),
        mlp_bias=bool(rng.random() < 0.5), pad_token_id=int(rng.choice([3, 28])),
        rope_parameters={"rope_type": "default", "rope_theta": float(rng.choice([1e4, 50.0]))},
        num_labels=5, attn_implementation="eager",
    )  # fmt: skip
    return transformers.LlamaConfig(**{**config, **fixed})


def labels_of(name, rng, inputs):
    """What each class learns from, under the peer's names."""
    if name == "LlamaForCausalLM":
        return {"labels": inputs["input_ids"]}
    return head_labels(name, rng)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(3))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    peer, ours = pair(name, draw_config(rng), seed, tmp_path)
    inputs = {"input_ids": ids_of(rng, BATCH, TOKENS)}
    if seed == 2:
        inputs["attention_mask"] = padding("right")
    inputs.update(labels_of(name, rng, inputs))
    compared = compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True)
    assert compared >= 15


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("theta", [10000.0, 70.0])
def test_every_kind_of_rotary_positions(kind, theta, tmp_path):
    """Within the trained context of 16 positions and far beyond it."""
    rng = np.random.default_rng(3)
    rope = {"rope_type": kind.partition("_")[0], "rope_theta": theta, **SCALINGS[kind]}
    config = draw_config(rng, rope_parameters=rope, head_dim=8, num_hidden_layers=2)
    peer, ours = pair("LlamaForCausalLM", config, 4, tmp_path)
    for tokens in (7, 41):
        compare(peer, ours, {"input_ids": ids_of(rng, 2, tokens)})


@pytest.mark.parametrize("seed", range(2))
def test_embeddings_as_input(seed, tmp_path):
    compare_embeddings("LlamaForCausalLM", draw_config(np.random.default_rng(seed)), seed, tmp_path)


@pytest.mark.parametrize("seed", range(2))
def test_left_padding(seed, tmp_path):
    config = draw_config(np.random.default_rng(seed), attn_implementation="sdpa")
    compare_left_padding("LlamaForCausalLM", config, seed, tmp_path)


def test_texts_packed_into_one_row(tmp_path):
    rng = np.random.default_rng(30)
    peer, ours = pair("LlamaModel", draw_config(rng), 0, tmp_path)
    inputs = {
        "input_ids": ids_of(rng, BATCH, TOKENS),
        "position_ids": np.array([[0, 1, 2, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6], [0] * 7]),
    }
    compare(peer, ours, inputs, output_attentions=True, use_cache=False)


@pytest.mark.parametrize("kind", ["default", "yarn", "dynamic"])
def test_chunks_through_the_cache(kind, tmp_path):
    """The logits, and the gradients that flow back through cached keys and values."""
    rng = np.random.default_rng(40)
    rope = {"rope_type": kind, "rope_theta": 100.0, **SCALINGS.get(kind, {})}
    peer, ours = pair("LlamaForCausalLM", draw_config(rng, rope_parameters=rope), 1, tmp_path)

    def call(model, input_ids):
        cat = torch.cat if isinstance(input_ids, torch.Tensor) else mt.cat
        past, parts, start = None, [], 0
        for size in (11, 1, 8, 1):
            piece = input_ids[:, start : start + size]
            output = model(input_ids=piece, past_key_values=past, use_cache=True)
            past, start = output["past_key_values"], start + size
            parts.append(output["logits"])
        return {"logits": cat(parts, 1)}

    compare(peer, ours, {"input_ids": ids_of(rng, BATCH, 21)}, call=call)


def test_fields_of_old_configurations(tmp_path):
    """rope_scaling with a "type", and rope_theta beside it."""
    rng = np.random.default_rng(50)
    rope = {"rope_type": "linear", "factor": 3.0, "rope_theta": 70.0}
    peer = randomise(transformers.LlamaForCausalLM(draw_config(rng, rope_parameters=rope)), 5)
    ours = opened(
        peer, tmp_path, rope_parameters=None, rope_theta=70.0,
        rope_scaling={"type": "linear", "factor": 3.0},
    )  # fmt: skip
    compare(peer, ours, {"input_ids": ids_of(rng, BATCH, TOKENS)})


@pytest.mark.parametrize("name", CLASSES)
def test_the_peer_opens_what_we_save(name, tmp_path):
    rng = np.random.default_rng(80)
    peer, ours = pair(name, draw_config(rng), 4, tmp_path / "theirs")
    check_peer_opens(peer, ours, tmp_path / "ours")
