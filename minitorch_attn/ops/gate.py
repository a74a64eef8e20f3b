"""Gated activations: x times a gate between 0 and 1 that x itself, or its other half, sets."""

import math

from .. import backend
from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, ShapeError
from .axes import axis_of
from .given import as_operand
from .operands import floating
from .selection import Where, drop_where
from .sigmoid import Sigmoid, Softplus, Tanh, sigmoid, tanh
from .trigonometric import erf

__all__ = ["gelu", "glu", "hardswish", "mish", "silu"]

_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


class Gate:
    """What operations with such an activation inside need of it, as functions of arrays."""

    @classmethod
    def value(cls, x):
        """y, an array of its own."""
        y = cls.gate(x)
        y *= x
        return y

    @classmethod
    def value_and_slope(cls, x):
        """y and dy/dx, arrays of their own; the gate is computed once."""
        h = cls.gate(x)
        y = x * h
        return y, cls.slope(x, y, h)


class Gelu(Gate, Function):
    r"""y = x h(x), with h(x) = (1 + erf(x / sqrt 2)) / 2, the normal distribution function.

    Derivative: h'(x) = e^(-x^2 / 2) / sqrt(2 pi), the normal density, so
        dy/dx = h + x h'.
    Saved: the input x; the gate h from inside.
    """

    @staticmethod
    def forward(ctx, x):
        h = Gelu.gate(x)
        ctx.save(x)
        ctx.save_intermediate(h)
        return x * h

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        (h,) = ctx.intermediate
        grad_x = Gelu.slope(x, None, h)
        grad_x *= grad_y
        return grad_x

    @staticmethod
    def composed(ctx, x):
        return x * (erf(x * math.sqrt(0.5)) + 1) * 0.5

    @staticmethod
    def gate(x):
        """h, an array of its own."""
        return backend.normal(x)

    @staticmethod
    def slope(x, y, h):
        """dy/dx, an array of its own."""
        slope = x * x
        slope *= -0.5
        slope = array_module(x).exp(slope)
        slope *= x
        slope *= 1 / math.sqrt(2 * math.pi)  # x h'
        slope += h
        return slope


class GeluTanh(Gate, Function):
    r"""y = x h(x), with h = (1 + tanh u) / 2 and u = sqrt(2 / pi) (x + 0.044715 x^3).

    Derivative: (1 + tanh u) / 2 is the sigmoid of 2u, so h' = h (1 - h) 2 u', and
        dy/dx = h + x h' = h + y (1 - h) 2 u',   u' = sqrt(2 / pi) (1 + 3 * 0.044715 x^2).
    Saved: the input x and the output y; the gate h from inside.
    """

    @staticmethod
    def forward(ctx, x):
        h = GeluTanh.gate(x)
        y = x * h
        ctx.save(x, y)
        ctx.save_intermediate(h)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        (h,) = ctx.intermediate
        grad_x = GeluTanh.slope(x, y, h)
        grad_x *= grad_y
        return grad_x

    @staticmethod
    def composed(ctx, x):
        u = (x * x * _CUBIC + 1) * x * _ROOT_2_OVER_PI
        return x * (tanh(u) + 1) * 0.5

    @staticmethod
    def gate(x):
        """h, an array of its own."""
        h = x * x
        h *= _ROOT_2_OVER_PI * _CUBIC
        h += _ROOT_2_OVER_PI
        h *= x  # u; a product, because x**3 is 100 times slower
        h = array_module(x).tanh(h)
        h += 1
        h *= 0.5
        return h

    @staticmethod
    def slope(x, y, h):
        """dy/dx, an array of its own."""
        slope = x * x
        slope *= 6 * _ROOT_2_OVER_PI * _CUBIC
        slope += 2 * _ROOT_2_OVER_PI  # 2 u'
        slope *= y
        slope *= 1 - h
        slope += h
        return slope


