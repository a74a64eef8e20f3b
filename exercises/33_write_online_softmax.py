"""Write the backward of blockwise attention.

`forward` reads the keys in blocks. For each query it keeps the largest score so far, the sum of the
exponentials and the weighted sum of the values. It never stores a row of P. It saves Y and, for
each query,

    l = log sum_j exp(S_j)   with   S = Q K^T / sqrt(d),   so any block of P is exp(S - l)

The derivation, with G = dL/dY:

    D  = sum of G * Y along d                   (= sum of dP * P along the keys)
    for each block of keys:  P = exp(S - l),  dS = P * (G V^T - D)
        dV of the block = P^T G
        dK of the block = dS^T Q / sqrt(d)
        dQ             += dS K / sqrt(d)

Write `backward`, block by block.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report

BLOCK = 3


class OnlineAttention(Function):
    """softmax(Q K^T / sqrt(d)) V without the matrix of all weights."""

    @staticmethod
    def forward(ctx, query, key, value):
        # (batch, query, d), (batch, key, d), (batch, key, d)
        root = query.shape[-1] ** 0.5
        top = np.full((*query.shape[:-1], 1), -np.inf)  # (batch, query, 1)
        total, mix = 0.0, 0.0
        for start in range(0, key.shape[1], BLOCK):
            part = slice(start, start + BLOCK)
            scores = query @ key[:, part].swapaxes(-1, -2) / root
            new_top = np.maximum(top, scores.max(axis=-1, keepdims=True))
            shrink, exp = np.exp(top - new_top), np.exp(scores - new_top)
            total = total * shrink + exp.sum(axis=-1, keepdims=True)
            mix = mix * shrink + exp @ value[:, part]
            top = new_top
        y = mix / total
        ctx.save(query, key, value, y)
        ctx.log_sum = top + np.log(total)  # (batch, query, 1)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        query, key, value, y = ctx.saved
        raise NotImplementedError("with ctx.log_sum: return grad_query, grad_key, grad_value")


def attention(query, key, value):
    """Compute attention over blocks of three keys."""
    return OnlineAttention.apply(query, key, value)


if __name__ == "__main__":
    q, k, v = (mt.randn(2, n, 4, dtype=mt.float64, requires_grad=True) for n in (5, 7, 7))
    print(gradcheck_report(attention, (q, k, v)).facts())
