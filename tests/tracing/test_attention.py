"""Attention is recognized everywhere: fused, in layers, written by hand, in windows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import minitorch_attn as mt
from minitorch_attn.ops.windows import shifted_window_mask
from minitorch_attn.tracing.attention import find_attention


def found_in(run, **options):
    with mt.trace(**options) as t:
        run()
    return t, find_attention(t.steps)


def softmax(scores):
    exp = np.exp(scores - scores.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


@pytest.mark.parametrize("tokens", [5, 71])
@pytest.mark.parametrize("masked", ["not", "causal", "bool", "float"])
def test_weights_scores_and_mask_of_the_fused_operation(make, masked, tokens, device):
    query, key, value = (make(2, 3, tokens, 7) for _ in range(3))
    allowed = np.ones((tokens, tokens), bool)
    mask = None
    if masked == "causal":
        allowed = np.tril(allowed)
    elif masked != "not":
        allowed = np.arange(tokens)[:, None] % 3 != np.arange(tokens) % 3
        additive = np.where(allowed, 0.5, -np.inf)
        mask = mt.tensor(allowed if masked == "bool" else additive, device=device)
    scores = query.numpy() @ key.numpy().swapaxes(-1, -2) / np.sqrt(7)
    scores = np.where(allowed, scores + (0.5 if masked == "float" else 0.0), -np.inf)
    _, (found,) = found_in(
        lambda: mt.nn.functional.scaled_dot_product_attention(
            query, key, value, mask, is_causal=masked == "causal"
        )
    )
    assert found.heads == 3
    assert_allclose(found.weights.values.array, softmax(scores), atol=1e-12)
    shown = np.broadcast_to(allowed, scores.shape)
    if masked == "not":
        assert found.mask is None
    else:
        assert_array_equal(np.broadcast_to(found.mask, scores.shape), shown)


def test_attention_written_by_hand_is_found(make):
    query, key, value = make(5, 7), make(11, 7), make(11, 3)

    def run():
        weights = mt.softmax(query @ key.T / 7**0.5, dim=1)
        mt.dropout(weights, 0.2) @ value

    _, (found,) = found_in(run)
    assert_allclose(found.weights.values.array, softmax(query.numpy() @ key.numpy().T / np.sqrt(7)))
    assert found.heads == 1 and found.step.op == "MatMul" and found.mask is None


def test_a_softmax_over_another_axis_is_no_attention(make):
    query, value = make(5, 5), make(5, 3)
    _, found = found_in(lambda: query.softmax(0) @ value)
    assert found == []
    _, found = found_in(lambda: query.exp() @ value)
    assert found == []


@pytest.mark.parametrize("need_weights", [True, False])
def test_pytorchs_layer(make, need_weights, device):
    x = make(2, 5, 6)
    layer = mt.nn.MultiheadAttention(6, 3, batch_first=True).double().to(device)
    weights = []
    causal = mt.ones(5, 5, dtype=mt.bool, device=device).triu(1)  # True = blocked

    def run():
        weights.append(layer(x, x, x, attn_mask=causal, need_weights=need_weights)[1])

    _, (found,) = found_in(run)
    assert found.heads == 3 and found.weights.values.shape == (2, 3, 5, 5)
    shown = np.broadcast_to(found.mask, (2, 3, 5, 5))
    assert_array_equal(shown, np.broadcast_to(np.tril(np.ones((5, 5), bool)), (2, 3, 5, 5)))
    if need_weights:
        assert_allclose(found.weights.values.array.mean(1), weights[0].numpy())


def test_grouped_heads_and_cross_attention(make, device):
    x, memory = make(2, 5, 12), make(2, 7, 12)
    layer = mt.nn.Attention(12, 6, num_kv_heads=2).double().to(device)
    _, (found,) = found_in(lambda: layer(x, memory))
    weights = found.weights.values.array
    assert weights.shape[-2:] == (5, 7) and weights.size == 2 * 6 * 5 * 7
    assert_allclose(weights.sum(-1), 1.0)


def test_the_same_weights_as_watching_the_layer():
    mt.manual_seed(3)
    model = mt.models.GPT(13, 11, 10, 2, 2).eval()
    ids = mt.tensor([[3, 1, 4, 1, 5]])
    with mt.no_grad(), mt.nn.collect_attention(model) as watched:
        model(ids)
    t, found = found_in(lambda: model(ids))
    assert [f.step.module.path for f in found] == ["blocks.0.attention", "blocks.1.attention"]
    for f, (_, weights) in zip(found, watched, strict=True):
        assert_allclose(f.weights.values.array, weights.numpy(), atol=1e-6)


@pytest.mark.parametrize("expand", [False, True])
def test_windows_of_swin(expand, rng):
    mt.manual_seed(3)
    model = mt.models.Swin(
        image_size=(10, 6), patch_size=1, in_channels=1, num_classes=3, embed_dim=4, depths=(2,),
        num_heads=(2,), window_size=2,
    )  # fmt: skip
    images = mt.tensor(rng.uniform(size=(1, 1, 10, 6)).astype("float32"))
    t, (plain, shifted) = found_in(lambda: model(images), expand=expand)
    assert plain.windows["grid"] == shifted.windows["grid"] == [5, 3]
    assert plain.windows["size"] == [2, 2]
    assert (plain.windows["shift"], shifted.windows["shift"]) == ([0, 0], [1, 1])
    assert np.unique(plain.windows["regions"]).tolist() == [0]
    regions = shifted.windows["regions"]
    assert regions.shape == (10, 6) and len(np.unique(regions)) == 9
    # Tokens of two regions within one window do not see each other: a score of -100 less.
    windows = regions.reshape(5, 2, 3, 2).swapaxes(1, 2).reshape(15, 4)
    together = windows[:, :, None] == windows[:, None, :]
    assert_array_equal(together, shifted_window_mask(10, 6, (2, 2), (1, 1)).numpy())
    weights = shifted.weights.values.array.reshape(15, 2, 4, 4)
    apart = np.broadcast_to(~together[:, None], weights.shape)
    assert weights[apart].max() < 1e-30 < weights[~apart].min()


def test_a_map_that_the_windows_do_not_divide(rng):
    model = mt.models.Swin(
        image_size=7, patch_size=1, in_channels=1, num_classes=3, embed_dim=4, depths=(2,),
        num_heads=(2,), window_size=3,
    )  # fmt: skip
    images = mt.tensor(rng.uniform(size=(1, 1, 7, 7)).astype("float32"))
    _, (plain, shifted) = found_in(lambda: model(images))
    assert plain.windows["grid"] == shifted.windows["grid"] == [3, 3]
    assert shifted.windows["regions"].shape == (9, 9)
