"""Convolution, constant norm, shortcut and ReLU: equal to the separate operations."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import ops
from minitorch_attn.errors import ShapeError
from minitorch_attn.gradcheck import gradcheck, gradgradcheck
from minitorch_attn.ops.conv_norm_relu import conv_norm_relu

# input shape, weight shape, settings of the convolution
CASES = {
    "pointwise": ((2, 3, 5, 4), (7, 3, 1, 1), {}),
    "3 x 3": ((2, 3, 5, 4), (7, 3, 3, 3), {"padding": 1}),
    "stride": ((2, 3, 7, 5), (5, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0)}),
    "pointwise, stride": ((2, 3, 5, 4), (2, 3, 1, 1), {"stride": 2}),
    "dilation": ((1, 2, 7, 5), (3, 2, 3, 2), {"dilation": (2, 3), "padding": "same"}),
    "groups": ((2, 6, 5, 4), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((2, 5, 5, 4), (5, 1, 3, 3), {"groups": 5, "padding": 1}),
    "one axis": ((2, 3, 7), (5, 3, 2), {}),
    "three axes": ((1, 2, 3, 5, 4), (3, 2, 2, 1, 3), {}),
    "one position": ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    "no images": ((0, 3, 5, 4), (7, 3, 3, 3), {}),
    "no kernels": ((2, 3, 5, 4), (0, 3, 1, 1), {}),
}


def separate(x, weight, mean, var, scale, bias, shortcut, eps=1e-5, **how):
    convolve = (ops.conv1d, ops.conv2d, ops.conv3d)[x.ndim - 3]
    y = ops.batch_norm(convolve(x, weight, None, **how), mean, var, scale, bias, eps=eps)
    return ops.relu(y if shortcut is None else y + shortcut)


def drawn(case, make, dtype="float64", affine=True, shortcut=True):
    """Inputs of `conv_norm_relu` and the settings of the convolution."""
    shape, weight, how = CASES[case]
    x, w, out = make(*shape, dtype=dtype), make(*weight, dtype=dtype), weight[0]
    constant = {"dtype": dtype, "requires_grad": False}
    mean, var = make(out, **constant), make(out, low=0.5, high=2.0, **constant)
    scale, bias = (make(out, **constant) if affine else None for _ in range(2))
    z = None
    if shortcut:
        z = make(*separate(x, w, mean, var, scale, bias, None, **how).shape, dtype=dtype)
    return (x, w, mean, var, scale, bias, z), how


@pytest.mark.parametrize("shortcut", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_equals_the_separate_operations(case, dtype, affine, shortcut, make):
    inputs, how = drawn(case, make, dtype, affine, shortcut)
    before = [None if t is None else t.numpy().copy() for t in inputs]
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"atol": 1e-12}
    trained = [t for t in (*inputs[:2], inputs[-1]) if t is not None]
    got, expected = (f(*inputs, eps=0.1, **how) for f in (conv_norm_relu, separate))
    assert got.dtype == dtype and (got.numpy() >= 0).all()
    np.testing.assert_allclose(got.numpy(), expected.numpy(), **tolerance)
    cotangent = make(*got.shape, dtype=dtype, requires_grad=False)
    grads = [mt.autograd.grad((y * cotangent).sum(), trained) for y in (got, expected)]
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), **tolerance)
    for tensor, values in zip(inputs, before, strict=True):  # it works in the result's memory only
        assert tensor is None or np.array_equal(tensor.numpy(), values)


@pytest.mark.parametrize("case", ["pointwise", "3 x 3", "stride", "groups"])
def test_gradients(case, make):
    (x, w, mean, var, scale, bias, z), how = drawn(case, make)

    def fn(x, w, z):
        return conv_norm_relu(x, w, mean, var, scale, bias, z, **how)

    assert gradcheck(fn, (x, w, z), fast=True)
    assert gradgradcheck(fn, (x, w, z), fast=True)


@pytest.mark.parametrize("trained", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_gradients_of_some_inputs(trained, make):
    inputs, how = drawn("3 x 3", make)
    mine = [inputs[0], inputs[1], inputs[-1]]
    for i, tensor in enumerate(mine):
        tensor.requires_grad_(i in trained)
    asked = [mine[i] for i in trained]
    grads = [mt.autograd.grad(f(*inputs, **how).sum(), asked) for f in (conv_norm_relu, separate)]
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_a_frozen_kernel_does_not_keep_the_input(make):
    inputs, how = drawn("3 x 3", make)
    inputs[1].requires_grad_(False)
    y = conv_norm_relu(*inputs, **how)
    assert y.grad_fn.saved[0] is None
    inputs[1].requires_grad_(True)
    assert conv_norm_relu(*inputs, **how).grad_fn.saved[0] is inputs[0].array


def test_composed_version(make):
    """The step-through shows these operations."""
    inputs, how = drawn("3 x 3", make)
    with mt.trace(expand="ConvNormRelu") as recording:
        y = conv_norm_relu(*inputs, **how)
    assert [step.op for step in recording.steps] == ["Conv", "NormByRunning", "Add", "Relu"]
    np.testing.assert_allclose(y.numpy(), conv_norm_relu(*inputs, **how).numpy(), atol=1e-12)


def test_no_second_gradient_of_the_norm(make):
    inputs, how = drawn("3 x 3", make)
    inputs[4].requires_grad_()
    y = conv_norm_relu(*inputs, **how)
    (grad,) = mt.autograd.grad(y.sum(), [inputs[4]], allow_unused=True)
    assert grad is None


@pytest.mark.parametrize("shape", [(2, 7, 5, 1), (1, 7, 5, 4), (7, 1, 1), (4,), ()])
def test_shortcut_that_broadcasts(shape, make):
    inputs, how = drawn("3 x 3", make)
    z = make(*shape)
    results = [f(*inputs[:-1], z, **how) for f in (conv_norm_relu, separate)]
    np.testing.assert_allclose(results[0].numpy(), results[1].numpy(), atol=1e-12)
    cotangent = make(*results[0].shape)
    grads = [mt.autograd.grad((y * cotangent).sum(), [z])[0] for y in results]
    np.testing.assert_allclose(grads[0].numpy(), grads[1].numpy(), atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 7, 5, 3), (3, 7, 5, 4), (2, 2, 7, 5, 4), (1, 2, 7, 5, 4)])
def test_shortcut_of_another_shape(shape, make):
    inputs, how = drawn("3 x 3", make)
    with pytest.raises(ShapeError):
        conv_norm_relu(*inputs[:-1], make(*shape), **how)


def test_channels_must_match(make):
    inputs, how = drawn("3 x 3", make)
    with pytest.raises(ShapeError, match="conv_norm_relu: the channels of input and weight"):
        conv_norm_relu(make(2, 4, 5, 4), *inputs[1:], **how)
