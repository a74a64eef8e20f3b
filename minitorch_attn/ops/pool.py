"""Pooling: each output element is the maximum or the mean of a window of the input.

A window over several axes is the Cartesian product of one window along each axis. Its maximum is
the maximum of the maxima of its rows, and its sum is the sum of the sums of its rows. So all
pooling functions work on one axis at a time, with a table of the positions that each window covers.
"""

import math

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError
from ..named_errors import names_arguments
from .arithmetic import mul
from .gather_scatter import GatherBack
from .plumbing.pool_windows import (  # fmt: skip
    floating_only,
    largest_table,
    mean_table,
    padded_mean_table,
    shared_out,
    shared_positions,
    sum_table,
    window_positions,
    windows_of,
)
from .plumbing.spatial import batched, is_channels_last, unbatched
from .plumbing.weighted_sum import at, tap_sum

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d",
    "max_pool3d",
]  # fmt: skip


class MaxPool(Function):
    r"""Max pooling over windows; on request, also the index of each maximum within its image.

    Forward:  y = the largest element of each window of x, and its index if `with_places`
    Backward: grad_x = zeros with grad_y added at those indices
    Derivation: dy_o/dx_i = 1 if x_i is the maximum of window o, else 0. If overlapping windows have
    the same maximum, their gradients add up. Among equal elements, the first in row-major order
    counts as the maximum; among several NaNs, the last.
    Saved: the indices, as constants. If neither the caller nor a gradient needs the indices, they
    are not computed, and pooling takes a quarter of the time (3 x 3, stride 2).
    """

    @staticmethod
    def forward(ctx, x, *, tables, with_places):
        # x: (batch, channel, *space) -> one or two of (batch, channel, *place)
        ctx.space, xp = x.shape[2:], array_module(x)
        if not (with_places or any(ctx.needs_grad)):
            return _largest_only(x, tables)
        channels_last = is_channels_last(x)  # the innermost loops then run over channels
        y = images = xp.moveaxis(x, 1, -1) if channels_last else x
        first = 1 if channels_last else 2  # first spatial axis
        kinds = [taps.index.shape[1] for taps in tables]
        entry = xp.zeros_like(images, dtype=xp.min_scalar_type(math.prod(kinds)))
        for i in range(len(tables) - 1, -1, -1):
            y, entry = _largest_along(y, entry, math.prod(kinds[i + 1 :]), tables[i], first + i)
        place = _places(entry, tables, ctx.space, first)
        if channels_last:
            place = xp.moveaxis(place, -1, 1)
        ctx.constants(place)
        y = y.copy() if math.prod(kinds) == 1 else xp.ascontiguousarray(y)  # not a view of x
        y = xp.moveaxis(y, -1, 1) if channels_last else y
        return (y, place) if with_places else y

    @staticmethod
    def backward(ctx, grad_y, grad_place=None):
        (place,) = ctx.constant
        rows = place.shape[:2]
        elements, places = math.prod(ctx.space), math.prod(place.shape[2:])
        flat, index = grad_y.reshape((*rows, places)), place.reshape((*rows, places))
        grad_x = GatherBack.call(flat, index, shape=(*rows, elements), dim=2)
        return grad_x.reshape((*rows, *ctx.space))


def _largest_along(x, entry, count, taps, axis):
    """Find the largest element of each window along one axis, and its index in the window.

    The windows are already reduced along the later axes: each element of x is the maximum of a
    window over these axes, and `entry` holds the index of this maximum in that window, from 0 to
    `count` - 1. For windows of up to 255 elements, an index is stored in one byte. With int64
    indices, the computation would take about twice as long.
    """
    xp = array_module(x)
    best = found = None
    for tap, (index, _) in enumerate(taps.on_device_of(x)):
        part, here = at(x, index, axis), at(entry, index, axis) + tap * count
        if best is None:
            best, found = part, here
            continue
        better = (part > best) | (part != part)  # NaN does not equal itself
        best = xp.maximum(best, part)
        found = xp.maximum(found, here * better)  # `here` increases from tap to tap
    return best, found


def _largest_only(x, tables):
    """Return the largest element of each window, without its index; never a view of x."""
    xp, y = array_module(x), x
    for axis in range(x.ndim - 1, 1, -1):
        first, *others = tables[axis - 2].on_device_of(x)
        best = at(y, first[0], axis)
        for index, _ in others:
            best = xp.maximum(best, at(y, index, axis))
        y = best
    return y if any(taps.index.shape[1] > 1 for taps in tables) else y.copy()  # not a view of x


def _places(entry, tables, space, first):
    """Convert `entry`, an element's index in its window, to its flat index in the image."""
    xp, place, step = array_module(entry), 0, 1
    for i in range(len(tables) - 1, -1, -1):
        index = tables[i].index_on_device_of(entry) * step  # (window, element)
        windows, kinds = index.shape
        row = xp.arange(0, windows * kinds, kinds).reshape(-1, *(1,) * (entry.ndim - first - i - 1))
        place = place + index.reshape(-1).take(row + entry % kinds if kinds > 1 else row)
        entry, step = entry // kinds if kinds > 1 else entry, step * space[i]
    return xp.ascontiguousarray(xp.broadcast_to(place, entry.shape))


