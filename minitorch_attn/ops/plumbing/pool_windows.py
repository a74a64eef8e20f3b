"""Pooling windows: their number along an axis, and the elements that each window covers."""

from functools import lru_cache

from ...backend import array_module
from ...errors import ArgumentError, DTypeError, ShapeError
from .spatial import batched, each_axis
from .weighted_sum import Taps

__all__ = [
    "floating_only", "largest_table", "mean_table", "padded_mean_table", "shared_out",
    "shared_positions", "sum_table", "window_positions", "windows_of",
]  # fmt: skip

_host = array_module()  # tables are made on the host, where the sizes are known


@lru_cache(maxsize=256)
def window_positions(size, kernel, stride, padding, dilation, places):
    """Return the positions in each window, shape (window, kernel); padding has position `size`."""
    start = _host.arange(places)[:, None] * stride - padding
    index = start + _host.arange(kernel) * dilation
    return _host.where((index < 0) | (index >= size), size, index)


@lru_cache(maxsize=256)
def shared_positions(size, places):
    """Return the positions in each adaptive pooling window, in the format of `window_positions`."""
    o = _host.arange(places)
    start, stop = o * size // max(places, 1), -(-(o + 1) * size // max(places, 1))
    index = start[:, None] + _host.arange(int((stop - start).max(initial=1)))
    return _host.where(index < stop[:, None], index, size)


@lru_cache(maxsize=256)
def largest_table(size, positions, *how):
    """Return the table (`Taps`) of the elements in each window, for max pooling.

    Padding must never be the maximum. In place of padding, a window therefore repeats its last
    element inside the input, which does not change the maximum.
    """
    index = positions(size, *how)
    last = _host.where(index < size, index, -1).max(axis=1, keepdims=True, initial=-1)
    return Taps(_host.sort(_host.where(index < size, index, last), axis=1), None, size)


@lru_cache(maxsize=256)
def mean_table(size, positions, *how):
    """Return the sparse matrix (`Taps`) that computes each window's mean, without the padding."""
    index = positions(size, *how)
    count = (index < size).sum(axis=1, keepdims=True)
    return Taps(index, _host.where(index < size, 1.0 / _host.maximum(count, 1), 0.0), size)


@lru_cache(maxsize=256)
def padded_mean_table(size, kernel, stride, padding, dilation, places):
    """Return the sparse matrix (`Taps`) that computes each window's mean, with the padding.

    The divisor is the number of elements in the window, including the padding elements. Positions
    beyond the padding, which windows in `ceil_mode` can reach, are not counted.
    """
    index = window_positions(size, kernel, stride, padding, dilation, places)
    start = _host.arange(places)[:, None] * stride - padding
    count = _host.minimum(start + kernel, size + padding) - start
    return Taps(index, _host.where(index < size, 1.0 / count, 0.0), size)


@lru_cache(maxsize=256)
def sum_table(size, *how):
    return Taps(window_positions(size, *how), None, size)


def windows_of(where, x, kernel_size, stride, padding, dilation, ceil_mode):
    """Return a list of (size, kernel, stride, padding, dilation, places), one per spatial axis.

    `places` is the number of windows along the axis.
    """
    count = x.ndim - 2
    kernel = each_axis(kernel_size, count, where, "kernel_size", 1)
    stride = kernel if stride is None or stride == () else stride
    numbers = zip(
        x.shape[2:],
        kernel,
        each_axis(stride, count, where, "stride", 1),
        each_axis(padding, count, where, "padding"),
        each_axis(dilation, count, where, "dilation", 1),
        strict=True,
    )
    return [_window(where, x, *axis, ceil_mode) for axis in numbers]


def _window(where, x, size, kernel, stride, padding, dilation, ceil_mode):
    reach = dilation * (kernel - 1) + 1
    if padding > kernel // 2:
        raise ArgumentError(
            f"{where}: padding must be at most half of kernel_size",
            got=f"padding={padding} with kernel_size={kernel}",
            expected=f"at most {kernel // 2}",
            hint="call mt.pad(input, ...) before pooling",
        )
    room = size + 2 * padding - reach
    places = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (places - 1) * stride >= size + padding:
        places -= 1  # the last window would begin in the padding
    if places < 1 or size == 0:
        raise ShapeError(
            f"{where}: the window must not be larger than the padded input",
            got=f"input {x.shape}, windows that span {reach} elements and padding={padding}",
            expected="dilation * (kernel_size - 1) + 1 <= size + 2 * padding on every axis",
            hint="use a smaller kernel_size, or adaptive pooling",
        )
    return size, kernel, stride, padding, dilation, places


def floating_only(where, x):
    if x.dtype.kind != "f":
        raise DTypeError(
            f"{where}: input must be a floating-point tensor",
            got=f"{x.dtype}",
            hint="input.float()",
        )
    return x


def shared_out(where, count, input, output_size):
    """Check adaptive pooling's arguments; return the batched input and the output sizes."""
    x = batched(input, count, where)
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * count
    if len(sizes) == 1:
        sizes = tuple(sizes) * count
    if len(sizes) != count:
        raise ArgumentError(
            f"{where}: output_size must be one number, or one per spatial axis",
            got=f"output_size={output_size!r}",
            expected=f"{count} numbers, or None for an axis whose size is kept",
            hint="leave out the batch axis and the channel axis",
        )
    kept = [n if m is None else m for n, m in zip(x.shape[2:], sizes, strict=True)]
    if min(x.shape[2:]) == 0:
        raise ShapeError(f"{where}: spatial axes must not be empty", got=f"input {input.shape}")
    return x, each_axis(kept, count, where, "output_size")
