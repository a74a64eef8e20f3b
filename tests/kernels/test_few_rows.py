"""The kernel of linear layers for a few rows against the composed version, on a GPU."""

import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt
from minitorch_attn.kernels.few_rows import ROWS, are_few
from minitorch_attn.nn import functional as F

pytestmark = pytest.mark.gpu
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}


@pytest.mark.parametrize("rows", [1, 2, 3, ROWS, ROWS + 1])
@pytest.mark.parametrize(("width", "out"), [(1, 1), (2, 1), (1, 2), (31, 7), (33, 9), (257, 65)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear(make, rows, width, out, dtype, with_bias):
    x, weight = make(rows, width, dtype=dtype), make(out, width, dtype=dtype)
    bias = make(out, dtype=dtype) if with_bias else None
    tolerance = TOLERANCE[dtype] * max(width**0.5, 1)
    assert_kernel_equals_composed(F.linear, "Linear", x, weight, bias, tolerance=tolerance)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "silu"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("lead", [(1, 1), (3,), ()])
def test_feed_forward(make, activation, dtype, lead):
    shapes = (*lead, 37), (131, 37), (131,), (5, 131), (5,)
    inputs = [make(*shape, dtype=dtype, requires_grad=False) for shape in shapes]
    for biases in (True, False):
        if not biases:
            inputs[2] = inputs[4] = None
        assert_kernel_equals_composed(
            lambda *a: mt.feed_forward(*a, activation), "FeedForward", *inputs,
            kinds=["forward"], tolerance=10 * TOLERANCE[dtype],
        )  # fmt: skip


def test_which_rows_are_few(make):
    weight = make(3, 5).array
    assert are_few(make(ROWS, 5).array, weight) and not are_few(make(ROWS + 1, 5).array, weight)
    assert not are_few(make(0, 5).array, weight) and not are_few(make(1, 3).array, weight.T)


def test_a_token_takes_no_product():
    cupysim = pytest.importorskip("cupysim")
    network = mt.nn.FeedForward(6).to("cuda")
    with mt.no_grad():
        for _ in range(2):
            cupysim.reset()
            network(mt.ones(1, 1, 6, device="cuda"))
    found = cupysim.summary()
    assert "cublas" not in found and found["launch"][0] == 3  # ones, and two layers
