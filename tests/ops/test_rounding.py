"""Rounding and remainders: sign, floor, ceil, trunc, round, floor_divide, remainder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, Leaf, Within, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError

STEPPED = Within((2, 3), 0.1, 0.4)

CASES = [
    Case("sign", mt.sign, np.sign, (2, 3)),
    Case("floor", mt.floor, np.floor, STEPPED),
    Case("ceil", mt.ceil, np.ceil, STEPPED),
    Case("trunc", mt.trunc, np.trunc, STEPPED),
    Case("round", mt.round, np.round, STEPPED),
    Case("round of 0-d", mt.round, np.round, Within((), 0.1, 0.4)),
    Case("round of nothing", mt.round, np.round, (0, 3)),
    Case("floor_divide", mt.floor_divide, np.floor_divide, Within((2, 3), 3.1, 3.9), Leaf([1.0])),
    Case("remainder", mt.remainder, np.remainder, Leaf([[5.5, -5.5, 7.25]]), Leaf([[3.0], [-2.0]])),
    Case("fmod", mt.fmod, np.fmod, Leaf([[5.5, -5.5, 7.25]]), Leaf([[3.0], [-2.0]])),
    Case("fmod of a number", lambda x: mt.fmod(x, 2), lambda x: np.fmod(x, 2), Leaf([0.5, -1.25])),
    Case("remainder of a number", lambda x: x % 2, lambda x: x % 2, Leaf([0.5, 1.25, -0.75])),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "trunc", "round"])
def test_a_step_has_a_gradient_of_zeros(name, device):
    x = mt.tensor([-1.5, 0.0, 2.0], device=device, requires_grad=True)
    getattr(mt, name)(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, 0])


def test_a_whole_quotient_has_a_gradient_of_zeros(device):
    a = mt.tensor([[5.0], [7.0]], device=device, requires_grad=True)
    b = mt.tensor([2.0, 3.0], device=device, requires_grad=True)
    for one in (a, b):  # alone, and both together
        (slope,) = mt.autograd.grad(mt.floor_divide(a, b).sum(), one)
        np.testing.assert_array_equal(slope.numpy(), np.zeros(one.shape))
    mt.floor_divide(a.detach(), b).sum().backward()
    np.testing.assert_array_equal(b.grad.numpy(), [0, 0])
    mt.floor_divide(a, b.detach()).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), [[0], [0]])


def test_the_second_derivative_of_a_step_is_zero(device):
    x = mt.tensor([1.5, 2.0], device=device, requires_grad=True)
    cotangent = mt.tensor([1.0, 1.0], device=device, requires_grad=True)
    (zero,) = mt.autograd.grad(mt.floor(x), x, cotangent, create_graph=True)
    (back,) = mt.autograd.grad(zero.sum(), cotangent)
    np.testing.assert_array_equal(back.numpy(), [0, 0])


def test_halves_are_rounded_to_even(device):
    x = mt.tensor([-1.5, -0.5, 0.5, 1.5, 2.5], device=device)
    np.testing.assert_array_equal(mt.round(x).numpy(), [-2, 0, 0, 2, 2])
    tenths = mt.round(mt.tensor([0.16, -1.24], device=device), decimals=1)
    np.testing.assert_allclose(tenths.numpy(), np.float32([0.2, -1.2]))


def test_sign_of_nan_and_booleans(device):
    x = mt.tensor([np.nan, -np.inf, 0.0], device=device)
    np.testing.assert_array_equal(mt.sign(x).numpy(), [0, -1, 0])
    assert mt.sign(x > 0).dtype == bool


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "sign"])
def test_whole_numbers_stay_what_they_are(name, device):
    y = getattr(mt, name)(mt.tensor([-1, 0, 1], device=device))
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y.numpy(), [-1, 0, 1])


@pytest.mark.parametrize("name", ["floor_divide", "fmod", "remainder"])
def test_integers_are_not_divided_by_0(name, device):
    with pytest.raises(ArgumentError, match="other must not be 0"):
        getattr(mt, name)(mt.tensor([1], device=device), 0)


NUMBERS = st.integers(-20, 20)


@settings(max_examples=50, deadline=None)
@given(a=NUMBERS, b=NUMBERS.filter(bool), whole=st.booleans())
def test_division_is_pythons(a, b, whole, device):
    x, y = (mt.tensor([v if whole else float(v)], device=device) for v in (a, b))
    assert mt.floor_divide(x, y).item() == a // b
    assert mt.remainder(x, y).item() == a % b
    assert mt.div(x, y, rounding_mode="trunc").item() == int(a / b)


@pytest.mark.parametrize("operation", [
    mt.floor_divide, mt.fmod, mt.remainder, lambda a, b: a // b, lambda a, b: a % b,
    lambda a, b: mt.div(a, b, rounding_mode="floor"),
    lambda a, b: mt.div(a, b, rounding_mode="trunc"),
])  # fmt: skip
@pytest.mark.parametrize("divisor", [[0, 2], [2, 0], 0])
@pytest.mark.parametrize("dividend", [[3, 4], 3])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers_divided_by_a_tensor_with_a_zero_are_refused(
    operation, divisor, dividend, dtype, device
):
    a, b = mt.tensor(dividend, dtype=dtype, device=device), mt.tensor(divisor, device=device)
    for first in (a, dividend) if isinstance(dividend, int) else (a,):
        with pytest.raises(ArgumentError, match="other must not be 0 for integers"):
            operation(first, b).numpy()  # a device reports it when it is read


def test_a_division_by_zero_that_has_a_result(device):
    a, b = mt.tensor([3, 4], device=device), mt.tensor([0.0, 2.0], device=device)
    assert (a // b).tolist() == [float("inf"), 2.0]
    empty = mt.tensor([], dtype="int64", device=device)
    assert (empty // empty).tolist() == (empty % empty).tolist() == []
    assert (mt.tensor([7, -7], device=device) // mt.tensor([2, 2], device=device)).tolist() == [
        3,
        -4,
    ]
