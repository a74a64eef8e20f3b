"""Queries, keys and values.

Three matrix products turn the tokens h into queries, keys and values:

    q = h W_q,   k = h W_k,   v = h W_v

`Project` computes all three. `forward` is correct, and so are three of the four gradients. Read
the gradcheck report, then find and fix the one mistake below.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class Project(Function):
    """Computes q, k and v from one input."""

    @staticmethod
    def forward(ctx, h, w_q, w_k, w_v):
        # h: (batch, token, width)   each w: (width, out)   each result: (batch, token, out)
        ctx.save(h, w_q, w_k, w_v)
        return h @ w_q, h @ w_k, h @ w_v

    @staticmethod
    def backward(ctx, grad_q, grad_k, grad_v):
        h, w_q, w_k, w_v = ctx.saved
        grad_h = np.zeros_like(h)
        grad_weights = []
        for grad, weight in [(grad_q, w_q), (grad_k, w_k), (grad_v, w_v)]:
            grad_h = grad @ weight.swapaxes(0, 1)
            grad_weights.append((h.swapaxes(1, 2) @ grad).sum(axis=0))
        return grad_h, *grad_weights


def project(h, w_q, w_k, w_v):
    """Compute the queries, keys and values of all tokens."""
    return Project.apply(h, w_q, w_k, w_v)


if __name__ == "__main__":
    h = mt.randn(2, 5, 4, dtype=mt.float64, requires_grad=True)
    weights = [mt.randn(4, 3, dtype=mt.float64, requires_grad=True) for _ in range(3)]
    print(gradcheck_report(project, (h, *weights)).facts())