class Silu(Gate, Function):
    """y = x s(x), with s(x) = 1 / (1 + e^-x).

    Derivative: s' = s (1 - s), so dy/dx = s + x s (1 - s) = s + y (1 - s).
    Saved: the input x and the output y; the gate s from inside.
    """

    @staticmethod
    def forward(ctx, x):
        s = Silu.gate(x)
        y = x * s
        ctx.save(x, y)
        ctx.save_intermediate(s)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        (s,) = ctx.intermediate
        grad_x = Silu.slope(x, y, s)
        grad_x *= grad_y
        return grad_x

    @staticmethod
    def composed(ctx, x):
        return x * sigmoid(x)

    @staticmethod
    def gate(x):
        """s, an array of its own."""
        return Sigmoid.call(x)

    @staticmethod
    def slope(x, y, s):
        """dy/dx, an array of its own."""
        slope = 1 - s
        slope *= y
        slope += s
        return slope


class Mish(Function):
    """y = x t(x), with t = tanh(log(1 + e^x)).

    Derivative: (log(1 + e^x))' = s(x), the sigmoid, and tanh' = 1 - tanh^2, so
        dy/dx = t + x (1 - t^2) s.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return x * Tanh.call(Softplus.call(x, beta=1, threshold=20))

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        t = Tanh.call(Softplus.call(x, beta=1, threshold=20))
        return grad_y * (t + x * (1 - t * t) * Sigmoid.call(x))


class HardSwish(Function):
    """y = x h(x), with h = x / 6 + 1/2 limited to [0, 1].

    Derivative: 0 up to x = -3, 1 from x = 3, and x / 3 + 1/2 between.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        xp = array_module(x)
        return x * xp.minimum(xp.maximum(x / 6 + 0.5, 0), 1)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        inside = Where.call(x < 3, grad_y * (x / 3 + 0.5), grad_y)
        return drop_where(x <= -3, inside)


def gelu(input, approximate="none"):
    """input times the normal distribution function of input.

    Parameters
    ----------
    input : Tensor
    approximate : {"none", "tanh"}
        "tanh" uses the formula with tanh, as GPT-2 does.

    Returns
    -------
    Tensor

    References
    ----------
    .. [1] "Gaussian Error Linear Units", arXiv:1606.08415v5, sec. 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.gelu(mt.tensor([-1.0, 0.0, 2.0]), approximate="tanh")
    tensor([-0.1588,  0.    ,  1.9546])
    """
    if approximate == "none":
        return Gelu.apply(floating(input, "gelu"))
    if approximate == "tanh":
        return GeluTanh.apply(floating(input, "gelu"))
    raise ArgumentError(
        "gelu(input, approximate): no such form.",
        got=repr(approximate),
        expected="'none' or 'tanh'",
    )


def silu(input):
    """input * sigmoid(input), also called swish.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.silu(mt.tensor([0.0, 1.0]))
    tensor([0.    , 0.7311])
    """
    return Silu.apply(floating(input, "silu"))


def mish(input):
    """input * tanh(softplus(input)).

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.mish(mt.tensor([0.0, 1.0]))
    tensor([0.    , 0.8651])
    """
    return Mish.apply(floating(input, "mish"))


def hardswish(input):
    """input times a gate of straight lines, 0 up to -3 and 1 from 3.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.hardswish(mt.tensor([-4.0, 0.0, 1.5]))
    tensor([-0.   ,  0.   ,  1.125])
    """
    return HardSwish.apply(floating(input, "hardswish"))


def glu(input, dim=-1):
    """The first half along `dim`, times the sigmoid of the second half.

    Parameters
    ----------
    input : Tensor
        Of even size along `dim`.
    dim : int

    Returns
    -------
    Tensor
        Of half the size along `dim`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.glu(mt.tensor([3.0, 5.0, 0.0, 1000.0]))
    tensor([1.5, 5. ])
    """
    input = as_operand(input, "glu")
    axis = axis_of(dim, input.ndim, "glu")
    if input.ndim == 0 or input.shape[axis] % 2:
        raise ShapeError(
            "glu(input, dim): the input is halved along dim.",
            got=f"input {input.shape} and dim {dim}",
            expected="an even size",
        )
    half = input.shape[axis] // 2
    return input.narrow(axis, 0, half) * sigmoid(input.narrow(axis, half, half))
