"""Trigonometric functions, and the error function."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from op_table import Case, Leaf, checks

import minitorch_attn as mt

erf = np.vectorize(math.erf, otypes=[np.float64])

normal = NormalDist()


def quantile(x):
    """erfinv(x), by the quantile of the normal distribution in the standard library."""
    values = [normal.inv_cdf((1 + v) / 2) / math.sqrt(2) for v in x.astype("float64")]
    return np.array(values, x.dtype)


CASES = [
    Case("sin", mt.sin, np.sin, (2, 3)),
    Case("cos", mt.cos, np.cos, (2, 3)),
    Case("tan", mt.tan, np.tan, (2, 3)),
    Case("erf", mt.erf, lambda x: erf(x).astype(x.dtype), (2, 3)),
    Case("erfinv", lambda x: mt.erfinv(mt.erf(x)), lambda x: x, (2, 3)),
    Case("erfinv of the tails", mt.erfinv, quantile, Leaf([0.86, -0.99, 0.9999])),
    Case("sin of 0-d", mt.sin, np.sin, ()),
    Case("cos of nothing", mt.cos, np.cos, (3, 0)),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "erf", "erfinv"])
def test_integers_become_the_default_float(name, device):
    assert getattr(mt, name)(mt.tensor([1, 2], device=device)).dtype == np.float32


def test_erfinv_undoes_erf_to_the_last_digits(device):
    x = np.concatenate([np.linspace(-1, 1, 2001), 1 - 10.0 ** -np.arange(3, 16), [1e-300, 0.0]])
    y = mt.erfinv(mt.tensor(x, device=device)).numpy()
    inside = np.abs(x) < 1
    # An error of the inverse shows in erf as multiplied by the density there.
    wrong = np.abs(erf(y[inside]) - x[inside])
    assert (wrong <= 4e-16 * np.maximum(np.abs(x[inside]), np.exp(-(y[inside] ** 2)))).all()
    np.testing.assert_array_equal(y[~inside], np.copysign(np.inf, x[~inside]))
    assert math.copysign(1, mt.erfinv(mt.tensor(-0.0, device=device)).item()) == -1


def test_erfinv_outside_its_domain(device):
    y = mt.erfinv(mt.tensor([1.5, -2.0, float("nan")], device=device)).numpy()
    assert np.isnan(y).all()
