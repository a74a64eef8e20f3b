"""Columns of a convolution (im2col): all windows of the images as one matrix per group.

A convolution is then one matrix product per group: the kernels (out, in * kernel) times the columns
(in * kernel, item). There is one item for each output position of each image.
"""

import math

from ...backend import array_module, device_of
from .spatial import enlarge, places_of, windows

__all__ = ["columns_of"]


def columns_of(x, kernel, stride, padding, dilation, groups):
    """Return the windows as one matrix of columns per group: (group, in / groups * kernel, item).

    Parameters
    ----------
    x : array of shape (batch, in, *space)
    kernel, stride, dilation : tuple of int
    padding : sequence of (int, int)
    groups : int

    Notes
    -----
    The inner loop of the copy runs over the output positions. If windows do not overlap, it runs
    over the kernel positions, which are contiguous in x, and the matrix is stored transposed.

    Examples
    --------
    >>> import numpy as np
    >>> columns_of(np.arange(4.0).reshape(1, 1, 4), (3,), (1,), [(0, 0)], (1,), 1)
    array([[[0., 1.],
            [1., 2.],
            [2., 3.]]])
    """
    count = len(kernel)
    places = places_of(x.shape[2:], kernel, stride, padding, dilation)
    rows, items = x.shape[1] // groups * math.prod(kernel), len(x) * math.prod(places)
    if count > 1 < kernel[-1] and math.prod(stride) == 1 and device_of(x).type == "cpu":
        view = _windows_of_shifted_rows(x, kernel, padding, dilation, places[-1])
        return view.reshape(groups, rows, items)
    view = windows(enlarge(x, padding), kernel, stride, dilation)
    place_axes, kernel_axes = range(2, 2 + count), range(2 + count, 2 + 2 * count)
    if 1 < kernel[-1] <= stride[-1] and groups == 1:
        view = view.transpose((0, *place_axes, 1, *kernel_axes))
        return view.reshape(1, items, rows).swapaxes(1, 2)
    return view.transpose((1, *kernel_axes, 0, *place_axes)).reshape(groups, rows, items)


def _windows_of_shifted_rows(x, kernel, padding, dilation, width):
    """Return all windows with stride 1 as a view (in, *kernel, batch, *places).

    Without this function, `columns_of` would copy all windows in short inner loops, each over one
    row of one image. This function first copies the images once for each position on the last axis
    of the kernel, shifted by this position. A shift along another axis moves whole rows and needs
    no copy, so the windows are views of the shifted images. In these views, all rows of an image
    are one contiguous piece, and `columns_of` copies them in long loops. The two copies together
    take 60 % of the time that the short loops take (3 x 3, 128 channels, 20 x 20).
    """
    count, columns = len(kernel), kernel[-1]
    x = enlarge(x, [*padding[:-1], (0, 0)]).swapaxes(0, 1)  # (in, batch, *space)
    shifted = array_module(x).zeros((len(x), columns, *x.shape[1:-1], width), dtype=x.dtype)
    for j in range(columns):
        start = j * dilation[-1] - padding[-1][0]  # column of x at output column 0
        low, high = max(0, -start), min(width, x.shape[-1] - start)
        if low < high:
            shifted[:, j, ..., low:high] = x[..., low + start : high + start]
    # (in, column of the kernel, batch, *places, width, *other kernel axes, 1)
    ones = (1,) * count
    view = windows(shifted, (*kernel[:-1], 1), ones, (*dilation[:-1], 1))[..., 0]
    others = range(3 + count, 2 + 2 * count)
    return view.transpose((0, *others, 1, 2, *range(3, 3 + count)))
