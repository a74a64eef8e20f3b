r"""Depthwise convolution: the three products of `ops/conv.py` if every channel is a group.

With one input and one output channel per group, the sums of `ops/conv.py` lose their channel
indices, and each matrix product would have only one row. It is faster to multiply whole arrays,
one kernel position k at a time, without a copy of the windows:

    y[b, o, c] += w[k, c] x[b, o s + k d - p, c]

The arrays have their channels on the last axis here, so that the innermost loop runs over channels.
"""

import itertools
import math

from ...backend import array_module
from ...backend.row_reductions import column_sum, row_blocks

__all__ = ["depthwise", "depthwise_kernel", "depthwise_transposed", "is_depthwise"]

_FEWEST_CHANNELS = 4  # with fewer, the innermost loop is too short
_CHUNK = 1 << 19  # bytes of the images in one step on the CPU, so that they stay in its cache


def is_depthwise(out_channels, in_channels, kernel, groups, dtype):
    """Return True if every group has one input and one output channel.

    Kernels of one element, few channels and float16 are left to the matrix products.
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
    """
    kernel = weight.shape[2:]
    places = tuple([
        (n + sum(p) - d * (k - 1) - 1) // s + 1
        for n, p, k, s, d in zip(x.shape[2:], padding, kernel, stride, dilation, strict=True)
    ])  # fmt: skip
    images, kernels = _channels_last(x), _by_position(weight)
    y = array_module(x).zeros((len(x), *places, x.shape[1]), dtype=x.dtype)
    for rows in _chunks(images):
        part, out = images[rows], y[rows]
        for k, there, here in _pairs(x.shape[2:], places, kernel, stride, padding, dilation):
            out[there] += part[here] * kernels[k]
    return _channels_second(y, like=x)


def depthwise_transposed(g, weight, *, size, stride, padding, dilation):
    """Add a scaled kernel to a larger image for each element of g, channel by channel.

    Parameters
    ----------
    g : array of shape (batch, channel, *place)
    weight : array of shape (channel, 1, *kernel)
    size : tuple of int
        Size of the result's images.
    stride, padding, dilation : as in `depthwise`

    Returns
    -------
    array of shape (batch, channel, *size)
    """
    kernel, places = weight.shape[2:], g.shape[2:]
    images, kernels = _channels_last(g), _by_position(weight)
    x = array_module(g).zeros((len(g), *size, g.shape[1]), dtype=g.dtype)
    for rows in _chunks(x):
        part, out = images[rows], x[rows]
        for k, there, here in _pairs(size, places, kernel, stride, padding, dilation):
            out[here] += part[there] * kernels[k]
    return _channels_second(x, like=g)


def depthwise_kernel(g, x, *, kernel, stride, padding, dilation):
    """Correlate each channel of an image with the same channel of the output gradients.

    Parameters
    ----------
    g : array of shape (batch, channel, *place)
    x : array of shape (batch, channel, *space)
    kernel : tuple of int
    stride, padding, dilation : as in `depthwise`

    Returns
    -------
    array of shape (channel, 1, *kernel)
    """
    places, channels = g.shape[2:], x.shape[1]
    grads, images = _channels_last(g), _channels_last(x)
    weight = array_module(x).zeros((*kernel, channels), dtype=x.dtype)
    for rows in _chunks(images):
        part, grad = images[rows], grads[rows]
        for k, there, here in _pairs(x.shape[2:], places, kernel, stride, padding, dilation):
            weight[k] += column_sum(grad[there] * part[here])
    weight = weight.reshape(-1, channels).swapaxes(0, 1)
    return array_module(x).ascontiguousarray(weight).reshape(channels, 1, *kernel)


def _pairs(space, places, kernel, stride, padding, dilation):
    """Yield each kernel position with the output places and the image places that it joins.

    Yields
    ------
    k : tuple of int
    there, here : tuple of slice
        Equally large parts of arrays (batch, *place, channel) and (batch, *space, channel).
    """
    for k in itertools.product(*map(range, kernel)):
        there, here = [slice(None)], [slice(None)]
        for i, n, o, s, (p, _), d in zip(k, space, places, stride, padding, dilation, strict=True):
            shift = i * d - p  # place o of the output meets o s + shift of the image
            first = max(-(shift // s), 0)  # the smallest o with o s + shift >= 0
            last = min((n - 1 - shift) // s, o - 1)
            if last < first:
                break
            there.append(slice(first, last + 1))
            here.append(slice(first * s + shift, last * s + shift + 1, s))
        else:
            yield k, tuple(there), tuple(here)


def _chunks(images):
    """Return slices of the batch, each small enough for a CPU's cache."""
    return row_blocks(images, max(_CHUNK // max(images[:1].nbytes, 1), 1))


def _by_position(weight):
    """(channel, 1, *kernel) -> (*kernel, channel)."""
    xp = array_module(weight)
    return xp.ascontiguousarray(xp.moveaxis(weight[:, 0], 0, -1))


def _channels_last(x):
    """(batch, channel, *space) -> contiguous (batch, *space, channel), without a copy if it is."""
    xp = array_module(x)
    return xp.ascontiguousarray(xp.moveaxis(x, 1, -1))


def _channels_second(y, like):
    """(batch, *space, channel) -> (batch, channel, *space), with the memory layout of `like`."""
    xp = array_module(y)
    y = xp.moveaxis(y, -1, 1)
    if like.shape[1] > 1 and like.strides[1] == like.itemsize:
        return y
    return xp.ascontiguousarray(y)
