"""Relative position bias.

In each head, Swin learns one bias for each distance between query and key, not for each pair:

    bias[h, i, j] = table[index[i, j], h]

A window of t tokens has 2 t - 1 distances, and index[i, j] = j - i + t - 1. Read the gradcheck
report, then find and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class LookUp(Function):
    """Looks up a row of a table for each pair of positions."""

    @staticmethod
    def forward(ctx, table, index):
        # table: (distance, heads)   index: (query, key)   result: (heads, query, key)
        ctx.constants(index)
        return np.moveaxis(table[index], 2, 0)

    @staticmethod
    def backward(ctx, grad_bias):
        (index,) = ctx.constant
        rows = np.moveaxis(grad_bias, 0, 2)  # (query, key, heads)
        grad_table = np.zeros(ctx.shapes[0])
        grad_table[index] += rows
        return grad_table, None


def position_bias(table, index):
    """Return the bias of each pair, of shape (heads, query, key)."""
    return LookUp.apply(table, index)


if __name__ == "__main__":
    place = np.arange(5)
    table = mt.randn(9, 3, dtype=mt.float64, requires_grad=True)
    index = mt.tensor(place - place[:, None] + 4)
    print(gradcheck_report(position_bias, (table, index)).facts())
