"""Elementwise choice: where, masked_fill, nan_to_num, maximum, minimum, clamp."""

import math

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module, finfo
from ..backend.select import where as choose
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, wrap
from .cast import cast
from .plumbing.operands import MISFITS, binary, explained, number
from .plumbing.promotion import promote, result_type, wrapped
from .plumbing.tensor_arguments import as_operand
from .searchsorted import nonzero

__all__ = ["clamp", "masked_fill", "maximum", "minimum", "nan_to_num", "where"]


class Where(Function):
    """Choose the elements of a where a condition is True, and the elements of b elsewhere.

    Forward:  y = where(condition, a, b)
    Backward: grad_a = sum_to(where(condition, grad_y, 0), a),
        grad_b = sum_to(where(condition, 0, grad_y), b)
    Derivation: the derivative is 1 for the chosen operand and 0 for the other. The operand that was
    not chosen gets exactly 0, even where grad_y is NaN. Both gradients are summed over the
    broadcast axes.
    Saved: the condition.
    """

    @staticmethod
    def forward(ctx, condition, a, b):
        ctx.constants(condition)
        return choose(condition, a, b)

    @staticmethod
    def backward(ctx, grad_y):
        (condition,) = ctx.constant
        _, need_a, need_b = ctx.needs_grad
        _, shape_a, shape_b = ctx.shapes
        return (
            None,
            sum_to_shape(keep_where(condition, grad_y), shape_a) if need_a else None,
            sum_to_shape(drop_where(condition, grad_y), shape_b) if need_b else None,
        )


def keep_where(condition, grad):
    """Return `grad` where the condition holds, and 0 elsewhere. Accepts arrays and Tensors."""
    if isinstance(grad, Tensor) or isinstance(condition, Tensor):
        return Where.apply(condition, grad, 0.0)
    return choose(condition, grad, 0.0)


def drop_where(condition, grad):
    """Return 0 where the condition holds, and `grad` elsewhere. Accepts arrays and Tensors."""
    if isinstance(grad, Tensor) or isinstance(condition, Tensor):
        return Where.apply(condition, 0.0, grad)
    return choose(condition, 0.0, grad)


class Maximum(Function):
    """Elementwise maximum of a and b; NaN if either is NaN.

    Forward:  c = max(a, b)
    Backward: grad_a = sum_to(grad_c * (a > b), a), grad_b = sum_to(grad_c * (b > a), b);
        half each where equal
    Derivation: the derivative is 1 for the larger operand and 0 for the other. If the operands are
    equal, each receives one half of the gradient, a subgradient. Both gradients are summed over the
    broadcast axes.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, a, b):
        ctx.save(a, b)
        return array_module(a, b).maximum(a, b)

    @staticmethod
    def backward(ctx, grad_c):
        a, b = ctx.saved
        return _shared(ctx, grad_c, a < b, b < a, a == b)


class Minimum(Function):
    """Elementwise minimum of a and b; NaN if either is NaN.

    Forward:  c = min(a, b)
    Backward: grad_a = sum_to(grad_c * (a < b), a), grad_b = sum_to(grad_c * (b < a), b);
        half each where equal
    Derivation: the derivative is 1 for the smaller operand and 0 for the other. If the operands are
    equal, each receives one half of the gradient, a subgradient. Both gradients are summed over the
    broadcast axes.
    Saved: both inputs.
    """

    @staticmethod
    def forward(ctx, a, b):
        ctx.save(a, b)
        return array_module(a, b).minimum(a, b)

    @staticmethod
    def backward(ctx, grad_c):
        a, b = ctx.saved
        return _shared(ctx, grad_c, b < a, a < b, a == b)


def _shared(ctx, grad_c, lost_a, lost_b, tie):
    """Return both gradients: 0 for an operand not chosen, `grad_c / 2` in a tie, else `grad_c`.

    `lost_a` is True where a was not chosen, `lost_b` where b was not, and `tie` where a = b.
    """
    need_a, need_b = ctx.needs_grad
    grad_c = Where.call(tie, grad_c * 0.5, grad_c)
    return (
        sum_to_shape(drop_where(lost_a, grad_c), ctx.shapes[0]) if need_a else None,
        sum_to_shape(drop_where(lost_b, grad_c), ctx.shapes[1]) if need_b else None,
    )


class Clamp(Function):
    """Clamp x to [low, high], where low and high are numbers and one may be None.

    Forward:  y = min(max(x, low), high)
    Backward: grad_x = grad_y * (x >= low) * (x <= high)
    Derivation: the derivative is 1 inside and at the limits, and 0 outside.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, low, high):
        ctx.save(x)
        ctx.low, ctx.high = low, high
        xp = array_module(x)
        y = x if low is None else xp.maximum(x, low)
        return y if high is None else xp.minimum(y, high)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        return keep_where(_inside(x, ctx.low, ctx.high), grad_y)


