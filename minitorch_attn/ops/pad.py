"""More room around a tensor, or less: `torch.nn.functional.pad`."""

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, ShapeError
from ..tensor import wrap
from .axes import sizes_of
from .given import as_operand
from .index import LookUp

__all__ = ["pad"]


class Pad(Function):
    """y = x with so many entries added before and after on each axis, or cut off.

    Derivative: 1 for what is still there, 0 for what was cut off: the gradient padded by the
    opposite amounts, with zeros.
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


def pad(input, pad, mode="constant", value=None):
    """`input` with entries added around it, or cut off where an amount is negative.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        Pairs (before, after), for the last axis first.
    mode : {"constant", "reflect", "replicate", "circular"}
        What to add: one value; the entries mirrored at the border entry; the border entry;
        the entries from the other end.
    value : number, default 0
        For "constant".

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
            "pad: there is no such mode.",
            got=f"mode={mode!r}",
            expected="'constant', 'reflect', 'replicate' or 'circular'",
        )
    if value is not None and value != 0:
        raise ArgumentError(f"pad: mode {mode!r} takes no value.", got=f"value={value}")
    for axis, (before, after) in enumerate(amounts):
        if before or after:
            index = _source(input, axis, before, after, mode)
            input = LookUp.apply(input, wrap(index), axes=(axis,))
    return input


def _amounts(input, flat):
    """(before, after) for every axis, the first axis first."""
    if len(flat) % 2 or len(flat) > 2 * input.ndim:
        raise ArgumentError(
            "pad(input, pad): pad holds pairs, at most one per axis.",
            got=f"pad={flat} for input {input.shape}",
        )
    pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
    amounts = ((0, 0),) * (input.ndim - len(pairs)) + tuple(pairs)
    for n, (before, after) in zip(input.shape, amounts, strict=True):
        if n + before + after < 0 or n + before < 0 or n + after < 0:
            raise ShapeError(
                "pad(input, pad): more is cut off than there is.",
                got=f"pad={flat} for input {input.shape}",
            )
    return amounts


def _reflected(xp, place, size):
    return (size - 1) - abs((size - 1) - abs(place))


def _replicated(xp, place, size):
    return xp.clip(place, 0, size - 1)


def _circular(xp, place, size):
    return place % size


# mode -> (where an entry outside is taken from, the largest amount for a size)
_SOURCES = {
    "reflect": (_reflected, lambda size: size - 1),
    "replicate": (_replicated, lambda size: float("inf") if size else 0),
    "circular": (_circular, lambda size: size),
}


def _source(input, axis, before, after, mode):
    """For each entry along the padded axis, the number of the entry that it copies."""
    size = input.shape[axis]
    source, largest = _SOURCES[mode]
    if max(before, after) > max(largest(size), 0):
        raise ShapeError(
            f"pad(input, pad, mode={mode!r}): more is added than there is to take it from.",
            got=f"({before}, {after}) on axis {axis} of input {input.shape}",
            expected=f"at most {max(largest(size), 0)}",
        )
    xp = array_module(input.array)
    return source(xp, xp.arange(-before, size + after), size)
