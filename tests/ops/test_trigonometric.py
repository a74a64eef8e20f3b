"""Trigonometric functions, and the error function."""

import math

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt

erf = np.vectorize(math.erf, otypes=[np.float64])

CASES = [
    Case("sin", mt.sin, np.sin, (2, 3)),
    Case("cos", mt.cos, np.cos, (2, 3)),
    Case("tan", mt.tan, np.tan, (2, 3)),
    Case("erf", mt.erf, lambda x: erf(x).astype(x.dtype), (2, 3)),
    Case("sin of 0-d", mt.sin, np.sin, ()),
    Case("cos of nothing", mt.cos, np.cos, (3, 0)),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "erf"])
def test_integers_become_the_default_float(name, device):
    assert getattr(mt, name)(mt.tensor([1, 2], device=device)).dtype == np.float32