@names_arguments
def max_pool1d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """Max pooling over one axis; see `max_pool2d`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> max_pool1d(mt.tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
    tensor([[3., 5.]])
    """
    return _max_pool(
        "max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@names_arguments
def max_pool2d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """Max pooling over two axes: the largest element of every window.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, height, width) or (channel, height, width)
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), optional
        Step from window to window, by default `kernel_size`.
    padding : int or (int, int)
        Size of the padding on each side, at most half of a window. Padding is never the maximum.
    dilation : int or (int, int)
        Step from element to element within a window.
    ceil_mode : bool
        Whether to add a last, incomplete window, if it starts in the input or the left padding.
    return_indices : bool
        Whether to return the index of each maximum, in row-major order within its channel.

    Returns
    -------
    Tensor of shape (batch, channel, *out_size), or (channel, *out_size) without a batch axis
        With `return_indices`, a pair (maxima, indices) of tensors of this shape.

    Notes
    -----
    The derivative is in `MaxPool`. Among equal elements, the first gets all the gradient.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> max_pool2d(mt.arange(16.0).reshape(1, 4, 4), 2, return_indices=True)
    (tensor([[[ 5.,  7.],
             [13., 15.]]]), tensor([[[ 5,  7],
             [13, 15]]]))
    """
    return _max_pool(
        "max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@names_arguments
def max_pool3d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """Max pooling over three axes; see `max_pool2d`."""
    return _max_pool(
        "max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@names_arguments
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Average pooling over one axis; see `avg_pool2d`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> avg_pool1d(mt.tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
    tensor([[2. , 3.5]])
    """
    return _avg_pool(
        "avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad
    )


@names_arguments
def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None,
):  # fmt: skip
    """Average pooling over two axes: the mean of every window.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, height, width) or (channel, height, width)
    kernel_size, stride, padding, ceil_mode
        See `max_pool2d`; the padding consists of zeros.
    count_include_pad : bool
        Whether zeros of the padding count as elements. Zeros that `ceil_mode` adds never count.
    divisor_override : int, optional
        Number to divide the sum by, instead of the number of elements.

    Returns
    -------
    Tensor of shape (batch, channel, *out_size)

    Notes
    -----
    The operation is linear in the input. The derivative is in `TapSum`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> avg_pool2d(mt.ones(1, 2, 2), 2, padding=1)
    tensor([[[0.25, 0.25],
             [0.25, 0.25]]])
    """
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip


@names_arguments
def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None,
):  # fmt: skip
    """Average pooling over three axes; see `avg_pool2d`."""
    return _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    )  # fmt: skip


@names_arguments
def adaptive_avg_pool1d(input, output_size):
    """Average pooling over one axis to a given output size; see `adaptive_avg_pool2d`."""
    return _adaptive_avg("adaptive_avg_pool1d", 1, input, output_size)


@names_arguments
def adaptive_avg_pool2d(input, output_size):
    """Average pooling to a given output size.

    With m windows over n elements, window o covers the indices from `floor(o n / m)` to, but not
    including, `ceil((o + 1) n / m)`. Neighboring windows overlap if n is not divisible by m.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, height, width) or (channel, height, width)
    output_size : int or (int, int)
        Size of the output; None keeps the size of that axis.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> adaptive_avg_pool2d(mt.tensor([[[1.0, 2.0, 6.0]]]), (None, 2))
    tensor([[[1.5, 4. ]]])
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, input, output_size)


@names_arguments
def adaptive_avg_pool3d(input, output_size):
    """Average pooling over three axes to a given output size; see `adaptive_avg_pool2d`."""
    return _adaptive_avg("adaptive_avg_pool3d", 3, input, output_size)


@names_arguments
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Max pooling over one axis to a given output size; see `adaptive_max_pool2d`."""
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


@names_arguments
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Max pooling to a given output size, over the windows of `adaptive_avg_pool2d`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> adaptive_max_pool2d(mt.tensor([[[1.0, 2.0, 6.0]]]), (None, 2))
    tensor([[[2., 6.]]])
    """
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


def _max_pool(where, count, input, kernel_size, stride, padding, dilation, ceil_mode, with_places):
    x = batched(input, count, where)
    axes = windows_of(where, x, kernel_size, stride, padding, dilation, ceil_mode)
    tables = tuple([largest_table(axis[0], window_positions, *axis[1:]) for axis in axes])
    return _largest(x, tables, input, with_places)


def _largest(x, tables, input, with_places):
    count = len(tables)
    if not with_places:
        return unbatched(MaxPool.apply(x, tables=tables, with_places=False), input, count)
    y, place = MaxPool.apply(x, tables=tables, with_places=True)
    return unbatched(y, input, count), unbatched(place, input, count)


def _avg_pool(
    where, count, input, kernel_size, stride, padding, ceil_mode, include_pad, divisor=None
):  # fmt: skip
    x = floating_only(where, batched(input, count, where))
    if divisor == 0:
        raise ArgumentError(
            f"{where}: divisor_override must not be 0",
            got="0",
            hint="use divisor_override=None to divide by the size of the window",
        )
    axes = windows_of(where, x, kernel_size, stride, padding, 1, ceil_mode)
    if divisor is not None:
        y = mul(tap_sum(x, [sum_table(*axis) for axis in axes]), 1.0 / divisor)
    elif include_pad:
        y = tap_sum(x, [padded_mean_table(*axis) for axis in axes])
    else:
        y = tap_sum(x, [mean_table(axis[0], window_positions, *axis[1:]) for axis in axes])
    return unbatched(y, input, count)


def _adaptive_avg(where, count, input, output_size):
    x, sizes = shared_out(where, count, input, output_size)
    pairs = zip(x.shape[2:], sizes, strict=True)
    tables = [None if n == m else mean_table(n, shared_positions, m) for n, m in pairs]
    y = tap_sum(floating_only(where, x), tables)
    return unbatched(y, input, count)


def _adaptive_max(where, count, input, output_size, with_places):
    x, sizes = shared_out(where, count, input, output_size)
    pairs = zip(x.shape[2:], sizes, strict=True)
    tables = tuple([largest_table(n, shared_positions, m) for n, m in pairs])
    return _largest(x, tables, input, with_places)
