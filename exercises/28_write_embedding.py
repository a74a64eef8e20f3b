"""Write the backward of embedding.

    y[n, t] = table[ids[n, t]]

The derivation, with g = dL/dy: the forward pass copies row k of the table to every position with
id k. So the gradient of the row is the sum of the gradients at these positions:

    dL/dtable[k] = sum over all (n, t) with ids[n, t] = k of g[n, t]

An id can occur many times, or not at all. Write `backward`. The ids do not have a gradient.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class Embedding(Function):
    """Look up a row of the table for each id."""

    @staticmethod
    def forward(ctx, table, ids):
        # table: (vocabulary, width)   ids: (batch, token)   result: (batch, token, width)
        ctx.constants(ids)
        return np.take(table, ids, axis=0)

    @staticmethod
    def backward(ctx, grad_y):
        (ids,) = ctx.constant
        raise NotImplementedError("return the gradient of the table, None")


def embedding(table, ids):
    """Return the row of the table for each id."""
    return Embedding.apply(table, ids)


if __name__ == "__main__":
    table = mt.randn(7, 4, dtype=mt.float64, requires_grad=True)
    ids = mt.tensor([[3, 1, 3, 3, 0], [6, 1, 1, 2, 3]])
    print(gradcheck_report(embedding, (table, ids)).facts())
