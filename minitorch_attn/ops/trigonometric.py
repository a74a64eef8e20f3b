"""Trigonometric functions (sin, cos, tan), the error function (erf) and its inverse (erfinv)."""

import math

from .. import backend
from ..autograd.function import Function
from ..backend import array_module
from ..named_errors import names_arguments
from .exp_log import Exp
from .plumbing.operands import floating

__all__ = ["cos", "erf", "erfinv", "sin", "tan"]


class Sin(Function):
    """Sine of each element; the elements are angles in radians.

    Forward:  y = sin(x)
    Backward: grad_x = grad_y * cos(x)
    Derivation: dy/dx = cos x.
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
    """Cosine of each element; the elements are angles in radians.

    Forward:  y = cos(x)
    Backward: grad_x = -grad_y * sin(x)
    Derivation: dy/dx = -sin x.
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
    """Tangent of each element; the elements are angles in radians.

    Forward:  y = tan(x)
    Backward: grad_x = grad_y * (1 + y^2)
    Derivation: y = sin x / cos x gives dy/dx = 1 + tan(x)^2 = 1 + y^2.
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
    r"""Error function: `2 / sqrt(pi)` times the integral of `exp(-t^2)` from t = 0 to x.

    Forward:  y = erf(x)
    Backward: grad_x = grad_y * 2 / sqrt(pi) * exp(-x^2)
    Derivation: dy/dx is the integrand at x.
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


class Erfinv(Function):
    r"""Inverse of the error function; infinite at -1 and 1, NaN beyond them.

    Forward:  y = erfinv(x), the number with erf(y) = x
    Backward: grad_x = grad_y * sqrt(pi) / 2 * exp(y^2)
    Derivation: erf(y) = x gives dy/dx = 1 / erf'(y), with erf'(y) = 2 / sqrt(pi) * exp(-y^2).
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = backend.erfinv(x.astype("float64")).astype(x.dtype)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * Exp.call(y * y) * (math.sqrt(math.pi) / 2)


@names_arguments
def sin(input):
    """Sine of each element; the elements are angles in radians.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sin(mt.tensor([0.0, 1.0]))
    tensor([0.    , 0.8415])
    """
    return Sin.apply(floating(input, "sin"))


@names_arguments
def cos(input):
    """Cosine of each element; the elements are angles in radians.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.cos(mt.tensor([0.0, 1.0]))
    tensor([1.    , 0.5403])
    """
    return Cos.apply(floating(input, "cos"))


@names_arguments
def tan(input):
    """Tangent of each element; the elements are angles in radians.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.tan(mt.tensor([0.0, 1.0]))
    tensor([0.    , 1.5574])
    """
    return Tan.apply(floating(input, "tan"))


@names_arguments
def erf(input):
    """Error function; for x >= 0, the probability that |t| < x sqrt(2) for a standard normal t.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.erf(mt.tensor([0.0, 1.0]))
    tensor([0.    , 0.8427])
    """
    return Erf.apply(floating(input, "erf"))


@names_arguments
def erfinv(input):
    """Inverse of the error function: the number y with `erf(y) = input`, for input in [-1, 1].

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`
        Infinite where `input` is -1 or 1, NaN where it is outside [-1, 1].

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.erfinv(mt.tensor([0.0, 0.5, 1.0]))
    tensor([0.    , 0.4769,    inf])
    """
    return Erfinv.apply(floating(input, "erfinv"))
