"""Checks of the LayerNorm assignment; the expected values come from the library or a formula."""

import numpy as np

from minitorch_attn.grader.build.checking import check, operation_check

NORM = "minitorch_attn.ops.layer_norm:LayerNorm"
LINEAR = "minitorch_attn.ops.linear:Linear"
GELU = "minitorch_attn.ops.gelu:Gelu"


def norm(name, rng, shape=(3, 5, 7), row_axes=1, weight=True, bias=True, grad=False, **options):
    """Create a check of layer normalization with a random input, weight and bias."""
    eps = 1e-2  # large enough to affect the result
    row = shape[len(shape) - row_axes :]
    x = options.pop("x", 2 * rng.normal(size=shape) + 0.5)
    arguments = {
        "x": x,
        "weight": (1 + rng.normal(size=row)).astype(x.dtype) if weight else None,
        "bias": rng.normal(size=row).astype(x.dtype) if bias else None,
    }
    grad = rng.normal(size=shape) if grad else None
    keywords = {"eps": eps, "row_axes": row_axes}
    return operation_check(name, NORM, arguments, keywords, grad, **options)


def normalized(x, eps):
    """Compute LayerNorm in NumPy, without weight and bias."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def norm_forward(rng):
    x = rng.normal(size=(3, 5, 7))
    plain = {"output": normalized(x, 1e-2)}
    return [
        norm("weight and bias", rng),
        norm("no bias", rng, bias=False),
        norm("no parameters", rng, weight=False, bias=False, x=x, expected=plain),
    ]


def norm_forward_hard(rng):
    x = rng.normal(size=(3, 5, 7))
    return [
        norm("far from 0", rng, x=x + 1e6, rtol=1e-8),
        norm("two axes", rng, row_axes=2),
        norm("float32", rng, x=x.astype("float32"), rtol=1e-5),
        norm("equal features", rng, x=np.repeat(x[..., :1], 7, -1)),
        norm("shifted input", rng, weight=False, bias=False, x=x + 3.0,
             expected={"output": normalized(x, 1e-2)}),
    ]  # fmt: skip


def large_norm(rng, name="large"):
    return norm(name, rng, shape=(5, 20_000), grad=True)


def norm_backward(rng):
    return [norm("weight and bias", rng, grad=True), large_norm(rng)]


def norm_backward_shapes(rng):
    return [
        norm("two axes", rng, row_axes=2, grad=True),
        norm("no parameters", rng, weight=False, bias=False, grad=True),
        norm("weight alone", rng, grad=True, needs=["weight"]),
        norm("x alone", rng, grad=True, needs=["x"]),
        large_norm(rng),
    ]


def norm_backward_large(rng):
    return [norm("large", rng, shape=(2, 3, 120, 160), row_axes=2, grad=True)]


def linear(name, rng, lead=(4,), sizes=(5, 3), bias=True, backward=False, **options):
    arguments = {
        "x": rng.normal(size=(*lead, sizes[0])),
        "weight": rng.normal(size=(sizes[1], sizes[0])),
        "bias": rng.normal(size=sizes[1]) if bias else None,
    }
    grad = rng.normal(size=(*lead, sizes[1])) if backward else None
    return operation_check(name, LINEAR, arguments, {}, grad, **options)


def linear_forward(rng):
    return [
        linear("two axes", rng),
        linear("four axes", rng, lead=(2, 3, 4)),
        linear("no bias", rng, bias=False),
    ]


def linear_backward(rng):
    return [
        linear("two axes", rng, backward=True),
        linear("four axes", rng, lead=(2, 3, 4), backward=True),
        linear("no bias", rng, bias=False, backward=True),
        linear("weight alone", rng, backward=True, needs=["weight"]),
        linear("large", rng, lead=(40, 50), sizes=(96, 64), backward=True),
    ]


def linear_backward_large(rng):
    return [linear("large", rng, lead=(64, 32), sizes=(128, 96), backward=True)]


def gelu_forward(rng):
    return [
        operation_check("around 0", GELU, {"x": 2 * rng.normal(size=(5, 7))}, {}),
        operation_check("far away", GELU, {"x": 40 * rng.normal(size=(5, 7))}, {}),
    ]


def gelu_backward(rng):
    made = []
    for name, x in {"around 0": 2 * rng.normal(size=(5, 7)), "large": rng.normal(size=(400, 700)),
                    "far away": 40 * rng.normal(size=(5, 7)),
                    "farther": 1e8 * rng.normal(size=(5, 7))}.items():  # fmt: skip
        made.append(operation_check(name, GELU, {"x": x}, {}, rng.normal(size=x.shape)))
    return [*made, gelu_tail(rng)]


def gelu_tail(rng):
    """Check GELU at very negative x, where 1 + erf rounds to 0, so that finite differences are 0.
    The derivative there is x times the Gaussian density, to within 1 %.
    """
    x, grad = rng.uniform(-10.2, -10, (5, 7)), rng.normal(size=(5, 7))
    return operation_check("in the tail", GELU, {"x": x}, {}, grad, rtol=0.05)


def order(inputs, settings):
    """Run `FeedForward` with four distinct functions as its layers, to test their order."""
    import minitorch_attn as mt

    class Step(mt.nn.Module):
        def __init__(self, factor, term):
            super().__init__()
            self.factor, self.term = factor, term

        def forward(self, x):
            return x * self.factor + self.term

    block = mt.nn.FeedForward(3, 5, "relu")
    steps = [Step(*step) for step in settings["steps"]]
    block.linear1, block.dropout, block.linear2 = steps[:3]
    block.activation = lambda x: x * x
    return {"output": block(mt.tensor(inputs["x"])).numpy()}


def feed_forward(rng):
    settings = {"steps": rng.normal(size=(3, 2)).tolist()}
    return [check("order", order, {"x": rng.normal(size=(2, 3))}, settings)]
