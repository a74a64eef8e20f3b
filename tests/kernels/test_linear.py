"""Linear kernel against the composed version, on a GPU."""

import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt
from minitorch_attn.nn import functional as F

pytestmark = pytest.mark.gpu
SIZES = [  # leading axes, in, out
    ((1,), 1, 1), ((2,), 1, 2), ((3,), 2, 1), ((0,), 3, 5), ((3,), 0, 5), ((3,), 5, 0), ((), 3, 5),
    ((7,), 5, 31), ((65,), 3, 33), ((2, 3, 11), 5, 37), ((129,), 2, 9),
]  # fmt: skip


@pytest.mark.parametrize("lead, width, out", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_sizes(make, lead, width, out, dtype, with_bias):
    x, weight = make(*lead, width, dtype=dtype), make(out, width, dtype=dtype)
    bias = make(out, dtype=dtype) if with_bias else None
    assert_kernel_equals_composed(F.linear, "Linear", x, weight, bias)


def test_float16(make):
    tensors = [make(*shape, dtype="float16") for shape in ((13, 5), (7, 5), (7,))]
    assert_kernel_equals_composed(F.linear, "Linear", *tensors, tolerance=4e-3)


def test_strided_and_offset_input(make):
    x, weight, bias = make(5, 7, 3), make(5, 11), make(23)
    assert_kernel_equals_composed(
        lambda x, w, b: F.linear(x.permute(2, 1, 0), w.T, b[1::2]), "Linear", x, weight, bias
    )


def test_only_some_gradients(make):
    for wanted in range(3):
        tensors = [
            make(*s, requires_grad=i == wanted) for i, s in enumerate([(7, 3), (5, 3), (5,)])
        ]
        assert_kernel_equals_composed(lambda x, w, b: F.linear(x, w, b).sin(), "Linear", *tensors)


def test_a_gradient_with_the_same_number_everywhere(make):
    x, weight, bias = make(7, 3), make(5, 3), make(5)
    (grad,) = mt.autograd.grad(F.linear(x, weight, bias).sum(), bias)
    assert grad.tolist() == [7.0] * 5


def test_launches(make):
    cupysim = pytest.importorskip("cupysim")
    x, weight, bias = [make(*s, dtype="float32") for s in ((7, 3), (5, 3), (5,))]
    x.requires_grad_(False)  # a leaf would receive a copy of its gradient
    cotangent = mt.ones(7, 5, device=x.device)
    cupysim.reset()
    y = F.linear(x, weight, bias)
    assert sum(cupysim.launches().values()) == 1
    cupysim.reset()
    y.backward(cotangent)
    assert sum(cupysim.launches().values()) == 1
