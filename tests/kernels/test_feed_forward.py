"""Feed-forward kernel against the composed version, on a GPU."""

import numpy as np
import pytest
from kernel_checks import assert_kernel_equals_composed, without_kernel

import minitorch_attn as mt
from minitorch_attn.backend.kernel_table import kernels
from minitorch_attn.ops.feed_forward import ACTIVATIONS, FeedForward, FeedForwardInBlocks

pytestmark = pytest.mark.gpu
SIZES = [  # leading axes, in, hidden, out
    ((1,), 1, 1, 1), ((2,), 1, 2, 1), ((1,), 2, 1, 2), ((0,), 3, 5, 2), ((3,), 5, 0, 2),
    ((), 3, 7, 2), ((7,), 5, 31, 3), ((65,), 3, 33, 2), ((2, 3, 11), 5, 37, 13), ((129,), 2, 9, 3),
]  # fmt: skip


def inputs(make, lead, width, hidden, out, biases=True, **settings):
    shapes = (*lead, width), (hidden, width), (hidden,), (out, hidden), (out,)
    return [make(*s, **settings) if biases or len(s) > 1 or i == 0 else None
            for i, s in enumerate(shapes)]  # fmt: skip


def call_of(activation, function=FeedForward):
    return lambda *tensors: function.apply(*tensors, activation=activation)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("biases", [False, True])
def test_sizes(make, sizes, activation, biases):
    tensors = inputs(make, *sizes, biases=biases)
    assert_kernel_equals_composed(call_of(activation), "FeedForward", *tensors)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dtypes(make, dtype, activation):
    tensors = inputs(make, (13,), 5, 7, 3, dtype=dtype)
    tolerance = 1e-2 if dtype == "float16" else None
    assert_kernel_equals_composed(call_of(activation), "FeedForward", *tensors, tolerance=tolerance)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_in_blocks(make, activation):
    call = call_of(activation, FeedForwardInBlocks)
    tensors = inputs(make, (13,), 5, 7, 3)
    assert_kernel_equals_composed(call, "FeedForwardInBlocks", *tensors)


def test_strided_and_offset_input(make):
    tensors = make(5, 7, 3), make(5, 11), make(23), make(11, 2), make(3)
    assert_kernel_equals_composed(
        lambda x, w1, b1, w2, b2: mt.feed_forward(
            x.permute(2, 1, 0), w1.T, b1[1::2], w2.T, b2[1:]
        ),
        "FeedForward", *tensors,
    )  # fmt: skip


def test_only_some_gradients(make):
    for wanted in range(5):
        tensors = inputs(make, (7,), 3, 5, 2)
        for i, x in enumerate(tensors):
            x.requires_grad_(i == wanted)
        assert_kernel_equals_composed(
            lambda *tensors: call_of("gelu")(*tensors).sin(), "FeedForward", *tensors
        )


def test_no_gradient(make):
    tensors = inputs(make, (7,), 3, 5, 2, requires_grad=False)
    assert_kernel_equals_composed(call_of("silu"), "FeedForward", *tensors)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_and_infinities_as_composed(device, activation):
    eye = mt.tensor(np.eye(1, dtype="float32"), device=device)
    values = np.array([[0.0], [-0.0], [np.inf], [-np.inf], [np.nan], [3e38], [-3e38], [-200]])

    def value_and_grads():
        found = []
        for cotangent in (1.0, np.inf, np.nan):
            x = mt.tensor(values.astype("float32"), requires_grad=True, device=device)
            bias = mt.zeros(1, requires_grad=True, device=device)
            y = FeedForward.apply(x, eye, bias, eye, None, activation=activation)
            y.backward(mt.full((8, 1), cotangent, device=device))
            found += [y.detach().numpy(), x.grad.numpy(), bias.grad.numpy()]
        return found

    found = value_and_grads()
    function, kernel = without_kernel("FeedForward")
    try:
        expected = value_and_grads()
    finally:
        kernels[function] = kernel
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_gradients_are_equal_bit_for_bit_in_every_run(make):
    tensors = inputs(make, (300,), 11, 37, 5, dtype="float32")
    found = []
    for _ in range(2):
        y = mt.feed_forward(*tensors)
        found.append(mt.autograd.grad(y.sin().sum(), tensors))
    assert all((a == b).all().item() for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("function", [FeedForward, FeedForwardInBlocks])
def test_launches(make, function):
    cupysim = pytest.importorskip("cupysim")
    tensors = inputs(make, (7,), 3, 5, 2, dtype="float32")
    tensors[0].requires_grad_(False)  # a leaf would receive a copy of its gradient
    cotangent = mt.ones(7, 2, device=tensors[0].device)
    cupysim.reset()
    y = call_of("gelu", function)(*tensors)
    assert (sum(cupysim.launches().values()), cupysim.summary()["cublas"][0]) == (2, 2)
    cupysim.reset()
    y.backward(cotangent)
    assert (sum(cupysim.launches().values()), cupysim.summary()["cublas"][0]) == (2, 3)
