"""LayerNorm and RMSNorm kernels against the composed versions, on a GPU."""

import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt
from minitorch_attn.nn import functional as F

pytestmark = pytest.mark.gpu
SHAPES = [
    (1, 1),
    (2, 1),
    (3, 2),
    (5, 31),
    (7, 32),
    (3, 33),
    (2, 3, 257),
    (70, 37),
    (0, 5),
    (1, 1031),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("parameters", [0, 1, 2])
def test_layer_norm(make, shape, dtype, parameters):
    x = make(*shape, dtype=dtype)
    weight, bias = [make(shape[-1], dtype=dtype) if i < parameters else None for i in range(2)]
    assert_kernel_equals_composed(
        lambda x, w, b: F.layer_norm(x, shape[-1:], w, b, 1e-5), "LayerNorm", x, weight, bias
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaled", [False, True])
def test_rms_norm(make, shape, dtype, scaled):
    x = make(*shape, dtype=dtype)
    weight = make(shape[-1], dtype=dtype) if scaled else None
    assert_kernel_equals_composed(
        lambda x, w: F.rms_norm(x, shape[-1:], w, 1e-6), "RMSNorm", x, weight
    )


def test_several_axes_in_a_row_and_strided_input(make):
    x, weight, bias = make(7, 5, 3, 2), make(3, 5), make(3, 5)
    assert_kernel_equals_composed(
        lambda x, w, b: F.layer_norm(x.permute(0, 3, 2, 1), (3, 5), w, b, 1e-5),
        "LayerNorm", x, weight, bias,
    )  # fmt: skip


def test_columns_are_added_in_the_same_order_every_time(make):
    x, weight, bias = (
        make(300, 37, dtype="float32"),
        make(37, dtype="float32"),
        make(37, dtype="float32"),
    )
    found = []
    for _ in range(2):
        found.append(
            mt.autograd.grad(F.layer_norm(x, (37,), weight, bias).sin().sum(), (weight, bias))
        )
    assert all((a == b).all().item() for a, b in zip(*found, strict=True))
