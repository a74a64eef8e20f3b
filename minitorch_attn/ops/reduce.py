"""Fewer elements: sums and means over axes."""

import builtins

from ..autograd.function import Function
from .cast import cast
from .shape import BroadcastTo

__all__ = ["sum"]


class Sum(Function):
    """y = sum of x over some axes.

    Derivative: dy/dx_i = 1, so each element receives the gradient of the sum it went into.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, axis, keepdims):
        ctx.axis = axis
        return x.sum(axis=axis, keepdims=keepdims)

    @staticmethod
    def backward(ctx, grad_y):
        (shape,) = ctx.shapes
        axes = ctx.axis if ctx.axis is not None else range(len(shape))
        kept = [1 if i in axes else n for i, n in enumerate(shape)]
        return BroadcastTo.call(grad_y.reshape(tuple(kept)), shape=shape)


def sum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum over the axes `dim`, all of them by default."""
    if dtype is not None:
        input = cast(input, dtype)
    elif input.dtype.kind == "b":
        input = cast(input, "int64")
    if isinstance(dim, builtins.int):
        dim = (dim,)
    if dim is not None:
        dim = tuple(d % input.ndim for d in dim)
    return Sum.apply(input, axis=dim, keepdims=builtins.bool(keepdim))
