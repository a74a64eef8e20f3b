"""Exponentials and logarithms: exp, expm1, log, log1p, log2, log10."""

import math

from ..autograd.function import Function
from ..backend import array_module
from ..named_errors import names_arguments
from .plumbing.operands import floating

__all__ = ["exp", "expm1", "log", "log10", "log1p", "log2"]


class Exp(Function):
    """Exponential, element by element.

    Forward:  y = exp(x)
    Backward: grad_x = grad_y * y
    Derivation: dy/dx = e^x = y.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = array_module(x).exp(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * y


class Expm1(Function):
    """Exponential minus 1, accurate for small x, where exp(x) - 1 loses all its digits.

    Forward:  y = exp(x) - 1
    Backward: grad_x = grad_y * (y + 1)
    Derivation: dy/dx = e^x = y + 1.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = array_module(x).expm1(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * (y + 1)


class Log(Function):
    """Natural logarithm.

    Forward:  y = log(x)
    Backward: grad_x = grad_y / x
    Derivation: dy/dx = 1 / x.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return array_module(x).log(x)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y / x


class Log1p(Function):
    """Natural logarithm of 1 + x, accurate for small x.

    Forward:  y = log(1 + x)
    Backward: grad_x = grad_y / (1 + x)
    Derivation: dy/dx = 1 / (1 + x).
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return array_module(x).log1p(x)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y / (x + 1)


class LogToBase(Function):
    """Logarithm to base 2 or 10.

    Forward:  y = log(x) / log(base)
    Backward: grad_x = grad_y / (x * log(base))
    Derivation: dy/dx = 1 / (x log base).
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, base):
        ctx.save(x)
        ctx.log_base = math.log(base)
        xp = array_module(x)
        return xp.log2(x) if base == 2 else xp.log10(x)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y / (x * ctx.log_base)


def exp(input):
    """Exponential: e to the power of each element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.exp(mt.tensor([0.0, 1.0]))
    tensor([1.    , 2.7183])
    """
    return Exp.apply(floating(input, "exp"))


@names_arguments
def expm1(input):
    """Exponential minus 1 of each element, accurate for small elements.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.expm1(mt.tensor([0.0, 1e-10], dtype="float64"))
    tensor([0.e+00, 1.e-10], dtype=float64)
    """
    return Expm1.apply(floating(input, "expm1"))


def log(input):
    """Natural logarithm of each element; -inf at 0, NaN below 0.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.log(mt.tensor([1.0, 10.0]))
    tensor([0.    , 2.3026])
    """
    return Log.apply(floating(input, "log"))


@names_arguments
def log1p(input):
    """Natural logarithm of 1 + input, accurate for small elements.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.log1p(mt.tensor([0.0, 1e-10], dtype="float64"))
    tensor([0.e+00, 1.e-10], dtype=float64)
    """
    return Log1p.apply(floating(input, "log1p"))


@names_arguments
def log2(input):
    """Logarithm of each element to base 2.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.log2(mt.tensor([1.0, 8.0]))
    tensor([0., 3.])
    """
    return LogToBase.apply(floating(input, "log2"), base=2)


@names_arguments
def log10(input):
    """Logarithm of each element to base 10.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.log10(mt.tensor([1.0, 1000.0]))
    tensor([0., 3.])
    """
    return LogToBase.apply(floating(input, "log10"), base=10)
