"""Sine, cosine, tangent, and the error function."""

import math

from .. import backend
from ..autograd.function import Function
from ..backend import array_module
from .exponential import Exp
from .operands import floating

__all__ = ["cos", "erf", "sin", "tan"]


class Sin(Function):
    """y = sin x.

    Derivative: dy/dx = cos x.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return array_module(x).sin(x)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * Cos.call(x)


class Cos(Function):
    """y = cos x.

    Derivative: dy/dx = -sin x.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return array_module(x).cos(x)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return -grad_y * Sin.call(x)


class Tan(Function):
    """y = tan x = sin x / cos x.

    Derivative: dy/dx = 1 + tan(x)^2 = 1 + y^2.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = array_module(x).tan(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * (y * y + 1)


class Erf(Function):
    r"""y = 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.

    Derivative: dy/dx = 2 / sqrt(pi) e^(-x^2).
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return backend.erf(x)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * Exp.call(-(x * x)) * (2 / math.sqrt(math.pi))


def sin(input):
    """The sine of each element, in radians.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sin(mt.tensor([0.0, 1.0]))
    tensor([0.    , 0.8415])
    """
    return Sin.apply(floating(input, "sin"))


def cos(input):
    """The cosine of each element, in radians.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.cos(mt.tensor([0.0, 1.0]))
    tensor([1.    , 0.5403])
    """
    return Cos.apply(floating(input, "cos"))


def tan(input):
    """The tangent of each element, in radians.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.tan(mt.tensor([0.0, 1.0]))
    tensor([0.    , 1.5574])
    """
    return Tan.apply(floating(input, "tan"))


def erf(input):
    """The error function: the chance of |t| < x sqrt(2) for a standard normal t.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.erf(mt.tensor([0.0, 1.0]))
    tensor([0.    , 0.8427])
    """
    return Erf.apply(floating(input, "erf"))
