"""Self-attention scores.

    S = Q K^T / sqrt(d)

In self-attention the numbers of queries and keys are equal, so S is square. All shapes below are
correct. Read the gradcheck report, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class Scores(Function):
    """Scaled dot product of each query with each key."""

    @staticmethod
    def forward(ctx, query, key):
        # query and key: (batch, heads, token, d)
        ctx.save(query, key)
        return query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5

    @staticmethod
    def backward(ctx, grad_scores):
        query, key = ctx.saved
        grad_product = grad_scores / query.shape[-1] ** 0.5  # (batch, heads, query, key)
        grad_query = grad_product @ key
        grad_key = grad_product @ query
        return grad_query, grad_key


def attention(query, key, value):
    """Compute self-attention, with equal numbers of queries and keys."""
    return Scores.apply(query, key).softmax(-1) @ value


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, 5, 6, dtype=mt.float64, requires_grad=True) for _ in range(3))
    print(gradcheck_report(attention, (q, k, v)).facts())
