"""Transposed convolution with stride 1, computed as a convolution with mirrored kernels.

Let g be the input, x the result and w the kernels, with the notation of `ops/conv.py`: image b,
channel m of g, channel c of x, kernel position k, dilation d and padding p. With the kernel size K,
k' = K - 1 - k and w'[c, m, k'] = w[m, c, k],

    x[b, c, i] = sum_{m, k} w[m, c, k] g[b, m, i + p - k d]
               = sum_{m, k'} w'[c, m, k'] g[b, m, i + k' d - (d (K - 1) - p)],

which is a convolution of g with the kernels w' and the padding d (K - 1) - p.
"""

import math

__all__ = ["mirrored", "mirrored_padding", "reads_columns"]


def reads_columns(g, weight, stride, groups):
    """True if the transposed convolution of g is faster as a convolution with mirrored kernels.

    Both methods use a matrix of columns (see `ops/conv.py`), and fewer channels make it smaller.
    The transposed convolution computes columns for windows of its result x, and adds them up. The
    equivalent convolution copies windows of g into columns. If g has at most as many channels as x,
    the convolution takes 0.5 to 0.85 of the time that the transposed convolution takes. It is
    slower only if there are so few positions that mirroring the kernels costs more than it saves.
    """
    positions, inputs = len(g) * math.prod(g.shape[2:]), weight.shape[1] * groups
    return math.prod(stride) == 1 and g.shape[1] <= inputs <= positions


def mirrored(weight, groups):
    """Return mirrored kernels w': (out, in / groups, *kernel) -> (in, out / groups, *kernel)."""
    (count, inputs, *kernel), reverse = weight.shape, slice(None, None, -1)
    w = weight.reshape(groups, count // groups, inputs, *kernel).swapaxes(1, 2)
    w = w.reshape(groups * inputs, count // groups, *kernel)
    return w[(..., *(reverse for _ in kernel))]


def mirrored_padding(g, size, kernel, padding, dilation):
    """Return the convolution's padding (before, after) per axis, for a result of size `size`."""
    axes = zip(size, g.shape[2:], kernel, padding, dilation, strict=True)
    return tuple([(d * (k - 1) - before, n - o + before) for n, o, k, (before, _), d in axes])
