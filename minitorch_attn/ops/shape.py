"""Other shapes for the same elements."""

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module

__all__ = ["broadcast_to", "expand", "reshape"]


class BroadcastTo(Function):
    """y = x repeated along new axes and axes of size 1, without a copy.

    Derivative: every element is used several times; the gradient is the sum over its uses.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, shape):
        return array_module(x).broadcast_to(x, shape)

    @staticmethod
    def backward(ctx, grad_y):
        return sum_to_shape(grad_y, ctx.shapes[0])


def broadcast_to(input, size):
    """`input` repeated to the shape `size`."""
    return BroadcastTo.apply(input, shape=tuple(size))


def expand(input, size):
    """`input` repeated to `size`, where -1 keeps the size of an axis."""
    lead = len(size) - input.ndim
    shape = tuple(
        input.shape[i - lead] if n == -1 else n for i, n in enumerate(size)
    )
    return BroadcastTo.apply(input, shape=shape)


class Reshape(Function):
    """y = the elements of x in row-major order, in another shape.

    Derivative: 1; the gradient takes the old shape.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, shape):
        return x.reshape(shape)

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y.reshape(ctx.shapes[0])


def reshape(input, shape):
    """The elements of `input` in another shape; one size may be -1."""
    return Reshape.apply(input, shape=tuple(shape))
