"""A branch with a learned gain.

Deep vision transformers give each branch a gain g, one number per channel, initialized near 0:

    y = x + g * (x W)

With ten such layers and the code below, the first layers hardly learn. Read the gradcheck report,
then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class ScaledBranch(Function):
    """Linear layer with a gain and a residual connection."""

    @staticmethod
    def forward(ctx, x, weight, gain):
        # x: (batch, token, width)   weight: (width, width)   gain: (width,)
        ctx.save(x, weight, gain)
        return x + gain * (x @ weight)

    @staticmethod
    def backward(ctx, grad_y):
        x, weight, gain = ctx.saved
        grad_gain = (grad_y * (x @ weight)).sum(axis=(0, 1))
        grad_branch = grad_y * gain
        grad_weight = (x.swapaxes(1, 2) @ grad_branch).sum(axis=0)
        grad_x = grad_branch @ weight.swapaxes(0, 1)
        return grad_x, grad_weight, grad_gain


def scaled_branch(x, weight, gain):
    """Compute x + gain * (x W)."""
    return ScaledBranch.apply(x, weight, gain)


if __name__ == "__main__":
    shapes = [(2, 5, 4), (4, 4), (4,)]
    inputs = [mt.randn(*shape, dtype=mt.float64, requires_grad=True) for shape in shapes]
    print(gradcheck_report(scaled_branch, inputs).facts())
