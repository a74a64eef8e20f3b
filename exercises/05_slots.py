"""Softmax over the queries.

In slot attention the queries compete for each key. The scores have shape (batch, query, key), and
the weights of one key sum to 1 over axis 1, the queries. `Softmax` must work along any axis. Read
the gradcheck report, then find and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class Softmax(Function):
    """Softmax: weights that sum to 1 along one axis."""

    @staticmethod
    def forward(ctx, x, *, axis):
        exp_x = np.exp(x - x.max(axis=axis, keepdims=True))
        y = exp_x / exp_x.sum(axis=axis, keepdims=True)
        ctx.axis = axis
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        shared = (grad_y * y).sum(axis=-1, keepdims=True)
        return y * (grad_y - shared)


def compete(scores):
    """Compute the weights of each key, which sum to 1 over the queries."""
    return Softmax.apply(scores, axis=1)


if __name__ == "__main__":
    scores = mt.randn(2, 3, 5, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(compete, (scores,)).facts())
