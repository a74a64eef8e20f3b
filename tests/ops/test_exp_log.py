"""Exponentials and logarithms."""

import numpy as np
import pytest
from op_table import Case, Within, checks

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError

POSITIVE = Within((2, 3), 0.5, 2)

CASES = [
    Case("exp", mt.exp, np.exp, (2, 3)),
    Case("exp of 0-d", mt.exp, np.exp, ()),
    Case("exp of nothing", mt.exp, np.exp, (0, 3)),
    Case("expm1", mt.expm1, np.expm1, (2, 3)),
    Case("log", mt.log, np.log, POSITIVE),
    Case("log of 0-d", mt.log, np.log, Within((), 0.5, 2)),
    Case("log1p", mt.log1p, np.log1p, Within((2, 3), -0.5, 2)),
    Case("log2", mt.log2, np.log2, POSITIVE),
    Case("log10", mt.log10, np.log10, POSITIVE),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "log2", "log10"])
def test_integers_become_the_default_float(name, device):
    y = getattr(mt, name)(mt.tensor([1, 2], device=device))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.numpy(), getattr(np, name)(np.float32([1, 2])), rtol=1e-6)
    with pytest.raises(DTypeError, match=rf"{name}: input is not a tensor"):
        getattr(mt, name)(1.0)


def test_small_arguments_keep_their_digits(device):
    x = mt.tensor([1e-12, -1e-12], device=device, dtype="float64")
    np.testing.assert_allclose(mt.expm1(x).numpy(), x.numpy(), rtol=1e-11)
    np.testing.assert_allclose(mt.log1p(x).numpy(), x.numpy(), rtol=1e-11)


def test_ends_of_the_line(device):
    x = mt.tensor([-np.inf, np.inf, np.nan], device=device, dtype="float64")
    np.testing.assert_array_equal(mt.exp(x).numpy(), [0, np.inf, np.nan])
    np.testing.assert_array_equal(mt.expm1(x).numpy(), [-1, np.inf, np.nan])
    with np.errstate(all="ignore"):
        logs = mt.log(mt.tensor([0.0, -1.0, np.inf], device=device)).numpy()
    np.testing.assert_array_equal(logs, np.float32([-np.inf, np.nan, np.inf]))
