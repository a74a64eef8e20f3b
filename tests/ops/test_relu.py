"""ReLU and other piecewise activations."""

import numpy as np
import pytest
from op_table import Case, Within, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.ops.relu import Relu

SELU = 1.0507009873554805, 1.6732632423543772
WIDE = Within((2, 3, 5), -4, 8)


def elu(x, scale=1.0, alpha=1.0, rate=1.0):
    below = alpha * (np.exp(rate * np.minimum(x, 0)) - 1)
    return scale * np.where(x > 0, x, below.astype(x.dtype))


CASES = [
    Case("relu", mt.relu, lambda x: np.where(x > 0, x, 0), (2, 3)),
    Case("relu of 0-d", mt.relu, lambda x: np.maximum(x, 0), ()),
    Case("relu of nothing", mt.relu, lambda x: x, (0, 3)),
    Case("leaky_relu", mt.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x), (2, 3)),
    Case("leaky_relu, upwards", lambda x: mt.leaky_relu(x, -0.3),
         lambda x: np.where(x > 0, x, -0.3 * x), (2, 3)),
    Case("prelu", mt.prelu, lambda x, w: np.where(x > 0, x, w * x), (2, 3), (1,)),
    Case("prelu of channels", mt.prelu,
         lambda x, w: np.where(x > 0, x, w[:, None, None] * x), (2, 3, 5, 7), (3,)),
    Case("prelu of 0-d", mt.prelu, lambda x, w: np.where(x > 0, x, w[0] * x), (), (1,)),
    Case("prelu of nothing", mt.prelu, lambda x, w: x, (0, 3), (3,)),
    Case("elu", mt.elu, elu, WIDE),
    Case("elu 0.7", lambda x: mt.elu(x, 0.7), lambda x: elu(x, alpha=0.7), WIDE),
    Case("celu", lambda x: mt.celu(x, 0.7), lambda x: elu(x, alpha=0.7, rate=1 / 0.7), WIDE),
    Case("selu", mt.selu, lambda x: elu(x, *SELU), WIDE),
    Case("hardtanh", lambda x: mt.hardtanh(x, -1, 2), lambda x: np.clip(x, -1, 2), WIDE),
    Case("relu6", mt.relu6, lambda x: np.clip(x, 0, 6), WIDE),
    Case("hardsigmoid", mt.hardsigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1), WIDE),
]  # fmt: skip


test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_relu_of_many_elements(make):
    """Large arrays are masked by their bits."""
    x = make(61, 71)
    y = mt.relu(x)
    np.testing.assert_array_equal(y.numpy(), np.maximum(x.numpy(), 0))
    assert mt.autograd.gradcheck(mt.relu, x, fast=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape",
    [(), (1,), (0,), (3, 0, 2), (2, 1), (1, 2), (2, 64, 5, 5), (3, 2, 1031), (61, 17, 1, 1)],
)
def test_relu_of_every_shape_and_layout(shape, dtype, make):
    x = make(*shape, dtype=dtype)
    for view in (x, x.transpose(0, -1) if x.ndim else x, x[..., ::2] if x.ndim else x):
        y, expected = mt.relu(view), np.maximum(view.numpy(), 0)
        assert y.dtype == dtype and y.shape == expected.shape
        np.testing.assert_array_equal(y.numpy(), expected)
        array = view.array.copy()
        Relu.value(array, in_place=True)
        np.testing.assert_array_equal(mt.tensor(array).numpy(), expected)


CORNERS = [
    (mt.relu, [0.0], [0.0]),
    (mt.leaky_relu, [0.0], [0.01]),
    (mt.elu, [0.0], [1.0]),
    (lambda x: mt.elu(x, 0.5), [0.0], [0.5]),
    (mt.hardtanh, [-1.0, 1.0], [0.0, 0.0]),
    (mt.relu6, [0.0, 6.0], [0.0, 0.0]),
    (mt.hardsigmoid, [-3.0, 3.0], [0.0, 0.0]),
]


@pytest.mark.parametrize(("function", "corner", "slope"), CORNERS)
def test_slope_at_the_corner(function, corner, slope, device):
    x = mt.tensor(corner, device=device, requires_grad=True)
    function(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.float32(slope))


def test_slope_of_prelu_at_the_corner_is_the_learned_one(device):
    x = mt.tensor([[0.0, -0.0]], device=device, requires_grad=True)
    slopes = mt.tensor([0.25, -3.0], device=device, requires_grad=True)
    mt.prelu(x, slopes).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), slopes.detach().numpy()[None])
    np.testing.assert_array_equal(slopes.grad.numpy(), [0.0, 0.0])


@pytest.mark.parametrize("name", ["elu", "celu", "selu"])
def test_far_above_0_both_derivatives_are_finite(name, device):
    x = mt.tensor([1000.0], device=device, requires_grad=True)
    (first,) = mt.autograd.grad(getattr(mt, name)(x).sum(), x, create_graph=True)
    (second,) = mt.autograd.grad(first.sum(), x)
    assert first.item() >= 1 and second.item() == 0


@pytest.mark.parametrize("size", [3, 5000])
def test_relu_and_nan(size, device):
    x = mt.tensor(np.full(size, np.nan), device=device, requires_grad=True)
    y = mt.relu(x)
    assert np.isnan(y.numpy()).all()
    below = mt.tensor(np.full(size, -1.0), device=device, requires_grad=True)
    mt.relu(below).backward(mt.tensor(np.full(size, np.nan), device=device))
    np.testing.assert_array_equal(below.grad.numpy(), np.zeros(size))  # closed to NaN


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh"])
def test_integers_stay_integers(name, device):
    y = getattr(mt, name)(mt.tensor([-2, 3], device=device))
    assert y.dtype == np.int64


@pytest.mark.parametrize("name", ["elu", "celu", "selu", "leaky_relu", "hardsigmoid"])
def test_integers_become_the_default_float(name, device):
    assert getattr(mt, name)(mt.tensor([-2, 3], device=device)).dtype == np.float32


def test_celu_needs_an_alpha(make):
    with pytest.raises(ArgumentError, match="alpha"):
        mt.celu(make(2), 0)


@pytest.mark.parametrize("name", ["elu", "celu", "selu"])
def test_the_second_derivative_at_the_kink_is_0(name, device):
    x = mt.tensor(np.array([0.0, -0.5]), requires_grad=True, device=device)
    (first,) = mt.autograd.grad(getattr(mt, name)(x).sum(), x, create_graph=True)
    (second,) = mt.autograd.grad(first.sum(), x)
    assert second.numpy()[0] == 0 and second.numpy()[1] > 0.5


@pytest.mark.parametrize(("shape", "weight"), [((2, 3), (2,)), ((3,), (3,)), ((2, 3), (1, 3))])
def test_prelu_refuses_slopes_for_other_channels(shape, weight, make):
    with pytest.raises(ShapeError, match="prelu: weight"):
        mt.prelu(make(*shape), make(*weight))


def test_prelu_refuses_two_dtypes(make):
    with pytest.raises(DTypeError, match="prelu: input and weight"):
        mt.prelu(make(2, 3), make(3, dtype="float32"))
