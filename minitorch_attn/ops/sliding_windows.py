"""Sliding windows along an axis, as a view: `Tensor.unfold`."""

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError
from ..named_errors import names_arguments
from .indexing import Slice
from .plumbing.axes import axis_of
from .plumbing.tensor_arguments import as_operand
from .reshape import Reshape

__all__ = ["sliding_windows"]


class Windows(Function):
    """Sliding windows along an axis, one every `step` elements, as a view.

    Forward:  y = windows along an axis of x
    Backward: grad_x = zeros, with each window in grad_y added at its position
    Derivation: y_..i..k = x_..(i*step + k).. for element k of window i, so an element of x receives
    the gradients of all windows that contain it.
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
    """Add windows, which may overlap, to an array of zeros; the adjoint of `Windows`.

    Forward:  y = zeros, with each window in x added at its position
    Backward: grad_x = windows of grad_y
    Derivation: the sum is linear, so the gradient of each window is the same window of grad_y.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, shape, dim, size, step):
        ctx.how = {"dim": dim, "size": size, "step": step}
        y = array_module(x).zeros(shape, dtype=x.dtype)
        before = (slice(None),) * dim
        reach = step * x.shape[dim]
        for k in range(size):  # the k-th elements of all windows are `step` apart
            y[(*before, slice(k, k + reach, step))] += x[..., k]
        return y

    @staticmethod
    def backward(ctx, grad_y):
        return Windows.call(grad_y, **ctx.how)


@names_arguments
def sliding_windows(input, dimension, size, step):
    """Sliding windows of `size` elements along an axis, one every `step` elements, as a view.

    Returns
    -------
    Tensor
        Axis `dimension` has one entry per window; a new last axis holds the elements of each
        window.

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
            "unfold(dimension, size, step): size or step is out of range",
            got=f"size={size} and step={step} for axis {dim} of input {input.shape}",
            expected=f"size from 0 to {length} and a positive step",
            hint="call mt.pad(input, ...) first if windows are longer than the axis",
        )
    if input.ndim == 0:
        return Slice.apply(Reshape.apply(input, shape=(1,)), index=(slice(size),))
    return Windows.apply(input, dim=dim, size=size, step=step)
