"""Casts, copies and moves: cast, to, clone, alias."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import grad
from minitorch_attn.errors import ArgumentError

STEPS = {
    "cast": lambda x: x.to("float32"),
    "move": lambda x: x.to("strict" if x.device.type == "cpu" else "cpu"),
    "move and cast": lambda x: x.to("strict" if x.device.type == "cpu" else "cpu", "float32"),
    "clone": lambda x: x.clone(),
    "copy": lambda x: x.to("float64", copy=True),
    "alias": lambda x: x.view_as_alias(),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_the_gradient_comes_back_as_it_is(step, make):
    x, cotangent = make(2, 3), make(2, 3)
    y = step(x)
    np.testing.assert_array_equal(y.numpy(), x.numpy().astype(y.dtype))
    there = step(cotangent).detach().requires_grad_()
    (back,) = grad(y, x, there, create_graph=True)
    assert (back.dtype, back.device) == (x.dtype, x.device)
    np.testing.assert_array_equal(back.numpy(), there.numpy())
    (again,) = grad(back, there, cotangent.detach())
    assert (again.dtype, again.device) == (y.dtype, y.device)
    np.testing.assert_array_equal(again.numpy(), there.numpy())


def test_nothing_to_do_gives_the_tensor_itself(make):
    x = make(2)
    assert x.to(x.dtype) is x.to(x.device) is x.to(x) is x
    assert x.to(x, copy=True) is not x


def test_whole_numbers_carry_no_gradient(make):
    assert not make(2).to("int64").requires_grad


def test_neither_dtype_nor_device(make):
    with pytest.raises(ArgumentError, match="neither a dtype nor a device"):
        make(2).to("float23")


def test_like_another_tensor(device):
    x = mt.tensor([1, 2], device=device)
    assert x.to(mt.tensor([0.5], dtype="float64")).dtype == np.float64


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wide, narrow", [("float32", "float16"), ("float64", "float32")])
def test_numbers_too_large_for_the_dtype_become_infinite_without_a_warning(wide, narrow, device):
    largest = float(mt.finfo(narrow).max)
    x = mt.tensor([1.0, -4 * largest], dtype=wide, device=device, requires_grad=True)
    y = mt.cast(x, narrow)
    assert y.tolist() == [1.0, -float("inf")]
    mt.cast(y, wide).backward(mt.tensor([2.0, 4 * largest], dtype=wide, device=device))
    assert x.grad.tolist() == [2.0, float("inf")]
