"""Bitwise selection between arrays."""

import numpy as np
import pytest

from minitorch_attn.backend import from_host, to_host
from minitorch_attn.backend.select import where

NAN, INF = float("nan"), float("inf")
SIZES = [0, 3, 4095, 4096, 10007]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_as_numpy(size, dtype, rng, device):
    mask = rng.random(size) > 0.5
    a, b = (rng.uniform(-9, 9, size).astype(dtype) for _ in range(2))
    m, x, y = (from_host(v, device) for v in (mask, a, b))
    for left, right, wanted in [
        (x, y, np.where(mask, a, b)),
        (x, 0.0, np.where(mask, a, 0.0)),
        (0.0, y, np.where(mask, 0.0, b)),
        (x, -2.5, np.where(mask, a, -2.5)),
        (1, y, np.where(mask, 1, b)),
    ]:
        got = to_host(where(m, left, right))
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("shapes", [((71, 67), (67,), (71, 1)), ((67,), (71, 67), ()),
                                    ((71, 1), (1, 67), (71, 67))])  # fmt: skip
def test_broadcasting(shapes, rng, device):
    mask = rng.random(shapes[0]) > 0.5
    a, b = (rng.uniform(-9, 9, shape) for shape in shapes[1:])
    got = where(*(from_host(v, device) for v in (mask, a, b)))
    np.testing.assert_array_equal(to_host(got), np.where(mask, a, b))


@pytest.mark.parametrize("size", [3, 5000])
def test_nan_and_infinity_stay_where_they_are(size, device):
    mask = np.arange(size) % 2 == 0
    m, bad = from_host(mask, device), from_host(np.full(size, NAN), device)
    np.testing.assert_array_equal(to_host(where(m, bad, 0.0)), np.where(mask, NAN, 0.0))
    np.testing.assert_array_equal(to_host(where(m, 0.0, bad)), np.where(mask, 0.0, NAN))
    np.testing.assert_array_equal(to_host(where(m, bad, -INF)), np.where(mask, NAN, -INF))


def test_strided_and_transposed_arrays(rng):
    mask, a = rng.random((99, 101)).T > 0.5, rng.uniform(-1, 1, (99, 202))[:, ::2].T
    np.testing.assert_array_equal(where(mask, a, 0.0), np.where(mask, a, 0.0))
    np.testing.assert_array_equal(where(mask, a, -a), np.where(mask, a, -a))
