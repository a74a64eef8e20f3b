r"""Depthwise convolution (one group per channel), and the products that compute its gradients.

With one input and one output channel per group, the sums in `ops/conv.py` no longer run over
channels, and each matrix product would have only one row. This module therefore computes the sums
over each window directly, without copying the windows:

    y[b, o, c] = sum_k w[k, c] x[b, o s + k d - p, c]

The arrays have their channels on the last axis here, so that the innermost loop runs over channels.
"""

import itertools
import math

from ...backend import array_module
from ...backend.channel_windows import kernel_sums, window_sums
from .spatial import is_channels_last, windows

__all__ = ["depthwise", "depthwise_kernel", "depthwise_transposed", "is_depthwise"]

_FEWEST_CHANNELS = 4  # with fewer, the innermost loop is too short


def is_depthwise(out_channels, in_channels, kernel, groups, dtype):
    """Return True if every group has one input and one output channel.

    Also return False for one-element kernels, for few channels and for float16. In these cases,
    `ops/conv.py` uses its matrix products.
    """
    return (
        out_channels == in_channels == groups >= _FEWEST_CHANNELS
        and math.prod(kernel) > 1
        and dtype.itemsize >= 4
    )


def depthwise(x, weight, *, stride, padding, dilation):
    """Convolve each channel of x with its own kernel.

    Parameters
    ----------
    x : array of shape (batch, channel, *space)
    weight : array of shape (channel, 1, *kernel)
    stride, dilation : tuple of int
    padding : tuple of (int, int)

    Returns
    -------
    array of shape (batch, channel, *place)
        One element for each window and channel.
    """
    view = _padded_windows(x, weight.shape[2:], stride, padding, dilation)
    places = view.shape[1 : x.ndim - 1]
    y = array_module(x).empty((len(x), *places, x.shape[1]), dtype=x.dtype)
    window_sums(view, _by_position(weight), y)
    return _channels_second(y, like=x)


def depthwise_transposed(g, weight, *, size, stride, padding, dilation):
    """For each element of g, add its channel's kernel, scaled by that element, to a larger image.

    Parameters
    ----------
    g : array of shape (batch, channel, *place)
    weight : array of shape (channel, 1, *kernel)
    size : tuple of int
        Size of the result along each spatial axis.
    stride, padding, dilation : as in `depthwise`

    Returns
    -------
    array of shape (batch, channel, *size)

    Notes
    -----
    With stride s, dilation d and padding p, element o of g and kernel position k contribute to
    position i = o s + k d - p of the result. All i with the same remainder modulo s form a separate
    image, which is a convolution of g with stride 1. Let m = s / gcd(s, d). Because m d is a
    multiple of s, k and k + m give the same remainder. The kernel of each convolution therefore
    holds every m-th element of the original kernel, in reverse order. Along each axis, at most m of
    these images are not 0.
    """
    images, kernels = _channels_last(g), _by_position(weight)
    x = array_module(g).zeros((len(g), *size, g.shape[1]), dtype=g.dtype)
    axes = [
        _remainders(*axis)
        for axis in zip(size, weight.shape[2:], stride, padding, dilation, strict=True)
    ]
    for there, taken, before, length, step in (
        zip(*axis, strict=True) for axis in itertools.product(*axes)
    ):
        part = kernels[taken]
        moved = _placed(images, before, length)
        view = _windows(moved, part.shape[:-1], (1,) * len(size), step)
        window_sums(view, part, x[(slice(None), *there)])
    return _channels_second(x, like=g)


