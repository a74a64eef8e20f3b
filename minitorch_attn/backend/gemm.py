"""Matrix products, all of which go through `matmul`."""

import math
import threading
from contextlib import contextmanager

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import array_module, platform_of

__all__ = ["dry_run", "is_dry_run", "matmul", "matmul_host", "matmul_like"]


class _Thread(threading.local):
    dry = False  # products of this thread are not computed


_thread = _Thread()


@contextmanager
def dry_run():
    """Inside the `with` block matrix products on the host are zeros that nobody computes.

    What a model would do can then be counted without doing it: a model of a billion parameters
    runs in a moment, and the memory of its weights is never touched. Its results mean nothing.

    Examples
    --------
    >>> with dry_run():
    ...     matmul(np.ones((1, 2)), np.ones((2, 3)))
    array([[0., 0., 0.]])
    """
    before, _thread.dry = _thread.dry, True
    try:
        with np.errstate(all="ignore"):  # weights that nobody has written may be anything
            yield
    finally:
        _thread.dry = before


def is_dry_run():
    """Whether this thread is inside `dry_run`."""
    return _thread.dry


def matmul(a, b):
    """Return `a @ b` on the device of both.

    Parameters
    ----------
    a : array of shape (..., n, k)
    b : array of shape (..., k, m)

    Returns
    -------
    array of shape (..., n, m)

    Examples
    --------
    >>> matmul(np.ones((5, 2, 3)), np.ones((3, 4))).shape
    (5, 2, 4)
    """
    if type(a) is ndarray and type(b) is ndarray:
        return matmul_host(a, b)
    array_module(a, b)
    return platform_of(a).matmul(a, b)


def matmul_like(a, b, like):
    """Return `a @ b`, on the host with its axes in memory in the order of those of `like`.

    Attention sees heads through `x.reshape(batch, token, heads, dim).swapaxes(1, 2)`. A context
    that lies in memory as the query does can be merged back into tokens without a copy.

    Examples
    --------
    >>> like = np.ones((2, 5, 3, 4)).swapaxes(1, 2)
    >>> matmul_like(np.ones((2, 3, 5, 5)), like, like).swapaxes(1, 2).flags.c_contiguous
    True
    """
    if type(like) is not ndarray or like.flags.c_contiguous or like.dtype == np.float16:
        return matmul(a, b)
    if _thread.dry:
        return matmul(a, b)
    if not a.shape[:-2] == b.shape[:-2] == like.shape[:-2] or a.shape[-2] != like.shape[-2]:
        return matmul(a, b)
    if like.strides[-1] != like.itemsize:
        return matmul(a, b)  # where BLAS could not write
    b = _straightened(b)
    return np.matmul(a, b, out=np.empty_like(like, shape=(*a.shape[:-1], b.shape[-1])))


def matmul_host(a, b):
    """Matrix product of NumPy arrays.

    NumPy makes one small product for each entry of the leading axes; with a 2-D `b` they are one
    large product. BLAS has no float16: NumPy's own loop takes twenty times as long as a round trip
    through float32.
    """
    if _thread.dry:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*lead, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    if a.itemsize == b.itemsize == 2 and a.dtype.kind == b.dtype.kind == "f":
        product = matmul_host(a.astype(np.float32), b.astype(np.float32))
        return np.asarray(product).astype(np.float16)
    if a.ndim == b.ndim == 2:
        return _few_rows(a, b)
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous:
        # (..., n, k) @ (k, m) -> (rows, k) @ (k, m)
        rows = math.prod(a.shape[:-1])
        product = _few_rows(a.reshape(rows, a.shape[-1]), b)
        return product.reshape(*a.shape[:-1], b.shape[1])
    return a @ (_straightened(b) if b.ndim > 2 else b)


def _few_rows(a, b):
    """a @ b, by a faster way for a few rows times a large transposed matrix.

    This is one token of each of a few texts times the weights of a layer, (rows, in) @ W^T. BLAS
    takes one and a half to two and a half times as long for it as for the product the other way
    round (measured from 2 to 32 rows, 256 to 3,072 features).

    For one row the time is that of reading W from memory, since the other layers have pushed it
    out of the caches. Below half a million numbers BLAS does that with one thread, at 9 GB/s where
    `einsum` reaches 16 (384 x 384); above, it has several threads and the same speed.
    """
    if a.shape[0] <= 32 and b.size >= 65536 and b.strides[0] == b.itemsize != b.strides[1]:
        if a.shape[0] > 1:
            return np.ascontiguousarray((b.T @ a.T).T)
        if a.shape[0] == 1 and 131072 <= b.size < 460800:
            return np.einsum("ri,oi->ro", a, b.T)
    return a @ b


def _straightened(b):
    """`b`, or a copy with its last axis next to each other in memory where that is faster.

    For small products such as query @ key^T of a short sequence, BLAS takes a quarter longer with
    a transposed right factor, more than the copy costs (measured from 16 to 64 by 16 to 512).
    """
    k, m = b.shape[-2:]
    if 32 < m <= 128 and k * m <= 6144 and b.strides[-2] == b.itemsize != b.strides[-1]:
        return np.ascontiguousarray(b)
    return b
