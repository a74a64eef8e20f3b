"""Shifted windows.

Every second layer of Swin rolls its tokens by half a window, attends within windows of 5 tokens,
and rolls back. So tokens on both sides of a window border can attend to each other. (The mask for
tokens that wrap around is omitted here.) With shift 0 all gradients are correct. Read the
gradcheck report, then find and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report

WINDOW, SHIFT = 5, 2


class Roll(Function):
    """y[:, i] = x[:, i - by], with indices that wrap around."""

    @staticmethod
    def forward(ctx, x, *, by):
        # x: (batch, token, width)
        ctx.by = by
        return np.roll(x, by, axis=1)

    @staticmethod
    def backward(ctx, grad_y):
        return np.roll(grad_y, ctx.by, axis=1)


def shifted_attention(x, weight):
    """Compute x plus attention within shifted windows."""
    batch, tokens, width = x.shape
    rolled = Roll.apply(x @ weight, by=-SHIFT)
    windows = rolled.reshape(batch, tokens // WINDOW, WINDOW, width)
    scores = windows @ windows.transpose(-1, -2) / width**0.5
    context = (scores.softmax(-1) @ windows).reshape(batch, tokens, width)
    return x + Roll.apply(context, by=SHIFT)


if __name__ == "__main__":
    x = mt.randn(2, 15, 4, dtype=mt.float64, requires_grad=True)
    weight = mt.randn(4, 4, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(shifted_attention, (x, weight)).facts())
