"""Scores with relative positions.

    y[n, h, i, j] = scores[n, h, i, j] + table[index[i, j], h]

for query i and key j in a window of t tokens, with index[i, j] = j - i + t - 1. Keys to the left
and to the right of the query have different biases. Read the gradcheck report, then find and fix
the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class BiasedScores(Function):
    """Add the bias of each distance to the scores."""

    @staticmethod
    def forward(ctx, scores, table, index):
        # scores: (batch, heads, query, key)   table: (distance, heads)   index: (query, key)
        ctx.constants(index)
        return scores + np.moveaxis(table[index], 2, 0)

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.constant
        rows = grad_y.sum(axis=0).transpose(2, 1, 0)  # sum over the batch, heads last
        grad_table = np.zeros(ctx.shapes[1])
        np.add.at(grad_table, index, rows)
        return grad_y, grad_table, None


def biased_scores(scores, table, index):
    """Add the bias of each distance to the scores."""
    return BiasedScores.apply(scores, table, index)


if __name__ == "__main__":
    place = np.arange(5)
    scores = mt.randn(2, 3, 5, 5, dtype=mt.float64, requires_grad=True)
    table = mt.randn(9, 3, dtype=mt.float64, requires_grad=True)
    index = mt.tensor(place - place[:, None] + 4)
    print(gradcheck_report(biased_scores, (scores, table, index)).facts())
