"""Rounding: sign, floor, ceil, trunc, round, floor_divide, and the remainders.

Except for the remainders, these functions are constant between their jumps, so their derivative is
0. At a jump, the derivative is 0 by convention. After a backward pass, `x.grad` is a tensor of
zeros, not None.
"""

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .plumbing.operands import binary
from .plumbing.range_check import InvalidValue, check_values
from .plumbing.tensor_arguments import as_operand

__all__ = ["ceil", "floor", "floor_divide", "fmod", "remainder", "round", "sign", "trunc"]


class Zero(Function):
    """Zeros with the same shape as x.

    Forward:  y = 0 * x
    Backward: grad_x = 0
    Derivation: y is constant.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        return array_module(x).zeros_like(x)

    @staticmethod
    def backward(ctx, grad_y):
        return Zero.call(grad_y)


class Sign(Function):
    """Sign of each element: -1, 0 or 1.

    Forward:  y = sign(x)
    Backward: grad_x = 0
    Derivation: y is constant on each side of 0.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        if x.dtype.kind == "b":
            return x.copy()
        return (x > 0).astype(x.dtype) - (x < 0)  # 0 at NaN as well

    @staticmethod
    def backward(ctx, grad_y):
        return Zero.call(grad_y)


class Round(Function):
    """Round down, up, toward zero, or to the nearest integer (half to even).

    Forward:  y = floor(x), ceil(x), trunc(x) or round(x)
    Backward: grad_x = 0
    Derivation: y is constant between its jumps.
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
    """Integer quotient of a and b, rounded down or toward zero.

    Forward:  c = floor(a / b), or trunc(a / b)
    Backward: grad_a = 0, grad_b = 0
    Derivation: c is constant between its jumps.
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
    """Remainder of a divided by b, with the sign of b.

    Forward:  c = a - floor(a / b) * b
    Backward: grad_a = sum_to(grad_c, a), grad_b = sum_to(-grad_c * floor(a / b), b)
    Derivation: floor(a / b) is constant between its jumps, so dc/da = 1 and
    dc/db = -floor(a / b). Both gradients are summed over the broadcast axes.
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


class Fmod(Function):
    """Remainder of a divided by b, with the sign of a.

    Forward:  c = a - trunc(a / b) * b
    Backward: grad_a = sum_to(grad_c, a), grad_b = sum_to(-grad_c * trunc(a / b), b)
    Derivation: trunc(a / b) is constant between its jumps, so dc/da = 1 and
    dc/db = -trunc(a / b). Both gradients are summed over the broadcast axes.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, a, b):
        ctx.save(a, b)
        return array_module(a, b).fmod(a, b)

    @staticmethod
    def backward(ctx, grad_c):
        a, b = ctx.saved
        need_a, need_b = ctx.needs_grad
        grad_b = -grad_c * WholeQuotient.call(a, b, towards="zero") if need_b else None
        return (
            sum_to_shape(grad_c, ctx.shapes[0]) if need_a else None,
            sum_to_shape(grad_b, ctx.shapes[1]) if need_b else None,
        )


@names_arguments
def sign(input):
    """Sign of each element: -1, 0 or 1; 0 for NaN.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sign(mt.tensor([-3.0, 0.0, 0.5]))
    tensor([-1.,  0.,  1.])
    """
    return Sign.apply(as_operand(input, "sign"))


@names_arguments
def floor(input):
    """Floor: the largest integer less than or equal to each element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.floor(mt.tensor([-1.5, 1.5]))
    tensor([-2.,  1.])
    """
    return Round.apply(as_operand(input, "floor"), towards="below")


@names_arguments
def ceil(input):
    """Ceiling: the smallest integer greater than or equal to each element.

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.ceil(mt.tensor([-1.5, 1.5]))
    tensor([-1.,  2.])
    """
    return Round.apply(as_operand(input, "ceil"), towards="above")


@names_arguments
def trunc(input):
    """Round each element toward zero: remove its fractional part (truncate).

    Parameters
    ----------
    input : Tensor

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.trunc(mt.tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """
    return Round.apply(as_operand(input, "trunc"), towards="zero")


@names_arguments
def round(input, *, decimals=0):
    """Round to the nearest integer; halves are rounded to the nearest even integer.

    Parameters
    ----------
    input : Tensor
    decimals : int
        Number of digits to keep after the decimal point.

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.round(mt.tensor([0.5, 1.5, -2.4]))
    tensor([ 0.,  2., -2.])
    """
    return Round.apply(as_operand(input, "round"), towards="nearest", decimals=decimals)


@names_arguments
def floor_divide(input, other):
    """Floor division, `floor(input / other)`; integers stay integers.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of the broadcast shape

    Raises
    ------
    ArgumentError
        If integers are divided by 0, which has no integer result.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.floor_divide(mt.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    return whole_quotient("floor_divide", input, other, "below")


def whole_quotient(where, input, other, towards):
    """Divide, then round down (towards="below") or toward zero (towards="zero")."""
    _refuse_zero(where, input, other)
    return binary(WholeQuotient, where, input, other, towards=towards)


@names_arguments
def remainder(input, other):
    """Remainder of the division, `input - floor(input / other) * other`.

    The result has the sign of `other`, like Python's `%`.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of the broadcast shape

    Raises
    ------
    ArgumentError
        If integers are divided by 0, which has no integer result.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.remainder(mt.tensor([5.0, -5.0]), 3)
    tensor([2., 1.])
    """
    _refuse_zero("remainder", input, other)
    return binary(Remainder, "remainder", input, other)


@names_arguments
def fmod(input, other):
    """Remainder of the division, `input - trunc(input / other) * other`.

    The result has the sign of `input`, like `math.fmod`; `remainder` has the sign of `other`.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor of the broadcast shape

    Raises
    ------
    ArgumentError
        If integers are divided by 0, which has no integer result.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.fmod(mt.tensor([5.0, -5.0]), 3)
    tensor([ 2., -2.])
    """
    _refuse_zero("fmod", input, other)
    return binary(Fmod, "fmod", input, other)


def _refuse_zero(name, input, other):
    """Raise ArgumentError for an integer division by 0; integers cannot represent infinity."""
    if not (_is_integer(input) and _is_integer(other)):
        return
    problem = InvalidValue(
        ArgumentError,
        f"{name}(input, other): other must not be 0 for integers",
        "use input.float(), where a division by 0 gives infinity or NaN",
    )
    if isinstance(other, int):
        if other == 0:
            raise problem(True, "0")
        return
    array = other.array if isinstance(other, Tensor) else other
    check_values(array, array == 0, problem)


def _is_integer(value):
    """Return True for an integer or boolean number, array or Tensor."""
    return isinstance(value, int) or getattr(getattr(value, "dtype", None), "kind", "f") != "f"
