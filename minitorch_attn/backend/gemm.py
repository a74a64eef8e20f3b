"""Matrix products (GEMM): every product goes through `matmul`."""

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
    """Start a dry run: inside the `with` block, matrix products on the host return only zeros.

    The cost of a model can then be counted without computing its outputs. A model with a billion
    parameters runs in a moment, and its weights are never read. The results are meaningless.

    Examples
    --------
    >>> with dry_run():
    ...     matmul(np.ones((1, 2)), np.ones((2, 3)))
    array([[0., 0., 0.]])
    """
    before, _thread.dry = _thread.dry, True
    try:
        with np.errstate(all="ignore"):  # uninitialized weights may be anything
            yield
    finally:
        _thread.dry = before


def is_dry_run():
    """Return True if this thread is inside `dry_run`."""
    return _thread.dry


def matmul(a, b):
    """Return `a @ b`, on the device of both arrays.

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
    """Return `a @ b`. On the host, the axes of the result have the memory order of `like`.

    Attention splits the query into heads with
    `x.reshape(batch, token, heads, dim).swapaxes(1, 2)`. If the output of attention has the query's
    memory order, its heads can be merged without a copy.

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
        return matmul(a, b)  # BLAS cannot write to this layout
    b = _straightened(b)
    return np.matmul(a, b, out=np.empty_like(like, shape=(*a.shape[:-1], b.shape[-1])))


def matmul_host(a, b):
    """Compute the matrix product of NumPy arrays.

    NumPy computes one small product for each entry of the leading axes. If `a` is in C order and
    `b` is 2-D, this function computes one large product instead. BLAS does not support float16, so
    float16 arrays are converted to float32, and the product is converted back. For matrices of
    64 x 64 or more, NumPy's own float16 product takes at least twenty times as long.
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
    """Compute a @ b, with a faster method if `a` has few rows and `b` is large and transposed.

    For example, text generation computes x @ W^T, where each row of x is one token of a text, and W
    is the weight of a layer. BLAS computes the transpose of this product, W @ x^T, faster. For x of
    2 to 32 rows and 256 to 3,072 features, x @ W^T takes 1.5 to 2.5 times as long as W @ x^T. For
    34 to 64 rows, as in the last stage of an image or video model, the factor is 1.2 to 1.4.

    For one row, most of the time is spent on reading W from memory, because other layers have
    evicted W from the caches. If W has less than half a million entries, BLAS uses one thread and
    is slower than `einsum`: for W of 384 x 384, BLAS reads 9 GB/s and `einsum` 16 GB/s. This
    function then uses `einsum`. For larger W, BLAS uses several threads and is as fast as `einsum`.
    """
    if a.shape[0] <= 64 and b.size >= 65536 and b.strides[0] == b.itemsize != b.strides[1]:
        if a.shape[0] > 1:
            return np.ascontiguousarray((b.T @ a.T).T)
        if a.shape[0] == 1 and 131072 <= b.size < 460800:
            return np.einsum("ri,oi->ro", a, b.T)
    return a @ b


def _straightened(b):
    """Return `b` or, if that is faster, a copy of `b` whose last axis is contiguous in memory.

    For small products, such as query @ key^T of a short sequence, BLAS takes 25 % longer if the
    second operand is transposed. Copying this operand takes less time than the copy saves
    (measured from 16 x 16 to 64 x 512).
    """
    k, m = b.shape[-2:]
    if 32 < m <= 128 and k * m <= 6144 and b.strides[-2] == b.itemsize != b.strides[-1]:
        return np.ascontiguousarray(b)
    return b
