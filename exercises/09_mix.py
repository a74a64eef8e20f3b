"""Weights times values.

The last step of attention is a matrix product:

    context = P V

P contains the weights, one row per query, and V the values, one row per key. Read the gradcheck
report, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class Mix(Function):
    """Weighted sum of the values for each query."""

    @staticmethod
    def forward(ctx, weights, value):
        # weights: (batch, heads, query, key)   value: (batch, heads, key, head_dim)
        ctx.save(weights, value)
        return weights @ value

    @staticmethod
    def backward(ctx, grad_context):
        weights, value = ctx.saved
        grad_weights = grad_context @ value.swapaxes(-1, -2)
        grad_value = weights @ grad_context
        return grad_weights, grad_value


def attention(query, key, value):
    """Compute self-attention, with equal numbers of queries and keys."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return Mix.apply(scores.softmax(-1), value)


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, 5, 6, dtype=mt.float64, requires_grad=True) for _ in range(3))
    print(gradcheck_report(attention, (q, k, v)).facts())
