"""erf equals math.erf, at the limits and for every shape and dtype."""

import math

import numpy as np
import pytest

from minitorch_attn import backend
from minitorch_attn.backend.devices import platform_of
from minitorch_attn.backend.platforms import Platform
from minitorch_attn.backend.special import _FITS, erf_host, normal_host

BLOCK = _FITS[np.dtype("float64")].block
math_erf = np.vectorize(math.erf, otypes=["float64"])


def points():
    tiny = 10.0 ** np.linspace(-320, 0, 2001)
    return np.concatenate([np.linspace(-7, 7, 20001), tiny, -tiny])


def test_float64_is_within_three_units_in_the_last_place():
    x = points()
    error = np.abs(erf_host(x) - math_erf(x))
    assert (error / np.spacing(np.abs(math_erf(x)))).max() <= 3
    assert error.max() <= 2.3e-16


def test_float32_is_within_1e_7():
    x = points().astype("float32")
    x = x[np.abs(x) > 1e-37]
    expected = math_erf(x.astype("float64"))
    error = np.abs(erf_host(x) - expected)
    assert error.max() <= 1e-7
    assert (error / np.maximum(np.abs(expected), 1e-37)).max() <= 2e-7


def test_values_from_a_table():
    # Abramowitz and Stegun, "Handbook of Mathematical Functions", table 7.1.
    table = {0.1: 0.1124629160, 0.5: 0.5204998778, 1.0: 0.8427007929, 1.5: 0.9661051465,
             2.0: 0.9953222650}  # fmt: skip
    np.testing.assert_allclose(erf_host(np.array(list(table))), list(table.values()), atol=5e-11)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_limits_and_signs(dtype):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        largest = np.finfo(dtype).max
        y = erf_host(np.array([np.inf, -np.inf, largest, -largest, 6.0, np.nan, 0.0, -0.0], dtype))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, [1, -1, 1, -1, 1, np.nan, 0, 0])
    assert np.signbit(y[7]) and not np.signbit(y[6])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_odd_and_never_decreasing(dtype):
    x = np.linspace(0, 6.5, 100001).astype(dtype)
    y = erf_host(x)
    np.testing.assert_array_equal(erf_host(-x), -y)
    assert np.diff(y).min() >= -2 * np.finfo(dtype).eps
    assert y.max() == 1


def test_integers_give_float64():
    y = erf_host(np.array([0, 1, -2]))
    np.testing.assert_allclose(y, [0, math.erf(1), math.erf(-2)], rtol=1e-15)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3), (BLOCK,), (BLOCK + 7,)])
@pytest.mark.parametrize("device", ["cpu", "strict"])
def test_shapes(shape, device):
    x = np.random.default_rng(0).standard_normal(shape)
    given = x.copy()
    y = backend.to_host(backend.erf(backend.from_host(x, device)))
    assert y.shape == shape
    np.testing.assert_allclose(y, math_erf(x), rtol=1e-15, atol=0)
    np.testing.assert_array_equal(x, given)


def test_views_and_out():
    x = np.random.default_rng(0).standard_normal((4, 6))
    np.testing.assert_array_equal(erf_host(x.T[::2]), erf_host(x).T[::2])
    expected = erf_host(x)
    assert erf_host(x, out=x) is x
    np.testing.assert_array_equal(x, expected)
    target = np.zeros((6, 4)).T
    with pytest.raises(ValueError, match="contiguous"):
        erf_host(x, out=target)


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 2.3e-16), ("float32", 1e-7)])
def test_the_normal_distribution_function(dtype, bound):
    x = np.linspace(-9, 9, 20001).astype(dtype)
    expected = (1 + math_erf(x.astype("float64") / math.sqrt(2))) / 2
    y = normal_host(x)
    assert y.dtype == dtype and np.abs(y - expected).max() <= bound
    assert normal_host(np.array([np.inf, -np.inf, 0.0], dtype)).tolist() == [1, 0, 0.5]


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (BLOCK + 7,)])
@pytest.mark.parametrize("device", ["cpu", "strict"])
def test_normal_on_every_device(shape, device):
    x = np.random.default_rng(0).standard_normal(shape)
    given = x.copy()
    y = backend.to_host(backend.normal(backend.from_host(x, device)))
    assert y.shape == shape
    np.testing.assert_allclose(y, (1 + math_erf(x / math.sqrt(2))) / 2, atol=1e-15)
    np.testing.assert_array_equal(x, given)
    composed = Platform.normal(platform_of(x), x)  # that of a device without its own
    np.testing.assert_allclose(y, composed, atol=1e-15)
