"""Broadcasting: repeat the elements of a tensor without a copy."""

import math

from ..autograd.broadcasting import broadcast_shapes, sum_to_shape
from ..autograd.function import Function
from ..backend import array_module
from ..errors import ShapeError
from ..named_errors import names_arguments
from .plumbing.axes import sizes_of
from .plumbing.tensor_arguments import as_operand, as_operands, not_tensors

__all__ = ["broadcast_tensors", "broadcast_to", "expand", "expand_as"]


class BroadcastTo(Function):
    """Broadcasting: repeat x along new axes and axes of size 1, without a copy.

    Forward:  y = x broadcast to a given shape
    Backward: grad_x = sum_to(grad_y, x)
    Derivation: every element is used several times, and the gradients of its uses add up.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, shape):
        if x.size == math.prod(shape):
            return x.reshape(shape)  # no element is repeated, so writing to the view is safe
        return array_module(x).broadcast_to(x, shape)

    @staticmethod
    def backward(ctx, grad_y):
        return sum_to_shape(grad_y, ctx.shapes[0])


@names_arguments
def broadcast_to(input, shape):
    """Broadcast `input` to `shape` as a view, without a copy; equivalent to `expand`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> broadcast_to(mt.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, shape)


def expand(input, size):
    """Repeat `input` along axes of size 1 and new leading axes, as a view without a copy.

    Parameters
    ----------
    input : Tensor
    size : tuple of int
        Shape of the result; -1 keeps the size of an existing axis.

    Raises
    ------
    ShapeError
        If an axis whose size is not 1 would have to change.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> expand(mt.tensor([[1], [2]]), (-1, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    size = sizes_of(size, "expand")
    try:
        lead = len(size) - input.ndim
    except (AttributeError, TypeError) as error:
        raise not_tensors(error, "expand", input=input) from None
    shape = tuple([
        input.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(size)
    ])  # fmt: skip
    old = input.shape
    if lead < 0 or any(n < 0 or (i >= lead and old[i - lead] not in (n, 1))
                       for i, n in enumerate(shape)):  # fmt: skip
        raise ShapeError(
            "expand(input, size): input does not broadcast to size",
            got=f"input {input.shape} and size {size}",
            expected="the size of input, or -1, on each of its axes; only axes of size 1 can grow",
            hint="use input.repeat(...) to repeat an axis of any size",
        )
    return BroadcastTo.apply(input, shape=shape)


@names_arguments
def expand_as(input, other):
    """Broadcast `input` to the shape of `other`, without a copy.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> expand_as(mt.tensor([1, 2]), mt.zeros(3, 2)).shape
    (3, 2)
    """
    return expand(input, as_operand(other, "expand_as", "other").shape)


@names_arguments
def broadcast_tensors(*tensors):
    """Broadcast all tensors to their common shape, without copies.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [x.shape for x in broadcast_tensors(mt.zeros(3, 1), mt.zeros(2))]
    [(3, 2), (3, 2)]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]
    tensors = as_operands(tensors, "broadcast_tensors")
    shape = broadcast_shapes(*[x.shape for x in tensors], where="broadcast_tensors")
    return tuple([expand(x, shape) for x in tensors])
