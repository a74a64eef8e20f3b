"""`where`, faster than NumPy's: select between two arrays element by element."""

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import array_module

__all__ = ["where"]

_BITS = {2: np.dtype("int16"), 4: np.dtype("int32"), 8: np.dtype("int64")}
_SMALL = 4096  # for fewer elements, np.where is faster than several passes


def where(condition, a, b):
    """Return `a` where `condition` holds, else `b`, like `xp.where`.

    NumPy's `where` branches at every element. For an irregular mask, it takes 10 times as long as
    reading the arrays. For large arrays of floats on the host, this function uses bit operations
    instead.

    Parameters
    ----------
    condition : array of bool
    a, b : array or number
        Values to choose from. They must broadcast together, and arrays must have the same dtype.

    Returns
    -------
    array

    Examples
    --------
    >>> where(np.array([True, False]), np.array([1.0, 2.0]), 0.0)
    array([1., 0.])
    """
    if type(condition) is not ndarray:
        return array_module(condition, a, b).where(condition, a, b)
    if condition.size < _SMALL:
        return np.where(condition, a, b)
    dtype = np.result_type(a, b)
    if dtype.kind != "f" or dtype.itemsize not in _BITS:
        return np.where(condition, a, b)
    bits = _BITS[dtype.itemsize]
    if _is_zero(b):
        return (condition.astype(bits) * np.asarray(a, dtype).view(bits)).view(dtype)
    if _is_zero(a):
        return (np.logical_not(condition).astype(bits) * np.asarray(b, dtype).view(bits)).view(
            dtype
        )
    a, b = np.asarray(a, dtype).view(bits), np.asarray(b, dtype).view(bits)
    return ((a ^ b) * condition ^ b).view(dtype)  # a ^ b turns the bits of b into those of a


def _is_zero(value):
    return type(value) in (int, float) and value == 0
