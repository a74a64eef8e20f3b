"""GELU and the other gated activations."""

import math

import numpy as np
import pytest
from op_table import Case, Within, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, IndexRangeError, ShapeError
from minitorch_attn.ops.gelu import Gelu, GeluTanh, Silu

WIDE = Within((2, 3, 5), -4, 4)
normal = np.vectorize(lambda x: (1 + math.erf(x / math.sqrt(2))) / 2, otypes=[np.float64])


def gelu(x):
    return (x * normal(x)).astype(x.dtype)


def gelu_tanh(x):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return x * (1 + np.tanh(u)) / 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


CASES = [
    Case("gelu", mt.gelu, gelu, WIDE),
    Case("gelu of 0-d", mt.gelu, gelu, ()),
    Case("gelu of nothing", mt.gelu, gelu, (0, 3)),
    Case("gelu tanh", lambda x: mt.gelu(x, approximate="tanh"), gelu_tanh, WIDE),
    Case("gelu tanh of 0-d", lambda x: mt.gelu(x, approximate="tanh"), gelu_tanh, ()),
    Case("gelu tanh of nothing", lambda x: mt.gelu(x, approximate="tanh"), gelu_tanh, (0, 3)),
    Case("silu", mt.silu, lambda x: x * sigmoid(x), WIDE),
    Case("silu of 0-d", mt.silu, lambda x: x * sigmoid(x), ()),
    Case("mish", mt.mish, lambda x: x * np.tanh(np.log1p(np.exp(x))), WIDE),
    Case("hardswish", mt.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6, WIDE),
    Case("glu", mt.glu, lambda x: x[..., :3] * sigmoid(x[..., 3:]), (2, 6)),
    Case("glu, dim 0", lambda x: mt.glu(x, 0), lambda x: x[:1] * sigmoid(x[1:]), (2, 3)),
    Case("glu of nothing", mt.glu, lambda x: x, (2, 0)),
]

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("fused", [Gelu, GeluTanh, Silu])
def test_fused_is_composed(fused, make):
    x = make(2, 3, 5, low=-4, high=4)
    y, twin = fused.apply(x), fused.composed(None, x)
    np.testing.assert_allclose(y.numpy(), twin.numpy(), rtol=1e-13, atol=1e-15)
    g = make(2, 3, 5, requires_grad=False)
    ours, composed = mt.autograd.grad(y, x, g), mt.autograd.grad(twin, x, g)
    np.testing.assert_allclose(ours[0].numpy(), composed[0].numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("fused", [Gelu, GeluTanh, Silu])
def test_backward_leaves_its_gradient_as_it_was(fused, make):
    x, g = make(2, 3), make(2, 3, requires_grad=False)
    before = g.numpy().copy()
    fused.apply(x).backward(g)
    np.testing.assert_array_equal(g.numpy(), before)


def test_far_from_0(device):
    x = mt.tensor([-100.0, -40.0, 40.0, 100.0], device=device, requires_grad=True)
    for function in (mt.gelu, lambda x: mt.gelu(x, approximate="tanh"), mt.silu, mt.mish):
        y = function(x)
        np.testing.assert_allclose(y.numpy(), np.float32([0, 0, 40, 100]), atol=1e-12)
        (grad,) = mt.autograd.grad(y.sum(), x)
        np.testing.assert_allclose(grad.numpy(), np.float32([0, 0, 1, 1]), atol=1e-12)


def test_hardswish_at_its_corners(device):
    x = mt.tensor([-3.0, 3.0], device=device, requires_grad=True)
    mt.hardswish(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 1])


def test_arguments_that_make_no_sense(make):
    with pytest.raises(ArgumentError, match="approximate"):
        mt.gelu(make(2), approximate="sigmoid")
    with pytest.raises(ShapeError, match="must be even"):
        mt.glu(make(2, 3))
    with pytest.raises(IndexRangeError, match="glu"):
        mt.glu(make(2, 3), 2)
