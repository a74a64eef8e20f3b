"""Every elementwise operation on every shape: 0-d, sizes of 0 and 1, strided memory."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

import minitorch_attn as mt

SHAPES = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normal(x):
    return np.vectorize(lambda v: (1 + math.erf(v / math.sqrt(2))) / 2, otypes=["float64"])(x)


ONE = {
    "abs": np.abs, "ceil": np.ceil, "cos": np.cos, "exp": np.exp, "expm1": np.expm1,
    "floor": np.floor, "gelu": lambda x: x * normal(x), "log": np.log, "log10": np.log10,
    "log1p": np.log1p, "log2": np.log2, "logsigmoid": lambda x: np.log(sigmoid(x)),
    "neg": np.negative, "reciprocal": lambda x: 1 / x, "relu": lambda x: np.maximum(x, 0),
    "round": np.round, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": sigmoid, "sign": np.sign,
    "silu": lambda x: x * sigmoid(x), "sin": np.sin, "softplus": lambda x: np.log1p(np.exp(x)),
    "sqrt": np.sqrt, "square": np.square, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
    "erf": lambda x: 2 * normal(math.sqrt(2) * x) - 1,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1),
}  # fmt: skip
TWO = {
    "floor_divide": np.floor_divide, "remainder": np.remainder, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "logaddexp": np.logaddexp,
}  # fmt: skip


def leaf(values, device):
    return mt.tensor(values, device=device, requires_grad=True)


@pytest.mark.parametrize("name", ONE)
@settings(max_examples=12, deadline=None)
@given(shape=SHAPES, turned=st.booleans(), dtype=st.sampled_from(["float64", "float32"]))
def test_one_operand(name, shape, turned, dtype, device):
    values = np.random.default_rng(0).uniform(0.1, 2, shape).astype(dtype)
    x = leaf(values, device)
    y = getattr(mt, name)(x.T if turned else x)
    wanted = np.asarray(ONE[name](values.T if turned else values))
    assert y.shape == wanted.shape and y.dtype == values.dtype
    np.testing.assert_allclose(y.numpy(), wanted, rtol=2e-5 if dtype == "float32" else 1e-12)
    y.sum().backward()
    assert x.grad.shape == shape and x.grad.dtype == values.dtype
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("name", TWO)
@settings(max_examples=15, deadline=None)
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3))
def test_two_operands(name, shapes, device):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.1, 2, shape) for shape in shapes.input_shapes)
    x, y = leaf(a, device), leaf(b, device)
    z = getattr(mt, name)(x, y)
    assert z.shape == shapes.result_shape
    np.testing.assert_allclose(z.numpy(), TWO[name](a, b), rtol=1e-12)
    z.sum().backward()
    assert x.grad.shape == a.shape and y.grad.shape == b.shape


@settings(max_examples=40, deadline=None)
@given(shapes=mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3))
def test_three_operands(shapes, device):
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape) for shape in shapes.input_shapes)
    x, y, z = (leaf(v, device) for v in (a, b, c))
    mask = mt.tensor(a > 0, device=device)
    results = [
        (mt.where(mask, y, z), np.where(a > 0, b, c)),
        (mt.lerp(x, y, z), a + c * (b - a)),
        (mt.clamp(x, y, z), np.minimum(np.maximum(a, b), c)),
        (mt.addcmul(x, y, z), a + b * c),
    ]
    for got, wanted in results:
        assert got.shape == shapes.result_shape
        np.testing.assert_allclose(got.numpy(), wanted, atol=1e-14)
    sum((got.sum() for got, _ in results), mt.tensor(0.0, device=device)).backward()
    for tensor in (x, y, z):
        assert tensor.grad.shape == tensor.shape
