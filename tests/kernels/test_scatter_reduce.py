"""The kernel of scatter with a maximum or minimum, on a GPU; see also tests/ops."""

import numpy as np
import pytest

from minitorch_attn.backend import from_host, to_host
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.ops.scatter_reduce import extreme_at

pytestmark = pytest.mark.gpu


def expected(y, grid, src, largest):
    y = y.copy()
    with np.errstate(invalid="ignore"):
        (np.maximum if largest else np.minimum).at(y, grid, src)
    return y


def found(y, grid, src, largest):
    moved = from_host(y, "cuda")
    kernels[extreme_at].run(
        moved, tuple(from_host(g, "cuda") for g in grid), from_host(src, "cuda"), largest
    )
    return to_host(moved)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "places"), [((1,), 1), ((2, 1), 2), ((3, 5), 257), ((7,), 0)])
def test_many_values_for_one_place(rng, dtype, largest, shape, places):
    y = rng.standard_normal(shape).astype(dtype)
    grid = tuple(rng.integers(0, n, places) for n in shape)
    src = rng.standard_normal(places).astype(dtype)
    np.testing.assert_array_equal(found(y, grid, src, largest), expected(y, grid, src, largest))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("largest", [True, False])
def test_nan_infinity_and_the_last_digit(dtype, largest):
    """`fmaxf` would drop NaN, and 1 + 2^-50 in float64."""
    y = np.array([np.nan, 0.0, np.inf, 1.0, 1.0], dtype)
    grid = (np.array([0, 1, 2, 3, 4, 4]),)
    src = np.array([5.0, np.nan, -np.inf, 1 + 2.0**-50, 1 - 2.0**-50, 3.0], dtype)
    np.testing.assert_array_equal(found(y, grid, src, largest), expected(y, grid, src, largest))
