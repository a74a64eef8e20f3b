"""Row reductions for softmax, norms and attention: maximum, sum and dot product of rows.

The functions compute `x.max(-1)`, `x.sum(-1)`, `(a * b).sum(-1)` and `x.sum(0)`. NumPy's own
reductions start a loop for every row. If rows are short (64 keys, 128 channels), starting these
loops takes most of the time, and a single `argmax` or matrix product over all rows is three to ten
times as fast. For only a few rows, such as those of one token, NumPy's reductions are used, because
they have less overhead. Other devices use their own reductions, each of which is one launch.
"""

import math

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import array_module, device_of
from minitorch_attn.backend.gemm import matmul

__all__ = [
    "add_block", "column_sum", "long_rows", "row_blocks", "row_dot", "row_max", "row_sum",
    "window_dots",
]  # fmt: skip

_FEW = 32
_LONG = 1024


def row_max(x):
    """Return the maximum of each row, NaN if it contains NaN; the last axis is kept with size 1.

    Parameters
    ----------
    x : array of shape (..., n), n at least 1

    Returns
    -------
    array of shape (..., 1)

    Examples
    --------
    >>> import numpy as np
    >>> row_max(np.array([[1.0, 3.0], [5.0, 4.0]]))
    array([[3.],
           [5.]])
    """
    n = x.shape[-1]
    if type(x) is not ndarray or x.size <= _FEW * n or not x.flags.c_contiguous:
        return x.max(axis=-1, keepdims=True)
    position = x.reshape(-1, n).argmax(axis=1)  # within its row
    position += array_module(x).arange(0, x.size, n)  # within the memory of x
    return x.reshape(-1).take(position).reshape(*x.shape[:-1], 1)


def row_sum(x):
    """Return the sum of each row; the last axis is kept with size 1.

    Examples
    --------
    >>> import numpy as np
    >>> row_sum(np.array([[1.0, 3.0], [5.0, 4.0]]))
    array([[4.],
           [9.]])
    """
    n = x.shape[-1]
    if type(x) is not ndarray or x.size <= _FEW * n or not x.flags.c_contiguous:
        return x.sum(axis=-1, keepdims=True)
    ones = array_module(x).ones((n, 1), dtype=x.dtype)
    return matmul(x.reshape(-1, n), ones).reshape(*x.shape[:-1], 1)


def row_dot(a, b):
    """Return the dot products of the rows of a and b; the last axis is kept with size 1.

    Examples
    --------
    >>> import numpy as np
    >>> row_dot(np.array([[1.0, 3.0], [5.0, 4.0]]), np.array([[1.0, 1.0], [2.0, 0.0]]))
    array([[ 4.],
           [10.]])
    """
    if type(a) is not ndarray:
        return (a * b).sum(axis=-1, keepdims=True)
    # (..., 1, n) @ (..., n, 1) -> (..., 1, 1)
    return matmul(a[..., None, :], b[..., :, None])[..., 0]


def column_sum(x):
    """Return the sum over all axes except the last.

    Parameters
    ----------
    x : array of shape (..., n)

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> column_sum(np.array([[1.0, 3.0], [5.0, 4.0]]))
    array([6., 7.])
    """
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    if type(x) is not ndarray or not rows.flags.c_contiguous:
        return rows.sum(axis=0)
    ones = array_module(x).ones((1, rows.shape[0]), dtype=x.dtype)
    return matmul(ones, rows)[0]


def long_rows(x):
    """Return a view of x with long rows, to which one row can be added without a slow inner loop.

    NumPy runs one inner loop per row when a single row is combined with all rows of x. For a map of
    5 x 5 positions, these loops take four times as long as the arithmetic. This function joins the
    last axes until a row has 1,024 elements. If x is not contiguous, or on another device, it
    returns x unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> long_rows(np.ones((3, 64, 5, 5))).shape
    (3, 1600)
    """
    if type(x) is not ndarray or not x.flags.c_contiguous or x.size == 0:
        return x
    length = 1
    for size in reversed(x.shape):
        if length >= _LONG:
            break
        length *= size
    return x.reshape(-1, length)


def row_blocks(rows, size):
    """Return slices of at most `size` rows, which fit in a CPU cache; on a GPU, return one slice.

    Parameters
    ----------
    rows : array of shape (n, ...)
    size : int

    Returns
    -------
    list of slice

    Examples
    --------
    >>> import numpy as np
    >>> row_blocks(np.ones((5, 2)), 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    n = len(rows)
    if device_of(rows).type == "cuda":
        size = max(n, 1)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def add_block(total, part):
    """Add the result of a block to the sum of earlier blocks, in place; None counts as 0.

    Examples
    --------
    >>> import numpy as np
    >>> add_block(None, np.ones(2)), add_block(np.ones(2), np.ones(2))
    (array([1., 1.]), array([2., 2.]))
    """
    if total is None:
        return part
    total += part
    return total


def window_dots(a, windows, out):
    """Write to `out` the dot product of each vector of `a` with every vector in its window.

    The vectors are along the channel axis.

    Parameters
    ----------
    a : array of shape (item, channel, n)
    windows : array of shape (item, channel, row, column, n)
        Overlapping windows: a view in which elements repeat. It is not copied.
    out : array of shape (item, row, column, n)

    Examples
    --------
    >>> windows = np.lib.stride_tricks.sliding_window_view(np.arange(4.0), 3)[None, None, None]
    >>> out = np.empty((1, 1, 2, 3))
    >>> window_dots(np.ones((1, 1, 3)), windows, out)
    >>> out[0, 0]
    array([[0., 1., 2.],
           [1., 2., 3.]])
    """
    if type(out) is ndarray:  # one pass; an einsum of CuPy would copy the windows
        np.einsum("ncl,ncijl->nijl", a, windows, out=out)
        return
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            out[:, i, j] = (a * windows[:, :, i, j]).sum(axis=1)
