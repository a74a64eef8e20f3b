"""Softmax with a temperature.

A language model divides its scores by a temperature t. If t is less than 1, likely words become
even more likely.

    y_i = exp(x_i / t) / sum_j exp(x_j / t)

Here t = 0.5. Read the gradcheck report, then find and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class SharpSoftmax(Function):
    """softmax(x / t) along the last axis."""

    @staticmethod
    def forward(ctx, x, *, temperature):
        scaled = x / temperature
        exp_x = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
        y = exp_x / exp_x.sum(axis=-1, keepdims=True)
        ctx.temperature = temperature
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return y * grad_y / ctx.temperature


def sharp_softmax(x):
    """Compute the softmax with temperature 0.5 along the last axis."""
    return SharpSoftmax.apply(x, temperature=0.5)


if __name__ == "__main__":
    x = mt.randn(2, 3, 5, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(sharp_softmax, (x,)).facts())
