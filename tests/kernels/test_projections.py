"""Kernels of the projections of one input against the composed version, on a GPU."""

import pytest
from kernel_checks import assert_kernel_equals_composed

import minitorch_attn as mt
from minitorch_attn.ops.projections import Projections

pytestmark = pytest.mark.gpu
SIZES = [  # leading axes, in, out of each layer
    ((1,), 1, (1,)), ((2,), 1, (2, 1)), ((4,), 37, (5, 7, 7)), ((5,), 37, (5, 7, 7)),
    ((0,), 3, (5, 5, 5)), ((3,), 0, (5, 2)), ((3,), 5, (0, 3)), ((), 3, (5, 5)),
    ((2, 3, 11), 5, (37, 2, 31, 1)), ((129,), 2, (9, 65, 3)), ((4,), 131, (65, 3)),
]  # fmt: skip


def layers(make, width, outs, dtype, biases=True):
    found = [(make(out, width, dtype=dtype), make(out, dtype=dtype)) for out in outs]
    return [p for weight, bias in found for p in (weight, bias if biases else None)]


def call(x, *parameters):
    """All outputs side by side."""
    return mt.cat(Projections.apply(x, *parameters), -1)


@pytest.mark.parametrize(("lead", "width", "outs"), SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("biases", [True, False])
def test_sizes(make, lead, width, outs, dtype, biases):
    x = make(*lead, width, dtype=dtype)
    parameters = layers(make, width, outs, dtype, biases)
    assert_kernel_equals_composed(call, "Projections", x, *parameters)


def test_float16(make):
    for rows in (3, 13):
        inputs = make(rows, 5, dtype="float16"), *layers(make, 5, (7, 3), "float16")
        assert_kernel_equals_composed(call, "Projections", *inputs, tolerance=4e-3)


@pytest.mark.parametrize("rows", [3, 7])
def test_views(make, rows):
    def of_views(x, *parameters):
        views = [p.T if p.ndim == 2 else p[1::2] for p in parameters]
        return mt.cat([y.sin() for y in Projections.apply(x.permute(2, 1, 0), *views)], -1)

    shapes = (5, rows, 1), (5, 11), (23,), (5, 2), (5,)
    assert_kernel_equals_composed(of_views, "Projections", *[make(*shape) for shape in shapes])


def test_some_gradients(make):
    for wanted in range(5):
        shapes = (7, 3), (5, 3), (5,), (2, 3), (2,)
        inputs = [make(*s, requires_grad=i == wanted) for i, s in enumerate(shapes)]
        assert_kernel_equals_composed(lambda *a: call(*a).sin(), "Projections", *inputs)


def test_an_output_that_is_not_used(make):
    x, *parameters = make(7, 3), *layers(make, 3, (5, 2), "float64")
    assert_kernel_equals_composed(
        lambda *inputs: Projections.apply(*inputs)[1], "Projections", x, *parameters
    )


def test_launches():
    cupysim = pytest.importorskip("cupysim")
    attention = mt.nn.Attention(6, 2).to("cuda")
    x = mt.ones(1, 7, 6, device="cuda")
    counts = []
    for tokens in (7, 1):
        with mt.no_grad():
            for _ in range(2):
                cupysim.reset()
                attention(x[:, :tokens])
        found = cupysim.summary()
        counts.append((found["launch"][0], found.get("cublas", (0, 0))[0]))
    assert counts == [(3, 2), (3, 0)]  # biases, attention, bias; the same with the products
