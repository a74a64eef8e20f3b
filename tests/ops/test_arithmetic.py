"""Arithmetic, element by element: add, sub, mul, div, neg, abs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from op_table import Case, Within, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError

FAR = Within((2, 3, 5), 0.5, 2)  # away from 0

CASES = [
    Case("add", lambda a, b: a + b, lambda a, b: a + b, (2, 3), (2, 3)),
    Case("add, broadcast", mt.add, np.add, (2, 1, 5), (3, 1)),
    Case("add a number", lambda a: 2 + a + 1.5, lambda a: a + 3.5, (2, 3)),
    Case("add alpha", lambda a, b: mt.add(a, b, alpha=-3), lambda a, b: a - 3 * b, (2, 3), (3,)),
    Case("add 0-d", mt.add, np.add, (2, 3), ()),
    Case("add nothing", mt.add, np.add, (0, 3), (3,)),
    Case("add to itself", lambda a: a + a, lambda a: 2 * a, (2, 3)),
    Case("sub", lambda a, b: a - b, lambda a, b: a - b, (2, 3), (2, 3)),
    Case("sub, broadcast", mt.sub, np.subtract, (5,), (2, 3, 1)),
    Case("sub from a number", lambda a: 2 - a, lambda a: 2 - a, (2, 3)),
    Case("sub alpha", lambda a, b: mt.sub(a, b, alpha=0.5), lambda a, b: a - b / 2, (2, 3), (3,)),
    Case("mul", lambda a, b: a * b, lambda a, b: a * b, (2, 3), (2, 3)),
    Case("mul, broadcast", mt.mul, np.multiply, (2, 1, 5), (3, 1)),
    Case("mul by a number", lambda a: 3 * a * 0.5, lambda a: 1.5 * a, (2, 3)),
    Case("mul 0-d", mt.mul, np.multiply, (), ()),
    Case("mul nothing", mt.mul, np.multiply, (2, 0), (1,)),
    Case("mul by itself", lambda a: a * a, lambda a: a * a, (2, 3)),
    Case("div", lambda a, b: a / b, lambda a, b: a / b, (2, 3, 5), FAR),
    Case("div, broadcast", mt.div, np.divide, (2, 3, 5), Within((3, 1), 0.5, 2)),
    Case("div by a number", lambda a: a / 4, lambda a: a / 4, (2, 3)),
    Case("div of a number", lambda a: 3 / a, lambda a: 3 / a, FAR),
    Case("div 0-d", mt.div, np.divide, (), Within((), 0.5, 2)),
    Case("div, floored", lambda a, b: mt.div(a, b, rounding_mode="floor"), np.floor_divide,
         Within((2, 3), 3, 9), Within((3,), 0.6, 0.9), second=False),
    Case("div, truncated", lambda a, b: mt.div(a, b, rounding_mode="trunc"),
         lambda a, b: np.trunc(a / b), Within((2, 3), -9, -3), Within((3,), 0.6, 0.9),
         second=False),
    Case("neg", lambda a: -a, lambda a: -a, (2, 3)),
    Case("abs", lambda a: abs(a), np.abs, (2, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_abs_is_flat_at_the_kink(device):
    x = mt.tensor([-2.0, 0.0, 3.0], device=device, requires_grad=True)
    mt.abs(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [-1, 0, 1])


# The dtype of a result: PyTorch's table, worked out by its rules.
RESULTS = [
    (mt.add, ("float32", (2,)), ("float64", ()), "float32"),
    (mt.add, ("float32", (2,)), ("float64", (2,)), "float64"),
    (mt.add, ("int64", (2,)), ("float32", ()), "float32"),
    (mt.add, ("int32", (2,)), ("int64", ()), "int32"),
    (mt.add, ("int32", (2,)), ("int64", (2,)), "int64"),
    (mt.add, ("bool", (2,)), ("bool", (2,)), "bool"),
    (mt.add, ("bool", (2,)), ("int32", ()), "int32"),
    (mt.mul, ("int64", (2,)), 2.5, "float32"),
    (mt.mul, ("float64", (2,)), 2.5, "float64"),
    (mt.mul, ("int32", (2,)), 2, "int32"),
    (mt.mul, ("bool", (2,)), 2, "int64"),
    (mt.sub, ("float32", ()), 1, "float32"),
    (mt.div, ("int64", (2,)), ("int64", (2,)), "float32"),
    (mt.div, ("int64", (2,)), 2, "float32"),
    (mt.div, ("bool", (2,)), ("bool", (2,)), "float32"),
    (mt.div, ("int64", (2,)), ("float64", ()), "float64"),
    (mt.div, ("float32", (2,)), ("int64", (2,)), "float32"),
]


@pytest.mark.parametrize(("function", "a", "b", "wanted"), RESULTS)
def test_dtype(function, a, b, wanted, device):
    def operand(described):
        if not isinstance(described, tuple):
            return described
        dtype, shape = described
        return mt.tensor(np.ones(shape, dtype), device=device)

    assert function(operand(a), operand(b)).dtype == np.dtype(wanted)


def test_integers_divide_with_a_fraction_or_whole(device):
    a, b = mt.tensor([7, -7, 6], device=device), mt.tensor([2, 2, -3], device=device)
    np.testing.assert_array_equal(mt.div(a, b).numpy(), np.float32([3.5, -3.5, -2]))
    floored = mt.div(a, b, rounding_mode="floor")
    np.testing.assert_array_equal(floored.numpy(), [3, -4, -2])
    truncated = mt.div(a, b, rounding_mode="trunc")
    np.testing.assert_array_equal(truncated.numpy(), [3, -3, -2])
    assert floored.dtype == truncated.dtype == np.int64


def test_a_gradient_of_a_rounded_quotient_is_0_even_by_0(device):
    a = mt.tensor([1.0, -1.0], device=device, requires_grad=True)
    b = mt.tensor([0.0, 2.0], device=device, requires_grad=True)
    with np.errstate(divide="ignore"):
        mt.div(a, b, rounding_mode="trunc").backward(mt.tensor([1.0, 1.0], device=device))
    np.testing.assert_array_equal(a.grad.numpy(), [0, 0])
    np.testing.assert_array_equal(b.grad.numpy(), [0, 0])


def test_only_what_needs_a_gradient_is_differentiated(make):
    a, b = make(2, 3), make(2, 3, requires_grad=False)
    for function in (mt.add, mt.sub, mt.mul, mt.div):
        function(a, b).sum().backward()
        assert b.grad is None and a.grad is not None


def test_mul_saves_only_what_backward_needs(make):
    import weakref

    a, b = make(2, 3), make(2, 3, requires_grad=False)
    doubled = a + a
    watch = weakref.ref(doubled.array)
    y = doubled * b
    del doubled
    assert watch() is None  # the derivative by `doubled` is b
    y.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 2 * b.numpy())


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "floor_divide", "remainder", "pow"])
def test_shapes_that_do_not_broadcast(name, make):
    with pytest.raises(ShapeError, match=rf"{name}\(input, ") as caught:
        getattr(mt, name)(make(2, 3), make(2, 5))
    assert "(2, 3)" in str(caught.value) and "axis -1" in str(caught.value)


def test_arguments_that_make_no_sense(make):
    x = make(2)
    with pytest.raises(DTypeError, match="add: other is neither a tensor nor a number"):
        mt.add(x, "1")
    with pytest.raises(DTypeError, match="eq: other"):
        mt.eq(x, [1.0, 2.0])
    with pytest.raises(DTypeError, match="at least one operand must be a tensor"):
        mt.mul(2, 3)
    with pytest.raises(DTypeError, match="neg: input is not a tensor"):
        mt.neg(2.0)
    with pytest.raises(ArgumentError, match="rounding_mode"):
        mt.div(x, 2, rounding_mode="up")
    with pytest.raises(DTypeError, match="alpha"):
        mt.add(mt.tensor([1]), mt.tensor([2]), alpha=0.5)
    with pytest.raises(DTypeError, match="neg"):
        mt.neg(mt.tensor([True]))


SETTINGS = {
    "add": lambda x, v: x + v,
    "div": lambda x, v: x / v,
    "alpha": lambda x, v: mt.add(x, x, alpha=v),
    "pow": lambda x, v: x**v,
    "clamp": lambda x, v: x.clamp(v, v),
    "lerp": lambda x, v: mt.lerp(x, x, v),
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "where": lambda x, v: mt.where(x > 0, x, v),
    "leaky_relu": mt.leaky_relu,
    "elu": mt.elu,
    "celu": mt.celu,
    "hardtanh": lambda x, v: mt.hardtanh(x, -v, v),
    "softplus": mt.softplus,
    "var": lambda x, v: x.var(correction=v),
    "norm": lambda x, v: x.norm(v),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("scalar", [np.float64, np.float32, np.int64])
def test_numpys_scalars_do_not_widen(name, scalar, make):
    x = make(2, 3, dtype="float32", low=0.5, high=2)
    y = SETTINGS[name](x, scalar(3))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.numpy(), SETTINGS[name](x, 3).numpy(), rtol=1e-6)
    y.sum().backward()
    assert x.grad.dtype == np.float32


@settings(max_examples=40, deadline=None)
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3, min_side=0),
       name=st.sampled_from(["add", "sub", "mul", "div"]))  # fmt: skip
def test_broadcasting_is_numpys(shapes, name, device):
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(0.5, 2, shape) for shape in shapes.input_shapes)
    x, y = (mt.tensor(v, device=device, requires_grad=True) for v in (a, b))
    reference = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    z = getattr(mt, name)(x, y)
    assert z.shape == shapes.result_shape
    np.testing.assert_allclose(z.numpy(), reference(a, b))
    z.sum().backward()
    assert x.grad.shape == a.shape and y.grad.shape == b.shape
    if name == "add" and a.size:
        np.testing.assert_allclose(x.grad.numpy(), np.full(a.shape, z.numpy().size / a.size))


def test_a_number_wraps_into_an_integer_dtype_as_in_pytorch(device):
    x = mt.tensor(np.uint8([2, 200]), device=device)
    np.testing.assert_array_equal((x * -3).numpy(), np.uint8([250, 168]))
    np.testing.assert_array_equal(mt.add(x, x, alpha=-3).numpy(), np.uint8([252, 112]))
    half = mt.tensor(np.array([0.5, 0.5]), device=device)
    np.testing.assert_array_equal(mt.add(half, x, alpha=-3).numpy(), [-5.5, -599.5])
    np.testing.assert_array_equal((x < -1).numpy(), [True, True])  # -1 is 255
    np.testing.assert_array_equal((-1 / x).numpy(), np.float32([-0.5, -0.005]))


def test_booleans_are_not_subtracted(device):
    mask, x = mt.tensor([True, False], device=device), mt.tensor([1, 2], device=device)
    for call in (lambda: mask - x, lambda: x - mask, lambda: 1 - mask, lambda: x - True,
                 lambda: x.float() - mask, lambda: mask - mask):  # fmt: skip
        with pytest.raises(DTypeError, match="sub"):
            call()
