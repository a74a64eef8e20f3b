"""Steps: functions that are constant between jumps, and the remainder that they leave.

Between jumps the derivative is 0, and 0 is also the convention at the jumps. That is a gradient
of zeros and not the absence of one: `x.grad` exists after a backward pass.
"""

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError
from .given import as_operand
from .operands import binary, explained
from .promotion import promote

__all__ = ["ceil", "floor", "floor_divide", "remainder", "round", "sign", "trunc"]


class Zero(Function):
    """y = 0 in the shape of x.

    Derivative: 0.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        return array_module(x).zeros_like(x)

    @staticmethod
    def backward(ctx, grad_y):
        return Zero.call(grad_y)


class Sign(Function):
    """y = -1, 0 or 1 as x is negative, zero or positive.

    Derivative: 0.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        if x.dtype.kind == "b":
            return x.copy()
        return (x > 0).astype(x.dtype) - (x < 0)  # 0 at NaN, too

    @staticmethod
    def backward(ctx, grad_y):
        return Zero.call(grad_y)


class Round(Function):
    """y = a whole number next to x: below, above, towards zero, or the nearest one.

    The nearest is the even one where two are equally near.
    Derivative: 0.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, towards, decimals=0):
        if x.dtype.kind != "f":
            return x.copy()
        xp = array_module(x)
        if towards == "nearest":
            return x.round(decimals) if decimals else xp.rint(x)
        return {"below": xp.floor, "above": xp.ceil, "zero": xp.trunc}[towards](x)

    @staticmethod
    def backward(ctx, grad_y):
        return Zero.call(grad_y)


class WholeQuotient(Function):
    """c = the whole number next to a / b: below it, or towards zero.

    Derivative: 0.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, a, b, *, towards="below"):
        if towards == "below":
            return a // b
        xp = array_module(a, b)
        if xp.result_type(a, b).kind == "f":
            return xp.trunc(a / b)
        return a // b + ((a // b < 0) & (a % b != 0))

    @staticmethod
    def backward(ctx, grad_c):
        need_a, need_b = ctx.needs_grad
        return (
            Zero.call(sum_to_shape(grad_c, ctx.shapes[0])) if need_a else None,
            Zero.call(sum_to_shape(grad_c, ctx.shapes[1])) if need_b else None,
        )


class Remainder(Function):
    """c = a - floor(a / b) b, which has the sign of b.

    Derivative: floor(a / b) is constant between its jumps, so dc/da = 1 and
    dc/db = -floor(a / b); summed over the axes that broadcasting repeated.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, a, b):
        ctx.save(a, b)
        return a % b

    @staticmethod
    def backward(ctx, grad_c):
        a, b = ctx.saved
        need_a, need_b = ctx.needs_grad
        return (
            sum_to_shape(grad_c, ctx.shapes[0]) if need_a else None,
            -sum_to_shape(grad_c * (a // b), ctx.shapes[1]) if need_b else None,
        )


def sign(input):
    """-1, 0 or 1 as the element is negative, zero or positive; 0 for NaN.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sign(mt.tensor([-3.0, 0.0, 0.5]))
    tensor([-1.,  0.,  1.])
    """
    return Sign.apply(as_operand(input, "sign"))


def floor(input):
    """The largest whole number that is not above each element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.floor(mt.tensor([-1.5, 1.5]))
    tensor([-2.,  1.])
    """
    return Round.apply(as_operand(input, "floor"), towards="below")


def ceil(input):
    """The smallest whole number that is not below each element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.ceil(mt.tensor([-1.5, 1.5]))
    tensor([-1.,  2.])
    """
    return Round.apply(as_operand(input, "ceil"), towards="above")


def trunc(input):
    """Each element without its fraction.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.trunc(mt.tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """
    return Round.apply(as_operand(input, "trunc"), towards="zero")


def round(input, *, decimals=0):
    """The nearest whole number, the even one where two are equally near.

    Parameters
    ----------
    input : Tensor
    decimals : int
        Round to this many digits after the point instead.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.round(mt.tensor([0.5, 1.5, -2.4]))
    tensor([ 0.,  2., -2.])
    """
    return Round.apply(as_operand(input, "round"), towards="nearest", decimals=decimals)


def floor_divide(input, other):
    """The whole number below input / other; integers stay integers.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        If an integer tensor is divided by the number 0.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.floor_divide(mt.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    _refuse_zero("floor_divide", input, other)
    return binary(WholeQuotient, "floor_divide", input, other)


def trunc_divide(input, other):
    """input / other without its fraction: `div` with rounding_mode="trunc"."""
    _refuse_zero("div", input, other)
    try:
        return WholeQuotient.apply(*promote(input, other), towards="zero")
    except (ValueError, TypeError) as error:
        raise explained(error, "div", input=input, other=other) from None


def remainder(input, other):
    """What division by `other` leaves: input - floor(input / other) * other.

    The result has the sign of `other`, as Python's `%`.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        If an integer tensor is divided by the number 0.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.remainder(mt.tensor([5.0, -5.0]), 3)
    tensor([2., 1.])
    """
    _refuse_zero("remainder", input, other)
    return binary(Remainder, "remainder", input, other)


def _refuse_zero(name, input, other):
    """Whole numbers have no infinity to give."""
    if type(other) is int and other == 0 and input.dtype.kind != "f":
        raise ArgumentError(
            f"{name}(input, other): an integer tensor cannot be divided by 0.",
            got=f"input {input.dtype} and other 0",
            hint="input.float() gives infinity or NaN",
        )
