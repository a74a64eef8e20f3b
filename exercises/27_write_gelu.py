"""Write the backward of GELU.

    y = x (1 + tanh(u)) / 2   with   u = c (x + 0.044715 x^3)   and   c = sqrt(2 / pi)

The derivation:

    dy/dx = (1 + tanh(u)) / 2  +  x (1 - tanh(u)^2) / 2 * du/dx
    du/dx = c (1 + 3 * 0.044715 x^2)

Write `backward` as a function of the saved input.
"""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.autograd import Function, gradcheck_report

C = (2 / np.pi) ** 0.5


class Gelu(Function):
    """GELU in its tanh approximation, as in GPT-2."""

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        u = C * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + np.tanh(u))

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        raise NotImplementedError("dL/dx, of the shape of x")


def gelu(x):
    """Apply GELU to every entry."""
    return Gelu.apply(x)


if __name__ == "__main__":
    x = mt.randn(2, 3, 5, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(gelu, (x,)).facts())
