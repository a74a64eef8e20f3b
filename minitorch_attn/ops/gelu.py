"""GELU, SiLU, Mish and other gated activations: x times a gate between 0 and 1."""

import math

from .. import backend
from ..autograd.function import Function
from ..backend import array_module
from ..backend.half import narrowed, widened
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from .plumbing.axes import axis_of
from .plumbing.operands import floating
from .plumbing.tensor_arguments import as_operand
from .sigmoid import Sigmoid, Softplus, Tanh, sigmoid, tanh
from .trigonometric import erf
from .where import Where, drop_where

__all__ = ["gelu", "glu", "hardswish", "mish", "silu"]

_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


class Gate:
    """Base class of gated activations.

    `value` and `value_and_slope` take arrays instead of Tensors, so that fused operations such as
    `FeedForward` can call them.
    """

    @classmethod
    @computes("gate", reveals=("GELU",))
    def value(cls, x):
        """Return y as a new array."""
        y = cls.gate(widened(x))
        y *= x
        return narrowed(y, x)

    @classmethod
    @computes("gate", reveals=("GELU",))
    def value_and_slope(cls, x):
        """Return y and dy/dx as new arrays; the gate is computed once."""
        wide = widened(x)
        h = cls.gate(wide)
        y = wide * h
        return narrowed(y, x), narrowed(cls.slope(wide, y, h), x)


@computes("GELU")
class Gelu(Gate, Function):
    r"""GELU: x times the Gaussian CDF of x.

    Forward:  y = x * (1 + erf(x / sqrt(2))) / 2
    Backward: grad_x = grad_y * ((1 + erf(x / sqrt(2))) / 2 + x * exp(-x^2 / 2) / sqrt(2 * pi))
    Derivation: y = x h with the gate h(x) = (1 + erf(x / sqrt 2)) / 2, the Gaussian CDF. Its
    derivative is the Gaussian density h'(x) = e^(-x^2 / 2) / sqrt(2 pi), so dy/dx = h + x h'.
    Saved: the input x; the gate h as an intermediate.
    """

    @staticmethod
    def forward(ctx, x):
        given, x = x, widened(x)
        h = Gelu.gate(x)
        ctx.save(given)
        ctx.save_intermediate(h)
        return narrowed(x * h, given)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        (h,) = ctx.intermediate
        grad_x = Gelu.slope(widened(x), None, h)
        grad_x *= grad_y
        return narrowed(grad_x, x)

    @staticmethod
    def composed(ctx, x):
        return x * (erf(x * math.sqrt(0.5)) + 1) * 0.5

    @staticmethod
    def gate(x):
        """Return the gate h as a new array."""
        return backend.normal(x)

    @staticmethod
    def slope(x, y, h):
        """Return dy/dx as a new array."""
        slope = x * x
        slope *= -0.5
        slope = array_module(x).exp(slope)
        slope *= x
        slope *= 1 / math.sqrt(2 * math.pi)  # x h'
        slope += h
        return slope


