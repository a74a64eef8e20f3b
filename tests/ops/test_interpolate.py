"""Interpolation, and the weighted sums behind it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.ops.plumbing.weighted_sum import Taps, TapSum


def cubic(x, a):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def lanczos(x):
    if x == 0:
        return 1.0
    return (
        3 * math.sin(math.pi * x) * math.sin(math.pi * x / 3) / (math.pi * x) ** 2
        if abs(x) < 3
        else 0.0
    )


FILTERS = {"bilinear": (lambda x: max(0.0, 1 - abs(x)), 1), "lanczos": (lanczos, 3),
           "bicubic": (lambda x: cubic(x, -0.5), 2)}  # fmt: skip


def weights(mode, n, m, step=None, align_corners=False, antialias=False):
    """The (m, n) matrix of one axis, element by element."""
    matrix = np.zeros((m, n))
    step = (n - 1) / max(m - 1, 1) if align_corners else step or n / m
    for o in range(m):
        if mode == "nearest":
            matrix[o, min(math.floor(o * step), n - 1)] = 1
        elif mode == "nearest-exact":
            matrix[o, min(math.floor((o + 0.5) * step), n - 1)] = 1
        elif mode == "area":
            start, stop = o * n // m, math.ceil((o + 1) * n / m)
            matrix[o, start:stop] = 1 / (stop - start)
        elif antialias:
            function, reach = FILTERS[mode]
            wide = max(step, 1.0)
            centre = (o + 0.5) * step
            first = max(int(centre - reach * wide + 0.5), 0)
            last = min(int(centre + reach * wide + 0.5), n)
            row = [function((i + 0.5 - centre) / wide) for i in range(first, last)]
            matrix[o, first:last] = np.array(row) / sum(row)
        else:
            where = o * step if align_corners else (o + 0.5) * step - 0.5
            if mode != "bicubic":
                where = min(max(where, 0.0), n - 1.0)
            base = math.floor(where)
            for i in range(base - 1, base + 3):
                far = where - i
                share = cubic(far, -0.75) if mode == "bicubic" else max(0.0, 1 - abs(far))
                matrix[o, min(max(i, 0), n - 1)] += share
    return matrix


def resized(x, mode, sizes, steps=None, **how):
    y = x.astype("float64")
    for axis, (m, step) in enumerate(zip(sizes, steps or [None] * len(sizes), strict=True), 2):
        matrix = weights(mode, x.shape[axis], m, step, **how)
        y = np.moveaxis(np.tensordot(matrix, y, (1, axis)), 0, axis)
    return y.astype(x.dtype)


def case(mode, shape, *sizes, **how):
    plain = "bilinear" if mode in ("linear", "trilinear") else mode
    return Case(
        f"{mode} {shape[2:]} to {sizes} {how or ''}",
        lambda x: mt.interpolate(x, sizes, mode=mode, **how),
        lambda x: resized(x, plain, sizes, **how),
        shape,
    )


CASES = [
    case("nearest", (2, 3, 5), 7),
    case("nearest", (1, 2, 5, 7), 3, 11),
    case("nearest", (1, 2, 3, 2, 5), 2, 3, 7),
    case("nearest-exact", (1, 2, 5, 7), 3, 11),
    case("area", (2, 3, 5), 3),
    case("area", (1, 2, 5, 7), 3, 11),
    case("linear", (2, 3, 5), 7),
    case("linear", (2, 3, 5), 3, align_corners=True),
    case("linear", (2, 3, 5), 1, align_corners=True),
    case("bilinear", (1, 2, 5, 7), 3, 11),
    case("bilinear", (1, 2, 5, 7), 8, 3, align_corners=True),
    case("bilinear", (1, 2, 5, 7), 5, 7),
    case("trilinear", (1, 2, 3, 2, 5), 2, 5, 7),
    case("bicubic", (1, 2, 5, 7), 7, 3),
    case("bicubic", (1, 2, 5, 7), 3, 11, align_corners=True),
    case("bilinear", (1, 2, 7, 5), 3, 2, antialias=True),
    case("bilinear", (1, 2, 7, 5), 3, 8, antialias=True, align_corners=True),
    case("bicubic", (1, 2, 7, 11), 3, 5, antialias=True),
    case("bicubic", (1, 2, 7, 3), 11, 2, antialias=True),
    case("lanczos", (1, 2, 11, 7), 3, 5, antialias=True),
    case("bicubic", (0, 2, 5, 7), 7, 3),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


@settings(max_examples=60, deadline=None)
@given(
    mode=st.sampled_from(["nearest", "nearest-exact", "linear"]),
    size=st.integers(1, 9),
    factor=st.sampled_from([0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.5]),
    recompute=st.sampled_from([None, False, True]),
)
def test_scale_factors(mode, size, factor, recompute, device):
    x = np.random.default_rng(size).normal(size=(2, 1, size))
    places = math.floor(size * factor)
    if places == 0:
        with pytest.raises(ShapeError, match="must be at least 1"):
            mt.interpolate(mt.tensor(x, device=device), scale_factor=factor, mode=mode)
        return
    y = mt.interpolate(
        mt.tensor(x, device=device),
        scale_factor=factor,
        mode=mode,
        recompute_scale_factor=recompute,
    )
    if size == places and mode != "nearest-exact":
        expected = x  # PyTorch: an axis that keeps its size is left alone
    else:
        steps = None if recompute else [1 / factor]
        expected = resized(x, "bilinear" if mode == "linear" else mode, [places], steps)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)


def test_a_constant_stays_constant(device):
    x = mt.ones(1, 1, 7, 5, device=device, dtype=mt.float64)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        for size in ((3, 11), (1, 1), (7, 5)):
            np.testing.assert_allclose(mt.interpolate(x, size, mode=mode).numpy(), 1.0)
            if mode in ("bilinear", "bicubic"):
                y = mt.interpolate(x, size, mode=mode, antialias=True)
                np.testing.assert_allclose(y.numpy(), 1.0)


def test_what_is_far_away_has_no_influence(device):
    x = mt.tensor([[[1.0, 2.0, 3.0, float("nan")]]], device=device)
    y = mt.interpolate(x, 8, mode="linear").numpy()
    np.testing.assert_allclose(y[0, 0, :5], [1, 1.25, 1.75, 2.25, 2.75])


def test_one_size_for_all_axes_and_upsampling_by_two(make):
    x = make(1, 1, 2, 3, requires_grad=False)
    y = mt.interpolate(x, scale_factor=2)
    np.testing.assert_array_equal(
        y.numpy()[0, 0], np.repeat(np.repeat(x.numpy()[0, 0], 2, 0), 2, 1)
    )
    assert mt.interpolate(x, 5, mode="bilinear").shape == (1, 1, 5, 5)
    before = x.numpy().copy()
    mt.interpolate(x, (2, 3)).fill_(0.0)
    np.testing.assert_array_equal(x.numpy(), before)


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 6), out=st.integers(0, 6), taps=st.integers(0, 4), seed=st.integers(0, 99)
)
def test_a_table_is_a_sparse_matrix(size, out, taps, seed, device):
    rng = np.random.default_rng(seed)
    index, weight = rng.integers(0, size + 1, (out, taps)), rng.normal(size=(out, taps))
    for w in (weight, None):
        table = Taps(index, w, size)
        dense = np.zeros((out, size + 1))
        np.add.at(dense, (np.arange(out)[:, None], index), 1.0 if w is None else w)
        dense = dense[:, :size]
        x, g = rng.normal(size=(2, size, 3)), rng.normal(size=(2, out, 3))
        leaf = mt.tensor(x, device=device, requires_grad=True)
        y = TapSum.apply(leaf, taps=table, axis=1)
        np.testing.assert_allclose(y.detach().numpy(), dense @ x, atol=1e-12)
        y.backward(mt.tensor(g, device=device))
        np.testing.assert_allclose(leaf.grad.numpy(), dense.T @ g, atol=1e-12)


BAD = [
    (lambda x: mt.interpolate(x), ArgumentError, "exactly one of size", "size=None"),
    (lambda x: mt.interpolate(x, 2, 2.0), ArgumentError, "exactly one of size", "scale_factor=2.0"),
    (lambda x: mt.interpolate(x, 2, mode="linear"), ArgumentError, "unknown or does", "bilinear"),
    (lambda x: mt.interpolate(x, 2, mode="cubic"), ArgumentError, "unknown or does", "'cubic'"),
    (lambda x: mt.interpolate(x[0, 0], 2), ArgumentError, "unknown or does", "three spatial"),
    (lambda x: mt.interpolate(x, 2, align_corners=False), ArgumentError, "must not be given",
     "False"),
    (lambda x: mt.interpolate(x, 2, mode="lanczos"), ArgumentError, "not match mode", "lanczos"),
    (lambda x: mt.interpolate(x, 2, antialias=True), ArgumentError, "not match mode", "nearest"),
    (lambda x: mt.interpolate(x, (2, 2, 2)), ArgumentError, "one per spatial axis", "2 numbers"),
    (lambda x: mt.interpolate(x, 0), ShapeError, "must be at least 1", "(0, 0)"),
    (lambda x: mt.interpolate(x[:, :0], 2), ShapeError, "must be at least 1", "(2, 0, 5, 7)"),
    (lambda x: mt.interpolate(x.long(), 2), DTypeError, "floating-point", "int64"),
    (lambda x: mt.interpolate(x, 2, recompute_scale_factor=True), ArgumentError, "given with size",
     "size=2"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3, 5, 7))
    assert detail in str(caught.value)
