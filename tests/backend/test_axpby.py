"""BLAS's axpby computes a x + b y as NumPy does, and leaves NumPy what BLAS cannot compute."""

import numpy as np
import pytest

from minitorch_attn.backend import axpby as module
from minitorch_attn.backend import from_host, to_host
from minitorch_attn.backend.axpby import SMALLEST, axpby

ROUNDING = {"float32": 3e-7, "float64": 5e-16}


@pytest.fixture
def calls(monkeypatch):
    """List of the sizes for which BLAS is called."""
    sizes = []

    def recorded(function):
        return lambda size, *rest: (sizes.append(size), function(size, *rest))

    functions = {char: recorded(function) for char, function in module._functions().items()}
    if not functions:
        pytest.skip("this NumPy's BLAS does not have axpby")
    monkeypatch.setattr(module, "_functions", lambda: functions)
    return sizes


def pair(rng, size, dtype):
    return rng.standard_normal((2, size)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "size", [0, 1, 2, 7, SMALLEST - 1, SMALLEST, SMALLEST + 1, 2 * SMALLEST + 3]
)
@pytest.mark.parametrize("a, b", [(0.3, 0.7), (1.0, -2.0), (-5.0, 1.0), (1.0, 1.0)])
def test_is_the_weighted_sum(rng, device, size, dtype, a, b):
    x, y = (from_host(array, device) for array in pair(rng, size, dtype))
    before = to_host(x).astype("float64"), to_host(y).astype("float64")
    axpby(a, x, b, y, work=from_host(np.empty(size, dtype), device))
    expected = a * before[0] + b * before[1]
    np.testing.assert_array_equal(to_host(x), before[0])
    assert to_host(y).dtype == dtype
    largest = np.abs(a * before[0]) + np.abs(b * before[1])  # the rounding of the two products
    assert (np.abs(to_host(y) - expected) <= ROUNDING[dtype] * largest).all()


@pytest.mark.parametrize("size", [5, SMALLEST])
def test_work_may_be_x(rng, device, size):
    x, y = pair(rng, size, "float64")
    expected = 0.3 * x + 0.7 * y
    y, work = from_host(y, device), from_host(x, device)
    axpby(0.3, work, 0.7, y, work)
    np.testing.assert_allclose(to_host(y), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_arrays_are_computed_by_blas(rng, calls, dtype):
    x, y = pair(rng, SMALLEST, dtype)
    axpby(0.3, x, 0.7, y, np.empty_like(x))
    axpby(0.3, x[1:], 0.7, y[1:], np.empty_like(x[1:]))
    assert calls == [SMALLEST]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_bit_is_the_same_for_any_split(rng, calls, dtype):
    """BLAS computes the last elements of an array like the others."""
    x, whole = pair(rng, SMALLEST + 40, dtype)
    y = whole.copy()
    axpby(0.3, x, 0.7, whole, np.empty_like(x))
    for start in range(20):
        part = y[start : start + SMALLEST + start % 7].copy()
        axpby(0.3, x[start : start + part.size], 0.7, part, np.empty_like(part))
        np.testing.assert_array_equal(part, whole[start : start + part.size])
    assert len(calls) == 21


def unlike(rng, kind):
    """Return x, y, work of which BLAS cannot or need not compute the sum."""
    x, y = pair(rng, 2 * SMALLEST, "float64")
    if kind == "every second element":
        x, y = x[::2], y[::2]
    elif kind == "reversed":
        y = y[::-1]
    elif kind == "two dtypes":
        x = x.astype("float32")
    elif kind == "float16":
        x, y = x.astype("float16"), y.astype("float16")
    elif kind == "other byte order":
        x, y = (array.astype(array.dtype.newbyteorder()) for array in (x, y))
    elif kind == "unaligned":
        x, y = (np.empty(array.nbytes + 1, "uint8")[1:].view("float64") for array in (x, y))
        x[...], y[...] = pair(rng, 2 * SMALLEST, "float64")
    elif kind == "one row for two":
        x, y = x[:SMALLEST], y.reshape(2, SMALLEST)
    return x, y, np.empty_like(x)


@pytest.mark.parametrize("kind", [
    "every second element", "reversed", "two dtypes", "float16", "other byte order", "unaligned",
    "one row for two",
])  # fmt: skip
def test_numpy_computes_what_blas_cannot(rng, calls, kind):
    x, y, work = unlike(rng, kind)
    expected = 0.3 * x.astype("float64") + 0.7 * y.astype("float64")
    axpby(0.3, x, 0.7, y, work)
    tolerance = {"float16": 2e-3, "two dtypes": 1e-6}.get(kind, 1e-14)
    np.testing.assert_allclose(y.astype("float64"), expected, rtol=tolerance, atol=tolerance)
    assert calls == []


def test_an_array_that_cannot_be_written_is_not_changed(rng, calls):
    x, y = pair(rng, SMALLEST, "float32")
    y.flags.writeable = False
    before = y.copy()
    with pytest.raises(ValueError, match="read-only"):
        axpby(0.3, x, 0.7, y, np.empty_like(x))
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("a, b, bad", [(0.0, 1.0, "x"), (0.5, 0.0, "y"), (0.0, 0.0, "x")])
def test_nan_stays_even_if_its_factor_is_zero(rng, a, b, bad):
    """As for NumPy and PyTorch. BLAS would not read the array."""
    x, y = pair(rng, SMALLEST, "float32")
    (x if bad == "x" else y)[3] = np.nan
    axpby(a, x, b, y, np.empty_like(x))
    assert np.isnan(y[3]) and np.isfinite(np.delete(y, 3)).all()


def test_without_blas_functions_numpy_computes(rng, monkeypatch):
    monkeypatch.setattr(module, "find_functions", lambda *names: None)
    module._functions.cache_clear()
    try:
        x, y = pair(rng, SMALLEST, "float64")
        expected = 0.7 * y + 0.3 * x
        axpby(0.3, x, 0.7, y, np.empty_like(x))
        assert module._functions() == {}
    finally:
        module._functions.cache_clear()
    np.testing.assert_array_equal(y, expected)
