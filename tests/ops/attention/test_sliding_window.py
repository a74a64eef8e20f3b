"""Sliding-window attention: a plain loop, the composed version, derivatives, blocks and memory."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.backend import sync
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.ops.attention import sliding_window
from minitorch_attn.ops.attention.sliding_window import (
    SCORES,
    SlidingWindowAttention,
    sliding_window_attention,
    sliding_window_weights,
)

# (batch, heads, dim, value_dim, height, width, kernel, stride)
SIZES = [
    (2, 3, 2, 5, 7, 4, 3, 1), (1, 2, 1, 3, 5, 8, 5, 2), (2, 1, 3, 1, 8, 7, 3, 3),
    (1, 1, 1, 1, 1, 1, 3, 1), (2, 2, 1, 2, 2, 3, 7, 1), (1, 2, 2, 1, 5, 6, 1, 2),
    (1, 1, 2, 2, 9, 5, 3, 4), (1, 2, 1, 2, 3, 2, 5, 3),
]  # fmt: skip


def drawn(rng, batch, heads, dim, value_dim, height, width, kernel, stride, relative=True):
    places = tuple((n - 1) // stride + 1 for n in (height, width))
    shapes = [
        (batch, heads, dim, *places), (batch, heads, dim, height, width),
        (batch, heads, value_dim, height, width), (heads, kernel**2),
        (heads, dim, kernel**2) if relative else None,
    ]  # fmt: skip
    return [None if shape is None else rng.uniform(-1.5, 1.5, shape) for shape in shapes]


def placed(arrays, device, requires_grad=True):
    return [
        None if a is None else mt.tensor(a, device=device, requires_grad=requires_grad)
        for a in arrays
    ]


def call(version, leaves, kernel, **settings):
    query, key, value, bias, relative = leaves
    return version(query, key, value, kernel, bias, relative=relative, **settings)


def composed(query, key, value, kernel, bias, *, relative, **settings):
    return sliding_window_weights(query, key, value, kernel, bias, relative=relative, **settings)[0]


def phi(q, k, score):
    if score == "product":
        return q @ k
    return -np.abs(q - k).sum() if score.startswith("absolute") else -((q - k) ** 2).sum()


def loop(query, key, value, bias, relative, kernel, stride, score, mask_padding):
    """One place of one window at a time."""
    batch, heads, dim, rows, columns = query.shape
    size, half = key.shape[3:], kernel // 2
    out = np.zeros((batch, heads, value.shape[2], rows, columns))
    every = itertools.product(range(batch), range(heads), range(rows), range(columns))
    for b, h, i, j in every:
        scores, values = [], []
        for entry, (dy, dx) in enumerate(itertools.product(range(kernel), repeat=2)):
            y, x = i * stride + dy - half, j * stride + dx - half
            inside = 0 <= y < size[0] and 0 <= x < size[1]
            k = key[b, h, :, y, x] if inside else np.zeros(dim)
            q = query[b, h, :, i, j]
            s = phi(q, k, score) + bias[h, entry]
            s += 0 if relative is None else q @ relative[h, :, entry]
            scores.append(s if inside or not mask_padding else -math.inf)
            values.append(value[b, h, :, y, x] if inside else np.zeros(value.shape[2]))
        p = np.exp(np.array(scores) - max(scores))
        out[b, h, :, i, j] = (p / p.sum()) @ np.array(values)
    return out


@pytest.mark.parametrize("mask_padding", [False, True])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("sizes", SIZES)
def test_equals_a_plain_loop(rng, device, sizes, score, mask_padding):
    arrays = drawn(rng, *sizes, relative=score == "product")
    kernel, stride = sizes[-2:]
    expected = loop(*arrays, kernel, stride, score, mask_padding)
    settings = {"stride": stride, "score": score, "mask_padding": mask_padding}
    for version in (sliding_window_attention, composed):
        found = call(version, placed(arrays, device, False), kernel, **settings)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-11), ("float32", 2e-5)])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_equal_those_of_the_composed_version(rng, device, sizes, score, dtype, tolerance):
    arrays = drawn(rng, *sizes, relative=score == "product")
    arrays = [None if a is None else a.astype(dtype) for a in arrays]
    kernel, stride = sizes[-2:]
    found = []
    for version in (sliding_window_attention, composed):
        leaves = placed(arrays, device)
        out = call(version, leaves, kernel, stride=stride, score=score, mask_padding=True)
        grad = np.random.default_rng(3).normal(size=out.shape).astype(dtype)
        out.backward(mt.tensor(grad, device=device))
        found.append([out, *(leaf.grad for leaf in leaves if leaf is not None)])
    for one, two in zip(*found, strict=True):
        assert one.dtype == two.dtype
        scale = max(abs(two.numpy()).max(), 1e-3)
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("sizes", [(1, 2, 2, 1, 3, 4, 3, 1), (2, 1, 1, 2, 4, 3, 3, 2)])
def test_derivatives(rng, device, sizes, score):
    arrays = drawn(rng, *sizes, relative=score == "product")
    leaves = placed(arrays, device)
    names = [i for i, leaf in enumerate(leaves) if leaf is not None]

    def function(*given):
        full = [None] * 5
        for i, leaf in zip(names, given, strict=True):
            full[i] = leaf
        return call(sliding_window_attention, full, sizes[-2], stride=sizes[-1], score=score)

    given = [leaves[i] for i in names]
    assert gradcheck(function, given)
    if sizes[0] == 1:
        assert gradgradcheck(function, given)


@pytest.mark.parametrize("absent", [(3,), (4,), (3, 4)])
def test_without_bias_or_relative_vectors(rng, device, absent):
    arrays = drawn(rng, *SIZES[0])
    zeros = [np.zeros_like(a) if i in absent else a for i, a in enumerate(arrays)]
    left = [None if i in absent else a for i, a in enumerate(arrays)]
    found = []
    for given in (zeros, left):
        leaves = placed(given, device)
        out = call(sliding_window_attention, leaves, 3)
        out.square().sum().backward()
        found.append([out, *(leaf.grad for leaf in leaves[:3])])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [1, 100, 2**30])
def test_blocks_and_threads_do_not_change_the_result(rng, device, monkeypatch, block):
    arrays = drawn(rng, *SIZES[0])
    found = []
    for limit in (sliding_window.BLOCK, block):
        monkeypatch.setattr(sliding_window, "BLOCK", limit)
        leaves = placed(arrays, device)
        out = call(sliding_window_attention, leaves, 3)
        out.square().sum().backward()
        found.append([out, *(leaf.grad for leaf in leaves)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-13, atol=1e-14)


def test_inputs_in_other_memory(rng, device):
    arrays = drawn(rng, *SIZES[0])
    turned = [a.transpose(*reversed(range(a.ndim))).copy() for a in arrays]
    plain = call(sliding_window_attention, placed(arrays, device), 3)
    leaves = [t.permute(*reversed(range(t.ndim))) for t in placed(turned, device)]
    strided = call(sliding_window_attention, leaves, 3)
    np.testing.assert_array_equal(strided.numpy(), plain.numpy())
    expanded = mt.tensor(rng.normal(size=(1, 1, 1, 1, 1)), device=device).expand(2, 3, 5, 7, 4)
    query, key = placed(arrays, device)[:2]
    assert sliding_window_attention(query, key, expanded, 3).shape == (2, 3, 5, 7, 4)


def test_weights_sum_to_one_and_leave_out_the_padding(rng, device):
    arrays = drawn(rng, *SIZES[0])
    _, weights = call(sliding_window_weights, placed(arrays, device), 3, mask_padding=True)
    assert weights.shape == (2, 3, 9, 7, 4)
    np.testing.assert_allclose(weights.sum(2).numpy(), 1.0, rtol=1e-12)
    weights = weights.numpy()
    assert (weights[:, :, :3, 0] == 0).all() and (weights[:, :, 2::3, :, -1] == 0).all()
    assert (weights[:, :, 3:, 0, 1:-1] > 0).all()


def test_large_scores(device):
    q = mt.full((1, 1, 1, 3, 3), 900.0, device=device)
    out = sliding_window_attention(q, q, mt.ones(1, 1, 1, 3, 3, device=device), 3)
    np.testing.assert_array_equal(out.numpy(), 1.0)  # inside wins: exp(810000) against exp(0)


def test_windows_are_not_copied(device):
    """At its peak, a step takes less memory than the windows of the values alone."""
    shape, kernel = (1, 2, 16, 24, 24), 7
    rng = np.random.default_rng(1)
    value = mt.tensor(rng.normal(size=shape).astype("f"), device=device, requires_grad=True)
    query = value[:, :, :1].detach()
    if device != "cpu":
        pytest.skip("memory of the host")
    tracemalloc.start()
    sliding_window_attention(query, query, value, kernel).sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * kernel**2 * value.array.nbytes


def test_no_transfer(rng, device):
    leaves = placed(drawn(rng, *SIZES[0]), device)
    with sync.forbid_sync():
        call(sliding_window_attention, leaves, 3, mask_padding=True).sum().backward()


def test_autocast_computes_in_float32(rng, device):
    leaves = placed([a.astype("float32") for a in drawn(rng, *SIZES[0])], device)
    with mt.amp.autocast(leaves[0].device.type):
        out = call(sliding_window_attention, [leaves[0].half(), *leaves[1:]], 3)
    assert out.dtype == mt.float32


def test_what_is_refused(rng, device):
    leaves = placed(drawn(rng, *SIZES[0]), device)
    query, key, value, bias, relative = leaves
    with pytest.raises(ArgumentError, match="score is not supported"):
        sliding_window_attention(query, key, value, 3, score="cosine")
    with pytest.raises(ArgumentError, match="'squared_difference' with relative"):
        call(sliding_window_attention, leaves, 3, score="squared_difference")
    for kernel, stride in ((2, 1), (0, 1), (3, 0)):
        with pytest.raises(ArgumentError, match="kernel_size must be odd"):
            sliding_window_attention(query, key, value, kernel, stride=stride)
    with pytest.raises(DTypeError, match="different dtypes"):
        sliding_window_attention(query.float(), key, value, 3)
    wrong = [
        (query[:, :, :1], key, value), (query, key[..., :2], value), (query[0], key[0], value[0]),
        (query, key, value[:, :2]), (query, key, value[..., :3]), (query[:1], key, value),
    ]  # fmt: skip
    for given in wrong:
        with pytest.raises(ShapeError, match="the shapes do not match"):
            sliding_window_attention(*given, 3)
    for more in ({"bias": bias[:, 1:]}, {"relative": relative[:, :1]}, {"stride": 2}):
        with pytest.raises(ShapeError, match="the shapes do not match"):
            sliding_window_attention(query, key, value, 3, **more)
    empty = mt.zeros(1, 1, 1, 0, 3, device=device)
    with pytest.raises(ShapeError, match="the shapes do not match"):
        sliding_window_attention(empty, empty, empty, 3)


def test_no_images(device):
    q = mt.zeros(0, 2, 1, 3, 4, device=device, requires_grad=True)
    out = sliding_window_attention(q, q, q, 3)
    out.sum().backward()
    assert out.shape == q.grad.shape == (0, 2, 1, 3, 4)


def test_the_declared_composition(rng, device):
    arrays = drawn(rng, *SIZES[0])
    how = {"kernel": 3, "stride": 1, "score": "product", "mask_padding": False}
    found = SlidingWindowAttention.composed(None, *placed(arrays, device), **how)
    expected = call(sliding_window_attention, placed(arrays, device), 3)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-11, atol=1e-12)
