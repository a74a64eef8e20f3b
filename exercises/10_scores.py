"""Attention scores.

    S = Q K^T / sqrt(d)

Here d is the width of a head. A model with this operation trains, but some weights change too
much in each step. Read the gradcheck report, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class Scores(Function):
    """Scaled dot product of each query with each key."""

    @staticmethod
    def forward(ctx, query, key):
        # query: (batch, heads, query, d)   key: (batch, heads, key, d)
        ctx.save(query, key)
        return query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5

    @staticmethod
    def backward(ctx, grad_scores):
        query, key = ctx.saved
        grad_query = grad_scores @ key
        grad_key = grad_scores.swapaxes(-1, -2) @ query
        return grad_query, grad_key


def attention(query, key, value):
    """Compute the attention of queries to keys and values."""
    return Scores.apply(query, key).softmax(-1) @ value


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, n, 6, dtype=mt.float64, requires_grad=True) for n in (5, 7, 7))
    print(gradcheck_report(attention, (q, k, v)).facts())
