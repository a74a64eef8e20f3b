"""Powers, roots and reciprocals."""

import numpy as np
import pytest
from op_table import Case, Leaf, Within, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError

POSITIVE = Within((2, 3), 0.5, 2)
EXPONENTS = [0, 1, 2, 3, 5, 11, -1, -2, 0.5, -0.5, 1.5, -2.3, 70]

CASES = [
    *[Case(f"pow {p}", lambda x, p=p: x**p, lambda x, p=p: x ** np.float64(p).astype(x.dtype),
           POSITIVE) for p in EXPONENTS],
    Case("pow 3 below 0", lambda x: x**3, lambda x: x * x * x, (2, 3)),
    Case("pow of 0-d", lambda x: mt.pow(x, 2), lambda x: x * x, ()),
    Case("pow of nothing", lambda x: mt.pow(x, 3), lambda x: x, (0, 3)),
    Case("pow of a number", lambda x: 2**x, lambda x: np.exp2(x), (2, 3)),
    Case("pow of tensors", mt.pow, np.power, POSITIVE, (2, 3)),
    Case("pow, broadcast", mt.pow, np.power, Within((2, 1, 5), 0.5, 2), (3, 1)),
    Case("pow of 0-d tensors", mt.pow, np.power, Within((), 0.5, 2), ()),
    Case("pow at exponent 0", mt.pow, np.power, POSITIVE, Leaf(np.zeros(3))),
    Case("square", mt.square, np.square, (2, 3)),
    Case("sqrt", mt.sqrt, np.sqrt, POSITIVE),
    Case("rsqrt", mt.rsqrt, lambda x: 1 / np.sqrt(x), POSITIVE),
    Case("reciprocal", mt.reciprocal, lambda x: 1 / x, POSITIVE),
    Case("reciprocal of 0-d", mt.reciprocal, lambda x: 1 / x, Within((), 0.5, 2)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def gradient(function, *values, device):
    """The gradients of the sum of a function at given values."""
    tensors = [mt.tensor(v, device=device, requires_grad=True, dtype="float64") for v in values]
    with np.errstate(all="ignore"):
        function(*tensors).sum().backward()
    return [t.grad.numpy() for t in tensors]


@pytest.mark.parametrize(
    ("exponent", "slope"), [(0, 0.0), (1, 1.0), (2, 0.0), (3, 0.0), (0.5, np.inf), (1.5, 0.0)]
)
def test_slope_of_a_power_at_0(exponent, slope, device):
    (grad,) = gradient(lambda x: x**exponent, [0.0], device=device)
    np.testing.assert_array_equal(grad, [slope])


def test_slopes_of_a_power_of_two_tensors_at_0(device):
    base, exponent = [0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0]
    by_base, by_exponent = gradient(mt.pow, base, exponent, device=device)
    np.testing.assert_array_equal(by_base, [0, 1, 0, 0])
    np.testing.assert_allclose(by_exponent, [0, 0, 0, np.log(2)])


def test_second_derivatives_of_a_power_are_finite_at_0(device):
    base = mt.tensor([0.0, 0.0], device=device, requires_grad=True)
    exponent = mt.tensor([0.0, 2.0], device=device, requires_grad=True)
    first = mt.autograd.grad(mt.pow(base, exponent).sum(), (base, exponent), create_graph=True)
    second = mt.autograd.grad((first[0] + first[1]).sum(), (base, exponent))
    assert all(np.isfinite(g.numpy()).all() for g in second)


def test_slope_of_a_power_of_a_number_keeps_the_dtype(device):
    x = mt.tensor([1.0, 3.0], device=device, requires_grad=True)
    (2.0**x).sum().backward()
    assert x.grad.dtype == np.float32
    np.testing.assert_allclose(x.grad.numpy(), np.log(2) * 2.0 ** x.numpy(), rtol=1e-6)


def test_sqrt_is_steep_at_0(device):
    (grad,) = gradient(mt.sqrt, [0.0, 4.0], device=device)
    np.testing.assert_array_equal(grad, [np.inf, 0.25])


def test_dtypes(device):
    whole = mt.tensor([1, 2, 3], device=device)
    assert (whole**2).dtype == np.int64
    np.testing.assert_array_equal((whole**3).numpy(), [1, 8, 27])
    assert (whole**2.0).dtype == np.float32
    assert (whole**whole).dtype == np.int64
    assert mt.sqrt(whole).dtype == np.float32
    assert mt.reciprocal(whole).dtype == np.float32
    assert mt.square(whole).dtype == np.int64
    assert mt.square(whole > 1).dtype == np.int64
    assert (2.0**whole).dtype == np.float32
    double = mt.tensor([1.0], device=device, dtype="float64")
    assert (double**0.5).dtype == (2**double).dtype == np.float64


def test_integers_have_no_negative_powers(device):
    with pytest.raises(ArgumentError, match="must not be negative"):
        mt.tensor([2], device=device) ** -1


def test_powers_by_products_agree_with_the_library(device, rng):
    x = rng.uniform(-2, 2, (7,))
    for exponent in range(-9, 10):
        got = (mt.tensor(x, device=device) ** exponent).numpy()
        np.testing.assert_allclose(got, x ** float(exponent), rtol=1e-13)


@pytest.mark.parametrize("power", [lambda x, p: x**p, mt.pow])
def test_integers_to_a_negative_power_in_a_tensor_are_refused(power, device):
    exponent = mt.tensor([1, -1], device=device)
    for base in (mt.tensor([2, 3], device=device), 2):
        with pytest.raises(ArgumentError, match="exponent must not be negative for integers"):
            power(base, exponent).numpy()  # a device reports it when it is read
    assert power(mt.tensor([2.0, 4.0], device=device), exponent).tolist() == [2.0, 0.25]
    assert power(2.0, exponent).tolist() == [2.0, 0.5]
    assert power(mt.tensor([2, 3], device=device), mt.tensor([3, 0], device=device)).tolist() == [
        8,
        1,
    ]
