"""Half precision inside an operation: compute float16 in float32, and round the result once."""

__all__ = ["narrowed", "widened"]


def widened(x):
    """Convert a float16 array to float32. Return any other array, or None, unchanged.

    In float16, a sum of 4096 ones is 2048, and the exponential of 12 is infinite. Operations with
    internal sums or exponentials therefore compute in float32, like the kernels for GPUs.

    Parameters
    ----------
    x : array or None

    Examples
    --------
    >>> import numpy as np
    >>> widened(np.ones(2, "float16")).dtype, widened(np.ones(2)).dtype
    (dtype('float32'), dtype('float64'))
    """
    return x.astype("float32") if x is not None and x.dtype.char == "e" else x


def narrowed(x, like):
    """Round `x` to the dtype of `like`. Return `x` itself if it is None or has this dtype."""
    return x if x is None or x.dtype is like.dtype else x.astype(like.dtype, copy=False)