def _remainders(size, kernel, stride, padding, dilation):
    """Return the slices and sizes with which `depthwise_transposed` computes images, for one axis.

    Returns
    -------
    list of (slice, slice, int, int, int)
        For each image that the Notes of `depthwise_transposed` describe (one per remainder):

        1. its positions in the result;
        2. its kernel positions, in reverse order;
        3. the number of zeros to add before g; a negative number crops elements of g;
        4. the length to which g is then padded or cropped at its end;
        5. the step between neighboring kernel positions, in elements of g.
    """
    common = math.gcd(stride, dilation)
    every, step = stride // common, dilation // common
    found = []
    for first in range(min(every, kernel)):
        moved, remainder = divmod(first * dilation - padding[0], stride)
        there, taken = slice(remainder, None, stride), range(first, kernel, every)
        count = len(range(size)[there])
        if count:
            # i = stride (o + step j + moved) + remainder, for the j-th of these kernel positions
            reach = step * (len(taken) - 1)
            stop = first - every if first >= every else None
            reverse = slice(taken[-1], stop, -every)
            found.append((there, reverse, reach + moved, count + reach, step))
    return found


def depthwise_kernel(g, x, *, kernel, stride, padding, dilation):
    """Return the kernels' gradient: correlate each channel of x with the same channel of g.

    Parameters
    ----------
    g : array of shape (batch, channel, *place)
        Gradient of the output of `depthwise`.
    x : array of shape (batch, channel, *space)
    kernel : tuple of int
    stride, padding, dilation : as in `depthwise`

    Returns
    -------
    array of shape (channel, 1, *kernel)
    """
    view = _padded_windows(x, kernel, stride, padding, dilation)
    weight = kernel_sums(view, _channels_last(g)).reshape(-1, x.shape[1]).swapaxes(0, 1)
    return array_module(x).ascontiguousarray(weight).reshape(x.shape[1], 1, *kernel)


def _padded_windows(x, kernel, stride, padding, dilation):
    """Return a view of all windows of x with its padding, (batch, *place, *kernel, channel)."""
    images = _channels_last(x)
    before = [a for a, _ in padding]
    length = [n + sum(p) for n, p in zip(x.shape[2:], padding, strict=True)]
    return _windows(_placed(images, before, length), kernel, stride, dilation)


def _windows(images, kernel, stride, dilation):
    """Return all windows, a view: (batch, *space, channel) -> (batch, *place, *kernel, channel)."""
    view = windows(_second(images), kernel, stride, dilation)
    return _last(view)


def _placed(images, before, length):
    """Pad the images with zeros to size `length`, with `before` zeros in front.

    `before` and `length` have one number per spatial axis. A negative number in `before` crops the
    first elements; elements beyond `length` are cropped, too.
    """
    space = images.shape[1:-1]
    if not any(before) and tuple(length) == space:
        return images
    larger = array_module(images).zeros(
        (len(images), *length, images.shape[-1]), dtype=images.dtype
    )
    here, there = [slice(None)], [slice(None)]
    for n, first, count in zip(space, before, length, strict=True):
        start, stop = max(first, 0), max(min(first + n, count), 0)
        if stop <= start:
            return larger
        there.append(slice(start, stop))
        here.append(slice(start - first, stop - first))
    larger[tuple(there)] = images[tuple(here)]
    return larger


def _by_position(weight):
    """Transpose (channel, 1, *kernel) to (*kernel, channel)."""
    return array_module(weight).ascontiguousarray(_last(weight.swapaxes(0, 1))[0])


def _channels_last(x):
    """Move axis 1 last, in C order: (batch, channel, *space) -> (batch, *space, channel)."""
    x = _last(x)
    return x if x.strides[-1] == x.itemsize else array_module(x).ascontiguousarray(x)


def _channels_second(y, like):
    """Move the last axis to axis 1, (batch, channel, *space), with the memory layout of `like`."""
    y = _second(y)
    return y if is_channels_last(like) else array_module(y).ascontiguousarray(y)


def _last(x):
    """Move axis 1 to the end. NumPy's `moveaxis` takes five times as long as `transpose`."""
    return x.transpose(0, *range(2, x.ndim), 1)


def _second(x):
    """Move the last axis to axis 1, the inverse of `_last`."""
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))
