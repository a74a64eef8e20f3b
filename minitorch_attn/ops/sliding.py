"""A tensor seen through windows that slide along an axis."""

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError
from .axes import axis_of
from .given import as_operand
from .index import Slice
from .shape import Reshape

__all__ = ["sliding_windows"]


class Windows(Function):
    """y_..i..k = x_..i*step+k..: a window of some size at every step along an axis; a view.

    Derivative: an element receives the gradients of all the windows that it is in.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, dim, size, step):
        ctx.how = {"dim": dim, "size": size, "step": step}
        shape, strides = list(x.shape), list(x.strides)
        shape[dim] = (x.shape[dim] - size) // step + 1
        strides[dim] *= step
        return array_module(x).lib.stride_tricks.as_strided(
            x, (*shape, size), (*strides, x.strides[dim])
        )

    @staticmethod
    def backward(ctx, grad_y):
        return WindowSum.call(grad_y, shape=ctx.shapes[0], **ctx.how)


class WindowSum(Function):
    """y = zeros of a shape with the windows x added where they lay: the adjoint of Windows.

    Derivative: the windows of the gradient.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, shape, dim, size, step):
        ctx.how = {"dim": dim, "size": size, "step": step}
        y = array_module(x).zeros(shape, dtype=x.dtype)
        before = (slice(None),) * dim
        reach = step * x.shape[dim]
        for k in range(size):  # the k-th elements of all windows lie `step` apart
            y[(*before, slice(k, k + reach, step))] += x[..., k]
        return y

    @staticmethod
    def backward(ctx, grad_y):
        return Windows.call(grad_y, **ctx.how)


def sliding_windows(input, dimension, size, step):
    """Every window of `size` slices along an axis, `step` apart, as a view: `Tensor.unfold`.

    Returns
    -------
    Tensor
        The axis holds one entry per window; the elements of a window are on a new last axis.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> sliding_windows(mt.arange(5), 0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    input = as_operand(input, "unfold")
    dim = axis_of(dimension, input.ndim, "unfold", "dimension")
    length = input.shape[dim] if input.ndim else 1
    if not 0 <= size <= length or step < 1:
        raise ArgumentError(
            "unfold(dimension, size, step): no such windows.",
            got=f"size={size} and step={step} for axis {dim} of input {input.shape}",
            expected=f"size from 0 to {length} and a positive step",
        )
    if input.ndim == 0:
        return Slice.apply(Reshape.apply(input, shape=(1,)), index=(slice(size),))
    return Windows.apply(input, dim=dim, size=size, step=step)
