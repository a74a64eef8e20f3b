"""Softmax.

    y_i = exp(x_i) / sum_j exp(x_j)

The derivative dy_i/dx_i is y_i (1 - y_i), as for the logistic function, and the code below uses
it. Yet the gradients are wrong. Read the gradcheck report, then find and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class Softmax(Function):
    """Softmax: weights that sum to 1 along the last axis."""

    @staticmethod
    def forward(ctx, x):
        exp_x = np.exp(x - x.max(axis=-1, keepdims=True))
        y = exp_x / exp_x.sum(axis=-1, keepdims=True)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return y * (1 - y) * grad_y


def softmax(x):
    """Compute the softmax along the last axis of x."""
    return Softmax.apply(x)


if __name__ == "__main__":
    x = mt.randn(2, 3, 5, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(softmax, (x,)).facts())