class ClampTo(Function):
    """Clamp x to [low, high], where low and high are tensors and either may be None.

    Forward:  y = min(max(x, low), high)
    Backward: the gradient goes to whichever of x, low and high was chosen
    Derivation: the derivative is 1 for the operand that is chosen. Where low <= high, this is x
    if low <= x <= high, and otherwise the limit nearer to x. There is one exception, as in PyTorch:
    where x < low = high, no operand gets a gradient. Where low > high, high is always chosen. Each
    gradient is summed over the axes that broadcasting repeated.
    Saved: the inputs.
    """

    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save(x, low, high)
        xp = array_module(x, low, high)
        y = x if low is None else xp.maximum(x, low)
        return y if high is None else xp.minimum(y, high)

    @staticmethod
    def backward(ctx, grad_y):
        x, low, high = ctx.saved
        need_x, need_low, need_high = ctx.needs_grad
        shape_x, shape_low, shape_high = ctx.shapes
        grad_x = grad_low = grad_high = None
        if need_x:
            inside = _inside(x, low, high)
            grad_x = sum_to_shape(keep_where(inside, grad_y), shape_x)
        if need_low:
            below = x < low if high is None else (x < low) & (low < high)
            grad_low = sum_to_shape(keep_where(below, grad_y), shape_low)
        if need_high:
            above = x > high if low is None else (x > high) | (low > high)
            grad_high = sum_to_shape(keep_where(above, grad_y), shape_high)
        return grad_x, grad_low, grad_high


def _inside(x, low, high):
    """Return whether low <= x <= high, for numbers, arrays or Tensors; False for NaN."""
    if high is None:
        return x >= low
    return x <= high if low is None else (x >= low) & (x <= high)


def where(condition, input=None, other=None):
    """Choose `input` where `condition` is True, else `other`; all three broadcast.

    Parameters
    ----------
    condition : Tensor of bool
    input, other : Tensor or number
        Values to choose from. If both are omitted, `where` returns the indices where `condition`
        is True.

    Returns
    -------
    Tensor; without `input` and `other`, the tuple `nonzero(condition, as_tuple=True)`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([-1.0, 2.0])
    >>> mt.where(x > 0, x, 0.0)
    tensor([0., 2.])
    >>> mt.where(x > 0)
    (tensor([1]),)
    """
    if input is None and other is None:
        return nonzero(as_operand(condition, "where", "condition"), as_tuple=True)
    condition = _as_condition(condition, "where", "condition")
    try:
        if not isinstance(input, Tensor) and not isinstance(other, Tensor):
            dtype = result_type(input, other)
            input, other = _zero_d(input, dtype, condition), _zero_d(other, dtype, condition)
        return Where.apply(condition, *promote(input, other))
    except MISFITS as error:
        raise explained(error, "where", condition=condition, input=input, other=other) from None


def _as_condition(mask, name, argument):
    mask = as_operand(mask, name, argument)
    if mask.dtype.kind != "b":
        raise DTypeError(
            f"{name}: {argument} must be boolean",
            got=f"{mask.dtype}",
            hint=f"use a comparison such as x > 0, or {argument}.bool()",
        )
    return mask


def _zero_d(value, dtype, like):
    """Return a number as a 0-d tensor on the device of `like`."""
    if dtype.kind in "iu":
        value = wrapped(int(value), dtype)
    return wrap(array_module(like.array).full((), value, dtype=dtype))


