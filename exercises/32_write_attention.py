"""Write the backward of attention.

    S = Q K^T / sqrt(d),   P = softmax(S),   Y = P V

The derivation, with G = dL/dY, from the output backward:

    dV = P^T G
    dP = G V^T
    dS = P * (dP - sum of dP * P along the keys)      (* entry by entry)
    dQ = dS K / sqrt(d)
    dK = dS^T Q / sqrt(d)

Write `backward`. P is not saved: recompute it.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


def softmax(x):
    """Compute the softmax of an array along its last axis."""
    exp_x = np.exp(x - x.max(axis=-1, keepdims=True))
    return exp_x / exp_x.sum(axis=-1, keepdims=True)


class Attention(Function):
    """softmax(Q K^T / sqrt(d)) V."""

    @staticmethod
    def forward(ctx, query, key, value):
        # (batch, heads, query, d), (batch, heads, key, d), (batch, heads, key, d)
        ctx.save(query, key, value)
        weights = softmax(query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5)
        return weights @ value

    @staticmethod
    def backward(ctx, grad_y):
        query, key, value = ctx.saved
        raise NotImplementedError("return grad_query, grad_key, grad_value")


def attention(query, key, value):
    """Compute the attention of queries to keys and values."""
    return Attention.apply(query, key, value)


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, n, 6, dtype=mt.float64, requires_grad=True) for n in (5, 7, 7))
    print(gradcheck_report(attention, (q, k, v)).facts())
