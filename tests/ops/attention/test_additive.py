"""Additive attention: the fused operation, its composed version and a plain loop agree."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import DTypeError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.ops.attention.additive import AdditiveAttention, additive_attention

SIZES = [(5, 7, 3, 2), (1, 1, 1, 1), (2, 1, 2, 1), (1, 2, 1, 2), (3, 2, 5, 1)]


def drawn(rng, queries, keys, hidden, dim, lead=(2,)):
    shapes = (*lead, queries, hidden), (*lead, keys, hidden), (hidden,), (*lead, keys, dim)
    return [rng.uniform(-2, 2, shape) for shape in shapes]


def placed(arrays, device, requires_grad=True):
    return [mt.tensor(a, device=device, requires_grad=requires_grad) for a in arrays]


def composed(query, key, v, value, mask=None):
    return AdditiveAttention.composed(None, query, key, v, value, mask)


def loop(query, key, v, value, mask):
    """One query and one key at a time, without a batch."""
    weights = np.zeros((len(query), len(key)))
    for i, q in enumerate(query):
        for j, k in enumerate(key):
            score = sum(v[h] * math.tanh(q[h] + k[h]) for h in range(len(v)))
            weights[i, j] = math.exp(score) * mask[i, j]
        weights[i] /= max(weights[i].sum(), 1e-300)
    return weights @ value, weights


@pytest.mark.parametrize("sizes", SIZES)
def test_equals_a_plain_loop(rng, device, sizes):
    arrays = drawn(rng, *sizes)
    mask = rng.random((2, *sizes[:2])) < 0.7
    context, weights = additive_attention(
        *placed(arrays, device, False), mt.tensor(mask, device=device)
    )
    query, key, v, value = arrays
    for b in range(2):
        expected = loop(query[b], key[b], v, value[b], mask[b])
        np.testing.assert_allclose(context[b].numpy(), expected[0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(weights[b].numpy(), expected[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype, rtol", [("float64", 1e-12), ("float32", 2e-5)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_equal_those_of_the_composed_version(rng, device, sizes, masked, dtype, rtol):
    arrays = [a.astype(dtype) for a in drawn(rng, *sizes)]
    mask = rng.random((2, *sizes[:2])) < 0.6 if masked else None
    mask = None if mask is None else mt.tensor(mask, device=device)
    found = []
    for version in (additive_attention, composed):
        leaves = placed(arrays, device)
        context, weights = version(*leaves, mask)
        grads = [
            mt.tensor(np.random.default_rng(i).normal(size=y.shape).astype(dtype), device=device)
            for i, y in enumerate((context, weights))
        ]
        ((context * grads[0]).sum() + (weights * grads[1]).sum()).backward()
        found.append([context, weights, *[leaf.grad for leaf in leaves]])
    for one, two in zip(*found, strict=True):
        assert one.dtype == two.dtype
        scale = max(abs(two.numpy()).max(), 1e-3)
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("kept", [(0,), (1,), (0, 1)], ids=str)
def test_gradients_of_one_output_or_both(rng, device, kept):
    leaves = placed(drawn(rng, 3, 5, 2, 7), device)
    mask = mt.tensor(rng.random((2, 3, 5)) < 0.8, device=device)
    gradcheck(lambda *x: tuple(additive_attention(*x, mask)[i] for i in kept), leaves)


def test_second_derivatives(rng, device):
    gradgradcheck(lambda *x: additive_attention(*x)[0], placed(drawn(rng, 2, 3, 2, 2), device))


@pytest.mark.parametrize("needed", range(4))
def test_only_the_gradient_that_is_needed(rng, device, needed):
    arrays = drawn(rng, 3, 5, 2, 7)
    alone = [mt.tensor(a, device=device, requires_grad=i == needed) for i, a in enumerate(arrays)]
    every = placed(arrays, device)
    for leaves in (alone, every):
        additive_attention(*leaves)[0].square().sum().backward()
    for i, (one, two) in enumerate(zip(alone, every, strict=True)):
        if i == needed:
            np.testing.assert_allclose(one.grad.numpy(), two.grad.numpy(), rtol=1e-12)
        else:
            assert one.grad is None


def test_a_query_without_keys(rng, device):
    """Blocked keys, or none at all, give zeros, and zero gradients."""
    leaves = placed(drawn(rng, 3, 5, 2, 7), device)
    mask = np.ones((2, 3, 5), bool)
    mask[1, 2] = False
    context, weights = additive_attention(*leaves, mt.tensor(mask, device=device))
    assert not context[1, 2].numpy().any() and not weights[1, 2].numpy().any()
    (context[1, 2].sum() + weights[1, 2].sum()).backward()
    assert not any(leaf.grad.numpy().any() for leaf in leaves)
    leaves = placed(drawn(rng, 3, 0, 2, 7), device)
    context, weights = additive_attention(*leaves)
    assert context.shape == (2, 3, 7) and weights.shape == (2, 3, 0)
    assert not context.numpy().any()
    context.sum().backward()
    assert leaves[0].grad.shape == (2, 3, 2) and not leaves[0].grad.numpy().any()


@pytest.mark.parametrize("lead", [(), (0,), (2, 3)])
def test_leading_axes(rng, device, lead):
    leaves = placed(drawn(rng, 3, 5, 2, 7, lead), device)
    for one, two in zip(additive_attention(*leaves), composed(*leaves), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), rtol=1e-12)


def test_strided_inputs_are_left_alone(rng, device):
    arrays = drawn(rng, 4, 6, 5, 3, lead=(4,))
    leaves = [t[..., ::2] if t.ndim == 1 else t[1::2] for t in placed(arrays, device, False)]
    leaves[0], leaves[1] = leaves[0][..., ::2], leaves[1][..., ::2]
    before = [leaf.numpy().copy() for leaf in leaves]
    found = additive_attention(*leaves)
    expected = additive_attention(*[mt.tensor(a, device=device) for a in before])
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-12)
    for leaf, array in zip(leaves, before, strict=True):
        np.testing.assert_array_equal(leaf.numpy(), array)


def test_large_scores_do_not_overflow(device):
    query, key = mt.zeros(1, 1, 2, device=device), mt.ones(1, 3, 2, device=device)
    key[0, 1] = -1.0
    v = mt.tensor([1e4, 1e4], device=device)
    weights = additive_attention(query, key, v, key)[1].numpy()
    np.testing.assert_allclose(weights, [[[0.5, 0.0, 0.5]]])


def test_float16_computes_in_float32_inside(rng, device):
    arrays = [a.astype("float16") for a in drawn(rng, 3, 5, 2, 7)]
    context, _ = additive_attention(*placed(arrays, device, False))
    wide = additive_attention(*placed([a.astype("float32") for a in arrays], device, False))[0]
    assert context.dtype == mt.float16
    np.testing.assert_array_equal(context.numpy(), wide.numpy().astype("float16"))


def test_no_step_waits_for_the_device(rng, device):
    leaves = placed(drawn(rng, 3, 5, 2, 7), device)
    grad = mt.ones(2, 3, 7, device=device, dtype=mt.float64)
    with forbid_sync():
        additive_attention(*leaves)[0].backward(grad)


def test_masks_that_do_not_fit(rng, device):
    leaves = placed(drawn(rng, 3, 5, 2, 7), device)
    with pytest.raises(DTypeError, match="additive_attention: mask must be a boolean tensor"):
        additive_attention(*leaves, mt.zeros(3, 5, device=device))
    for shape in ((3, 4), (3, 2, 3, 5)):
        with pytest.raises(ShapeError, match="additive_attention"):
            additive_attention(*leaves, mt.zeros(*shape, device=device) > 0)
