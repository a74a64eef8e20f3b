"""Attention in one operation, part two.

    P = softmax(Q K^T / sqrt(d)),   Y = P V

Each line of `backward` is a formula that you can look up, and every shape matches. Read the
gradcheck report, then find and fix the one mistake.
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
        # all of the shape (batch, heads, token, d)
        ctx.save(query, key, value)
        return softmax(query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5) @ value

    @staticmethod
    def backward(ctx, grad_y):
        query, key, value = ctx.saved
        root = query.shape[-1] ** 0.5
        p = softmax(query @ key.swapaxes(-1, -2) / root)
        d_v = p.swapaxes(-1, -2) @ grad_y
        d_p = grad_y @ value.swapaxes(-1, -2)
        d_s = p * (d_p - (d_p * p).sum(axis=-1, keepdims=True)) / root
        d_k = d_s @ key
        d_q = d_s.swapaxes(-1, -2) @ query
        return d_q, d_k, d_v


def attention(query, key, value):
    """Compute self-attention, with equal numbers of queries and keys."""
    return Attention.apply(query, key, value)


if __name__ == "__main__":
    q, k, v = (mt.randn(2, 3, 5, 6, dtype=mt.float64, requires_grad=True) for _ in range(3))
    print(gradcheck_report(attention, (q, k, v)).facts())
