"""Soft steps, which turn gradually from one level to another, and the soft corners under them.

The sigmoid and tanh are the steps; log-sigmoid, softplus and logaddexp are their integrals.
"""

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module
from ..backend.quiet import overflow_is_fine
from ..backend.select import where as choose
from ..errors import DTypeError
from .given import as_operand
from .operands import explained, floating, number
from .promotion import promote
from .selection import Where

__all__ = ["logaddexp", "logsigmoid", "sigmoid", "softplus", "tanh"]


class Tanh(Function):
    """y = tanh x = (e^x - e^-x) / (e^x + e^-x).

    Derivative: dy/dx = 1 - y^2.
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        y = array_module(x).tanh(x)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * (1 - y * y)


class Sigmoid(Function):
    """y = 1 / (1 + e^-x).

    Derivative: dy/dx = e^-x / (1 + e^-x)^2 = y (1 - y).
    Saved: the output y.
    """

    @staticmethod
    def forward(ctx, x):
        xp = array_module(x)
        with overflow_is_fine():  # y = 1 / inf = 0 far below 0
            y = 1 / (1 + xp.exp(-x))
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (y,) = ctx.saved
        return grad_y * y * (1 - y)


class LogSigmoid(Function):
    """y = log(1 / (1 + e^-x)) = min(x, 0) - log(1 + e^-|x|).

    Derivative: with s the sigmoid, dy/dx = s'(x) / s(x) = 1 - s(x) = s(-x).
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        xp = array_module(x)
        return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return grad_y * Sigmoid.call(-x)


class Softplus(Function):
    """y = log(1 + e^(bx)) / b, a smooth relu; simply x where bx is above a threshold.

    Derivative: with s(x) = 1 / (1 + e^-x), dy/dx = s(bx); 1 above the threshold.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, beta, threshold):
        ctx.save(x)
        ctx.beta, ctx.threshold = beta, threshold
        xp = array_module(x)
        t = x * beta
        y = (xp.maximum(t, 0) + xp.log1p(xp.exp(-xp.abs(t)))) / beta  # nothing overflows
        return choose(t > threshold, x, y)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        t = x * ctx.beta
        return Where.call(t > ctx.threshold, grad_y, grad_y * Sigmoid.call(t))


class LogAddExp(Function):
    """y = log(e^a + e^b) = m + log(1 + e^-|a - b|), with m the larger of a and b.

    Derivative: with s the sigmoid, dy/da = e^a / (e^a + e^b) = s(a - b) and dy/db = s(b - a);
    summed over the axes that broadcasting repeated.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, a, b):
        xp = array_module(a, b)
        larger = xp.maximum(a, b)
        gap = xp.abs(a - b)
        gap = xp.where(a == b, 0.0, gap)  # two equal infinities are no distance apart
        ctx.save(a, b)
        return larger + xp.log1p(xp.exp(-gap))

    @staticmethod
    def backward(ctx, grad_y):
        a, b = ctx.saved
        need_a, need_b = ctx.needs_grad
        return (
            sum_to_shape(grad_y * Sigmoid.call(a - b), ctx.shapes[0]) if need_a else None,
            sum_to_shape(grad_y * Sigmoid.call(b - a), ctx.shapes[1]) if need_b else None,
        )


def tanh(input):
    """The hyperbolic tangent, between -1 and 1.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.tanh(mt.tensor([0.0, 1.0]))
    tensor([0.    , 0.7616])
    """
    return Tanh.apply(floating(input, "tanh"))


def sigmoid(input):
    """1 / (1 + e^-input), between 0 and 1.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sigmoid(mt.tensor([0.0, 1.0]))
    tensor([0.5   , 0.7311])
    """
    return Sigmoid.apply(floating(input, "sigmoid"))


def logsigmoid(input):
    """log(sigmoid(input)), exact where the sigmoid itself vanishes.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.logsigmoid(mt.tensor([0.0, -200.0]))
    tensor([  -0.6931, -200.    ])
    """
    return LogSigmoid.apply(floating(input, "logsigmoid"))


def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + e^(beta * input)) / beta, a smooth relu.

    Parameters
    ----------
    input : Tensor
    beta : float
        Sharpness of the bend.
    threshold : float
        Where beta * input is above it, the result is the input.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.softplus(mt.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.    ])
    """
    beta = number(beta, "softplus", "beta")
    threshold = number(threshold, "softplus", "threshold")
    return Softplus.apply(floating(input, "softplus"), beta=beta, threshold=threshold)


def logaddexp(input, other):
    """log(e^input + e^other), without overflow.

    Parameters
    ----------
    input, other : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.logaddexp(mt.tensor([0.0, 1000.0]), mt.tensor([0.0, 1000.0]))
    tensor([6.9315e-01, 1.0007e+03])
    """
    try:
        a, b = as_operand(input, "logaddexp"), as_operand(other, "logaddexp", "other")
        a, b = promote(a, b)
        if a.dtype.kind != "f":
            raise DTypeError(
                "logaddexp(input, other): not defined for whole numbers.",
                got=f"{input.dtype} and {other.dtype}",
                hint="x.float() first",
            )
        return LogAddExp.apply(a, b)
    except (ValueError, TypeError) as error:
        raise explained(error, "logaddexp", input=input, other=other) from None
