"""Half of a branch.

    y = x + 0.5 tanh(x W)

`Add` and `Half` are two separate operations, and each looks correct. The gradient of W is correct,
but the gradient of x is wrong. Read the gradcheck report, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report


class Add(Function):
    """The residual connection."""

    @staticmethod
    def forward(ctx, x, branch):
        return x + branch

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y, grad_y


class Half(Function):
    """y = x / 2."""

    @staticmethod
    def forward(ctx, x):
        return 0.5 * x

    @staticmethod
    def backward(ctx, grad_y):
        grad_y *= 0.5
        return grad_y


def block(x, weight):
    """Compute x + 0.5 tanh(x W)."""
    return Add.apply(x, Half.apply(mt.tanh(x @ weight)))


if __name__ == "__main__":
    x = mt.randn(2, 5, 4, dtype=mt.float64, requires_grad=True)
    weight = mt.randn(4, 4, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(block, (x, weight)).facts())
