"""Arithmetic, element by element, with broadcasting."""

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..tensor import Tensor
from .promotion import promote

__all__ = ["add", "mul", "neg"]


class Add(Function):
    """c = a + b.

    Derivative: dc/da = 1, dc/db = 1; summed over the axes that broadcasting repeated.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, grad_c):
        need_a, need_b = ctx.needs_grad
        return (
            sum_to_shape(grad_c, ctx.shapes[0]) if need_a else None,
            sum_to_shape(grad_c, ctx.shapes[1]) if need_b else None,
        )


class Mul(Function):
    """c = a * b.

    Derivative: dc/da = b, dc/db = a; summed over the axes that broadcasting repeated.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, a, b):
        ctx.save(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad_c):
        a, b = ctx.saved
        need_a, need_b = ctx.needs_grad
        return (
            sum_to_shape(grad_c * b, ctx.shapes[0]) if need_a else None,
            sum_to_shape(grad_c * a, ctx.shapes[1]) if need_b else None,
        )


class Neg(Function):
    """y = -x.

    Derivative: dy/dx = -1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        return -x

    @staticmethod
    def backward(ctx, grad_y):
        return -grad_y


def add(input, other, *, alpha=1):
    """input + alpha * other, broadcast.

    Parameters
    ----------
    input, other : Tensor or number
    alpha : number
        Factor of `other`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.add(mt.tensor([1.0, 2.0]), 10, alpha=2)
    tensor([21., 22.])
    """
    if alpha != 1:
        other = mul(other, alpha) if isinstance(other, Tensor) else other * alpha
    return Add.apply(*promote(input, other))


def mul(input, other):
    """input * other, broadcast."""
    return Mul.apply(*promote(input, other))


def neg(input):
    """-input."""
    return Neg.apply(input)
