"""GPT-2 against transformers: random configurations, every class, padding, caches, positions."""

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
from parity.models.peers import compare, randomise

import minitorch_attn as mt

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

CLASSES = [
    "GPT2Model", "GPT2LMHeadModel", "GPT2ForSequenceClassification",
    "GPT2ForTokenClassification", "GPT2ForQuestionAnswering", "GPT2DoubleHeadsModel",
]  # fmt: skip
ACTIVATIONS = ["gelu_new", "gelu", "relu", "silu", "tanh", "gelu_pytorch_tanh", "quick_gelu"]


@pytest.fixture(autouse=True)
def no_float32_losses(monkeypatch):
    """The peer computes losses of a float64 model in float32; here it stays in float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def draw_config(rng, **fixed):
    heads = int(rng.choice([1, 2, 3]))
    config = dict(
        vocab_size=29, n_positions=13, n_embd=heads * int(rng.choice([4, 6])), n_head=heads,
        n_layer=int(rng.choice([1, 2, 3])), n_inner=rng.choice([None, 10]),
        activation_function=str(rng.choice(ACTIVATIONS)),
        layer_norm_epsilon=float(rng.choice([1e-5, 1e-2])),
        scale_attn_weights=bool(rng.random() < 0.7),
        scale_attn_by_inverse_layer_idx=bool(rng.random() < 0.5),
        tie_word_embeddings=bool(rng.random() < 0.5), pad_token_id=28, bos_token_id=0,
        eos_token_id=1, num_labels=5, attn_implementation="eager",
    )  # fmt: skip
    return transformers.GPT2Config(**{**config, **fixed})


def labels_of(name, rng, inputs):
    """What each class learns from, under the peer's names."""
    if name == "GPT2LMHeadModel" and "input_ids" in inputs:
        labels = inputs["input_ids"].copy()
        labels[:, 2] = -100
        return {"labels": labels}
    if name == "GPT2DoubleHeadsModel":
        return {"mc_labels": np.array([1])}
    return head_labels(name, rng)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(3))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    peer, ours = pair(name, draw_config(rng), seed, tmp_path)
    inputs = {"input_ids": ids_of(rng, BATCH, TOKENS)}
    if name == "GPT2DoubleHeadsModel":
        inputs["input_ids"] = inputs["input_ids"][None]  # one question with three choices
        inputs["mc_token_ids"] = np.array([[6, 2, 4]])
    if seed == 1:
        inputs["token_type_ids"] = ids_of(rng, *inputs["input_ids"].shape)
    if seed == 2 and name != "GPT2DoubleHeadsModel":
        inputs["attention_mask"] = padding("right")
    inputs.update(labels_of(name, rng, inputs))
    compared = compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True)
    assert compared >= 15


@pytest.mark.parametrize("seed", range(3))
def test_embeddings_as_input(seed, tmp_path):
    compare_embeddings("GPT2LMHeadModel", draw_config(np.random.default_rng(seed)), seed, tmp_path)


@pytest.mark.parametrize("seed", range(2))
def test_left_padding(seed, tmp_path):
    config = draw_config(np.random.default_rng(seed), attn_implementation="sdpa")
    compare_left_padding("GPT2LMHeadModel", config, seed, tmp_path)


@pytest.mark.parametrize("name", ["GPT2Model", "GPT2ForQuestionAnswering"])
def test_texts_packed_into_one_row(name, tmp_path):
    rng = np.random.default_rng(30)
    peer, ours = pair(name, draw_config(rng), 0, tmp_path)
    inputs = {
        "input_ids": ids_of(rng, BATCH, TOKENS),
        "position_ids": np.array([[0, 1, 2, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6], [0] * 7]),
    }
    flags = {} if name == "GPT2ForQuestionAnswering" else {"use_cache": False}
    compare(peer, ours, inputs, output_attentions=True, **flags)


@pytest.mark.parametrize("padded", [False, True])
def test_chunks_through_the_cache(padded, tmp_path):
    """The logits, and the gradients that flow back through cached keys and values."""
    rng = np.random.default_rng(40 + padded)
    peer, ours = pair("GPT2LMHeadModel", draw_config(rng), 1, tmp_path)
    mask = padding("right") if padded else None

    def call(model, input_ids):
        torch_side = isinstance(input_ids, torch.Tensor)
        cat, tensor = (torch.cat, torch.tensor) if torch_side else (mt.cat, mt.tensor)
        past, parts, start = None, [], 0
        for size in (3, 1, 2, 1):
            more = {}
            if padded:
                more["attention_mask"] = tensor(mask[:, : start + size])
            piece = input_ids[:, start : start + size]
            output = model(input_ids=piece, past_key_values=past, use_cache=True, **more)
            past, start = output["past_key_values"], start + size
            parts.append(output["logits"])
        return {"logits": cat(parts, 1)}

    compare(peer, ours, {"input_ids": ids_of(rng, BATCH, TOKENS)}, call=call)


def test_cache_as_tuples(tmp_path):
    rng = np.random.default_rng(50)
    _, ours = pair("GPT2LMHeadModel", draw_config(rng), 1, tmp_path)
    ids = mt.tensor(ids_of(rng, BATCH, TOKENS))
    first = ours(ids[:, :4])
    past = tuple(first.past_key_values[i] for i in range(len(first.past_key_values)))
    second = ours(ids[:, 4:], past_key_values=past)
    np.testing.assert_allclose(
        second.logits.numpy(), ours(ids).logits[:, 4:].numpy(), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("kind", ["last", "first", "mean"])
def test_the_summaries_of_the_second_head(kind, tmp_path):
    rng = np.random.default_rng(60)
    settings = {"summary_type": kind, "summary_activation": "tanh", "summary_proj_to_labels": False}
    config = draw_config(rng, **settings, summary_use_proj=kind != "mean")
    peer, ours = pair("GPT2DoubleHeadsModel", config, 2, tmp_path)
    compare(peer, ours, {"input_ids": ids_of(rng, BATCH, TOKENS)})


@pytest.mark.parametrize("labels", ["regression", "several", "one_number"])
def test_kinds_of_labels(labels, tmp_path):
    rng = np.random.default_rng(70)
    count = 1 if labels == "one_number" else 5
    kind = {"regression": "regression", "several": None, "one_number": None}[labels]
    config = draw_config(rng, num_labels=count, problem_type=kind)
    peer, ours = pair("GPT2ForSequenceClassification", config, 3, tmp_path)
    values = rng.normal(size=(BATCH, count)) if labels != "several" else rng.integers(0, 2, (3, 5))
    values = values.astype("float64")[:, 0] if count == 1 else values.astype("float64")
    compare(peer, ours, {"input_ids": ids_of(rng, BATCH, TOKENS), "labels": values})


@pytest.mark.parametrize("name", CLASSES)
def test_the_peer_opens_what_we_save(name, tmp_path):
    rng = np.random.default_rng(80)
    peer, ours = pair(name, draw_config(rng), 4, tmp_path / "theirs")
    check_peer_opens(peer, ours, tmp_path / "ours")


def test_shards_that_the_peer_writes(tmp_path):
    rng = np.random.default_rng(90)
    peer = randomise(transformers.GPT2LMHeadModel(draw_config(rng)), 5)
    peer.save_pretrained(tmp_path, max_shard_size="4KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ours = mt.models.from_pretrained(tmp_path)
    compare(peer, ours, {"input_ids": ids_of(rng, BATCH, TOKENS)})