def masked_fill(input, mask, value):
    """Replace the elements of `input` with `value` where `mask` is True.

    Parameters
    ----------
    input : Tensor
    mask : Tensor of bool
        Mask of the elements to fill; broadcasts with `input`.
    value : number or 0-d Tensor

    Returns
    -------
    Tensor of the dtype of `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> scores = mt.tensor([0.5, 2.0])
    >>> mt.masked_fill(scores, mt.tensor([False, True]), float("-inf"))
    tensor([ 0.5, -inf])
    """
    mask = _as_condition(mask, "masked_fill", "mask")
    input = as_operand(input, "masked_fill")
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(
                "masked_fill: value must be a single number",
                got=f"a tensor of shape {value.shape}",
                expected="a number or a 0-d tensor",
                hint="use where(mask, value, input), which takes a tensor of any shape",
            )
        value = cast(value, input.dtype)
    else:
        value = number(value, "masked_fill", "value")
        if input.dtype.kind != "f":
            value = _zero_d(_whole(value, input.dtype), input.dtype, input)
    try:
        return Where.apply(mask, value, input)
    except (ValueError, OverflowError) as error:
        raise explained(error, "masked_fill", input=input, mask=mask, value=value) from None


@names_arguments
def nan_to_num(input, nan=0.0, posinf=None, neginf=None):
    """Replace NaN and infinities with numbers; the replaced elements do not receive a gradient.

    Parameters
    ----------
    input : Tensor
    nan : float
        Replacement for NaN.
    posinf, neginf : float, optional
        Replacements for infinity and -infinity; by default the limits of the dtype.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nan_to_num(mt.tensor([1.5, float("nan"), float("inf")]), posinf=9)
    tensor([1.5, 0. , 9. ])
    """
    input = as_operand(input, "nan_to_num")
    if input.dtype.kind != "f":
        return input.clone()
    limits = finfo(input.dtype)
    result = masked_fill(input, input != input, 0.0 if nan is None else nan)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    result = masked_fill(result, input == math.inf, high)
    return masked_fill(result, input == -math.inf, low)


def _whole(value, dtype):
    """Convert a number as a cast does: truncate it to an integer, or test it for nonzero (bool)."""
    if dtype.kind == "b":
        return value != 0
    if not math.isfinite(value):
        raise DTypeError(
            "masked_fill: value is out of range for the dtype of input",
            got=f"{value!r} for {dtype}",
            hint="call input.float() first",
        )
    return int(value)


def maximum(input, other):
    """Elementwise maximum; NaN if either element is NaN.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.maximum(mt.tensor([1.0, 5.0]), mt.tensor([3.0, 2.0]))
    tensor([3., 5.])
    """
    return binary(Maximum, "maximum", input, other)


def minimum(input, other):
    """Elementwise minimum; NaN if either element is NaN.

    Parameters
    ----------
    input, other : Tensor or number

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.minimum(mt.tensor([1.0, 5.0]), mt.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return binary(Minimum, "minimum", input, other)


@names_arguments
def clamp(input, min=None, max=None):
    """Clamp every element to [min, max].

    Parameters
    ----------
    input : Tensor
    min, max : number or Tensor, optional
        Limits, of which at least one must be given. Where min > max, the result is max.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.clamp(mt.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0. , 0.5, 1. ])
    """
    if min is None and max is None:
        raise ArgumentError("clamp: min and max are both missing", hint="set at least one of them")
    input = as_operand(input, "clamp")
    given = {key: v for key, v in (("min", min), ("max", max)) if v is not None}
    limits = {
        key: v if isinstance(v, Tensor) else number(v, "clamp", key) for key, v in given.items()
    }
    dtype = result_type(input, *limits.values())
    input, low, high = cast(input, dtype), limits.get("min"), limits.get("max")
    if not any(isinstance(limit, Tensor) for limit in limits.values()):
        low, high = (
            v if v is None or dtype.kind == "f" else wrapped(int(v), dtype) for v in (low, high)
        )
        return Clamp.apply(input, low=low, high=high)
    try:
        return ClampTo.apply(input, _limit(low, dtype, input), _limit(high, dtype, input))
    except ValueError as error:
        raise explained(error, "clamp", input=input, **limits) from None


def _limit(limit, dtype, input):
    if limit is None:
        return None
    return cast(limit, dtype) if isinstance(limit, Tensor) else _zero_d(limit, dtype, input)