@computes("GELU by tanh", reveals=("GELU",))
class GeluTanh(Gate, Function):
    r"""GELU with the tanh approximation of the Gaussian CDF.

    Forward:  y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
    Backward: grad_x = grad_y * (h + y * (1 - h) * 2 * u'), h = y / x,
        u' = sqrt(2 / pi) * (1 + 0.134145 * x^2)
    Derivation: y = x h with the gate h = (1 + tanh u) / 2 and u = sqrt(2 / pi) (x + 0.044715 x^3).
    h is the sigmoid of 2u, so h' = h (1 - h) 2 u', and with 3 * 0.044715 = 0.134145
        dy/dx = h + x h' = h + y (1 - h) 2 u',   u' = sqrt(2 / pi) (1 + 0.134145 x^2).
    Saved: the input x and the output y; the gate h as an intermediate.
    """

    @staticmethod
    def forward(ctx, x):
        h = GeluTanh.gate(widened(x))
        y = narrowed(x * h, x)
        ctx.save(x, y)
        ctx.save_intermediate(h)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        (h,) = ctx.intermediate
        grad_x = GeluTanh.slope(widened(x), y, h)
        grad_x *= grad_y
        return narrowed(grad_x, x)

    @staticmethod
    def composed(ctx, x):
        u = (x * x * _CUBIC + 1) * x * _ROOT_2_OVER_PI
        return x * (tanh(u) + 1) * 0.5

    @staticmethod
    def gate(x):
        """Return the gate h as a new array."""
        h = x * x
        h *= _ROOT_2_OVER_PI * _CUBIC
        h += _ROOT_2_OVER_PI
        h *= x  # u, as a product: x**3 is 100 times slower
        h = array_module(x).tanh(h)
        h += 1
        h *= 0.5
        return h

    @staticmethod
    def slope(x, y, h):
        """Return dy/dx as a new array."""
        slope = x * x
        slope *= 6 * _ROOT_2_OVER_PI * _CUBIC
        slope += 2 * _ROOT_2_OVER_PI  # 2 u'
        slope *= y
        slope *= 1 - h
        slope += h
        return slope


@computes("SiLU")
class Silu(Gate, Function):
    """SiLU, also called swish: x times the sigmoid of x.

    Forward:  y = x / (1 + exp(-x))
    Backward: grad_x = grad_y * (1 + x - y) / (1 + exp(-x))
    Derivation: y = x s with the gate s(x) = 1 / (1 + e^-x), and s' = s (1 - s), so
        dy/dx = s + x s (1 - s) = s + y (1 - s).
    Saved: the input x and the output y; the gate s as an intermediate.
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
        """Return the gate s as a new array."""
        return Sigmoid.call(x)

    @staticmethod
    def slope(x, y, s):
        """Return dy/dx as a new array."""
        slope = 1 - s
        slope *= y
        slope += s
        return slope


class Mish(Function):
    """Mish: x times the tanh of its softplus.

    Forward:  y = x * tanh(log(1 + exp(x)))
    Backward: grad_x = grad_y * (t + x * (1 - t^2) / (1 + exp(-x))), t = tanh(log(1 + exp(x)))
    Derivation: the derivative of log(1 + e^x) is the sigmoid s(x), and tanh' = 1 - tanh^2, so
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
    """Hard swish: x times a piecewise linear gate.

    Forward:  y = x * min(max(x / 6 + 1 / 2, 0), 1)
    Backward: grad_x = grad_y * where(x > -3, where(x < 3, x / 3 + 1 / 2, 1), 0)
    Derivation: the derivative is 0 for x <= -3, 1 for x >= 3, and x / 3 + 1/2 in between.
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


@names_arguments
def gelu(input, approximate="none"):
    """GELU: `input` times the Gaussian CDF of `input`.

    Parameters
    ----------
    input : Tensor
    approximate : {"none", "tanh"}
        Formula for the CDF: exact, or the tanh approximation that GPT-2 uses.

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
        "gelu(input, approximate): approximate must be 'none' or 'tanh'",
        got=f"approximate={approximate!r}",
    )


def silu(input):
    """SiLU, also called swish: `input * sigmoid(input)`.

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


@names_arguments
def mish(input):
    """Mish: `input * tanh(softplus(input))`.

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


@names_arguments
def hardswish(input):
    """Hard swish: `input` times a piecewise linear gate, which is 0 below -3 and 1 above 3.

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


@names_arguments
def glu(input, dim=-1):
    """Gated linear unit: the first half along `dim` times the sigmoid of the second half.

    Parameters
    ----------
    input : Tensor
        Values and gates; the size along `dim` must be even.
    dim : int, default -1
        Axis along which the input is halved.

    Returns
    -------
    Tensor
        Product, half as large as `input` along `dim`.

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
            "glu(input, dim): the size of input along dim must be even",
            got=f"input {input.shape} and dim={dim}",
            hint="use dim= to select another axis",
        )
    half = input.shape[axis] // 2
    return input.narrow(axis, 0, half) * sigmoid(input.narrow(axis, half, half))
