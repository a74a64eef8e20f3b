"""A bias for each pair of positions.

A learned bias for each head, query and key is added to the scores before the softmax. All items
in a batch share it:

    y[n, h, i, j] = scores[n, h, i, j] + bias[h, i, j]

With one item per batch, the gradient of the bias is correct. With more items it is wrong. Read the
gradcheck report, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class PairBias(Function):
    """Adds one bias to the scores of every item in the batch."""

    @staticmethod
    def forward(ctx, scores, bias):
        # scores: (batch, heads, query, key)   bias: (heads, query, key)
        return scores + bias

    @staticmethod
    def backward(ctx, grad_y):
        grad_scores = grad_y  # (batch, heads, query, key)
        grad_bias = grad_y[0]  # (heads, query, key)
        return grad_scores, grad_bias


def add_bias(scores, bias):
    """Add the bias for each pair of positions to the scores."""
    return PairBias.apply(scores, bias)


if __name__ == "__main__":
    scores = mt.randn(2, 3, 5, 4, dtype=mt.float64, requires_grad=True)
    bias = mt.randn(3, 5, 4, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(add_bias, (scores, bias)).facts())
