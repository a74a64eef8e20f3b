"""A feed-forward block with a residual connection.

    y = x + tanh(x W_1) W_2

The input x reaches y by two paths: directly, and through the two layers. Read the gradcheck
report, then find and fix the one mistake.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class FeedForward(Function):
    """Two linear layers with tanh between them, and a residual connection."""

    @staticmethod
    def forward(ctx, x, w_1, w_2):
        # x: (batch, token, width)   w_1: (width, hidden)   w_2: (hidden, width)
        ctx.save(x, w_1, w_2)
        return x + np.tanh(x @ w_1) @ w_2

    @staticmethod
    def backward(ctx, grad_y):
        x, w_1, w_2 = ctx.saved
        hidden = np.tanh(x @ w_1)
        grad_x = grad_y
        grad_w_2 = (hidden.swapaxes(1, 2) @ grad_y).sum(axis=0)
        grad_hidden = grad_y @ w_2.swapaxes(0, 1)
        grad_sum = grad_hidden * (1 - hidden**2)  # at the input of tanh
        grad_w_1 = (x.swapaxes(1, 2) @ grad_sum).sum(axis=0)
        grad_x = grad_x + grad_sum @ w_1.swapaxes(0, 1)
        return grad_y + grad_x, grad_w_1, grad_w_2


def feed_forward(x, w_1, w_2):
    """Compute x + tanh(x W_1) W_2."""
    return FeedForward.apply(x, w_1, w_2)


if __name__ == "__main__":
    shapes = [(2, 5, 4), (4, 7), (7, 4)]
    inputs = [mt.randn(*shape, dtype=mt.float64, requires_grad=True) for shape in shapes]
    print(gradcheck_report(feed_forward, inputs).facts())
