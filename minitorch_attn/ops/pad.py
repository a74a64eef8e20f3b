"""Padding: add entries around a tensor, or crop it (`torch.nn.functional.pad`)."""

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .indexing import LookUp
from .plumbing.axes import sizes_of
from .plumbing.tensor_arguments import as_operand

__all__ = ["pad"]


class Pad(Function):
    """Pad x before and after each axis; a negative amount crops the axis.

    Forward:  y = x with `value` around it
    Backward: grad_x = grad_y without the padding
    Derivation: the derivative is 1 for elements kept and 0 for elements cropped, so the gradient is
    padded with zeros by the opposite amounts.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, amounts, value):
        ctx.amounts = amounts
        shape = tuple([n + a + b for n, (a, b) in zip(x.shape, amounts, strict=True)])
        y = array_module(x).full(shape, value, dtype=x.dtype)
        inside = tuple([slice(max(a, 0), n - max(b, 0))
                        for n, (a, b) in zip(shape, amounts, strict=True)])  # fmt: skip
        kept = tuple([slice(max(-a, 0), n - max(-b, 0))
                      for n, (a, b) in zip(x.shape, amounts, strict=True)])  # fmt: skip
        y[inside] = x[kept]
        return y

    @staticmethod
    def backward(ctx, grad_y):
        opposite = tuple([(-a, -b) for a, b in ctx.amounts])
        return Pad.call(grad_y, amounts=opposite, value=0)


@names_arguments
def pad(input, pad, mode="constant", value=None):
    """Pad `input` at both ends of its axes; a negative amount crops the axis.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        Number of entries to add before and after each axis, starting with the last axis.
    mode : {"constant", "reflect", "replicate", "circular"}
        Source of the new entries: a constant value, the entries mirrored at the border entry,
        copies of the border entry, or the entries from the opposite end.
    value : number, default 0
        Value of the new entries in mode "constant".

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([1, 2, 3])
    >>> pad(x, (1, 2)), pad(x, (-1, 1), value=9), pad(x, (2, 2), mode="reflect")
    (tensor([0, 1, 2, 3, 0, 0]), tensor([2, 3, 9]), tensor([3, 2, 1, 2, 3, 2, 1]))
    """
    input = as_operand(input, "pad")
    amounts = _amounts(input, sizes_of(pad, "pad", "pad"))
    if mode == "constant":
        return Pad.apply(input, amounts=amounts, value=0 if value is None else value)
    if mode not in _SOURCES:
        raise ArgumentError(
            "pad: mode is not supported",
            got=f"mode={mode!r}",
            expected="'constant', 'reflect', 'replicate' or 'circular'",
            hint="write 'replicate' for NumPy's 'edge', and 'circular' for NumPy's 'wrap'",
        )
    if value is not None and value != 0:
        raise ArgumentError(
            f"pad: value requires mode='constant', not {mode!r}",
            got=f"{value}",
            hint="omit value, or use mode='constant'",
        )
    for axis, (before, after) in enumerate(amounts):
        if before or after:
            index = _source(input, axis, before, after, mode)
            input = LookUp.apply(input, wrap(index), axes=(axis,))
    return input


def _amounts(input, flat):
    """Convert `flat` (last axis first) to one pair (before, after) per axis, first axis first."""
    if len(flat) % 2 or len(flat) > 2 * input.ndim:
        raise ArgumentError(
            "pad(input, pad): pad must hold at most one pair per axis",
            got=f"pad={flat} for input {input.shape}",
            hint="give (left, right) for the last axis, then (top, bottom) for the one before it",
        )
    pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
    amounts = ((0, 0),) * (input.ndim - len(pairs)) + tuple(pairs)
    for n, (before, after) in zip(input.shape, amounts, strict=True):
        if n + before + after < 0 or n + before < 0 or n + after < 0:
            raise ShapeError(
                "pad(input, pad): pad crops more entries than the axis has",
                got=f"pad={flat} for input {input.shape}",
                hint="give pairs (before, after), starting with the last axis",
            )
    return amounts


def _reflected(xp, place, size):
    return (size - 1) - abs((size - 1) - abs(place))


def _replicated(xp, place, size):
    return xp.clip(place, 0, size - 1)


def _circular(xp, place, size):
    return place % size


# mode -> (the index that an outside entry copies, the largest amount for a size)
_SOURCES = {
    "reflect": (_reflected, lambda size: size - 1),
    "replicate": (_replicated, lambda size: float("inf") if size else 0),
    "circular": (_circular, lambda size: size),
}


def _source(input, axis, before, after, mode):
    """Return, for each entry along the padded axis, the index of the input entry to copy."""
    size = input.shape[axis]
    source, largest = _SOURCES[mode]
    if max(before, after) > max(largest(size), 0):
        raise ShapeError(
            f"pad(input, pad, mode={mode!r}): the padding is too large for the axis",
            got=f"({before}, {after}) on axis {axis} of input {input.shape}",
            expected=f"at most {max(largest(size), 0)}",
            hint="use mode='constant', which accepts any amount",
        )
    xp = array_module(input.array)
    return source(xp, xp.arange(-before, size + after), size)
