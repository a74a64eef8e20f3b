"""BLAS's axpby: y <- a x + b y in one pass over the memory, where NumPy makes three passes.

An optimizer's running averages and its step have this form, and large arrays are limited by the
passes over memory. `cblas_saxpby` and `cblas_daxpby` are extensions of the BLAS standard that
OpenBLAS and MKL have. NumPy does not offer them, so they are called in the library that NumPy uses.
Measured on 65,536 elements of float32 (AMD Zen 5, one thread), in ns per element: 0.07 instead of
0.17 with OpenBLAS 0.3.31, but 0.26 instead of 0.21 with OpenBLAS 0.3.27, which NumPy 2.0 includes.
An AdamW step over 9 million parameters takes 5.5 instead of 7.1 ms with two threads.
"""

import ctypes
from functools import lru_cache

from numpy import ndarray

from minitorch_attn.backend.blas import find_functions
from minitorch_attn.backend.devices import address, array_module

__all__ = ["axpby"]

# BLAS is faster from this number of elements on: its call alone takes 3 microseconds.
SMALLEST = 1 << 15
_TYPES = {"f": ctypes.c_float, "d": ctypes.c_double}


def axpby(a, x, b, y, work):
    """Compute y <- a x + b y in place.

    Parameters
    ----------
    a, b : float
        Factors.
    x, y : array
        Arrays of one shape and dtype, which do not overlap. `y` is changed.
    work : array
        Array like `x` for an intermediate result. It may be `x` itself, whose values are then lost.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([1.0, 2.0])
    >>> axpby(10.0, np.array([3.0, 4.0]), 0.5, y, work=np.empty(2))
    >>> y
    array([30.5, 41. ])
    """
    # BLAS does not read an array whose factor is 0, so it would lose a NaN.
    function = _function(x, y) if a and b else None
    if function is not None:
        function(x.size, a, address(x), 1, b, address(y), 1)
        return
    if a != 1.0:
        x = array_module(y).multiply(x, a, out=work)
    if b != 1.0:
        y *= b
    y += x


def _function(x, y):
    """Return BLAS's function for these arrays, or None if NumPy must compute the result."""
    if type(x) is not ndarray or type(y) is not ndarray or x.size < SMALLEST:
        return None
    if x.dtype != y.dtype or x.shape != y.shape or x.dtype.char not in _TYPES:
        return None
    if not all(array.flags.c_contiguous and array.flags.aligned for array in (x, y)):
        return None
    if not y.flags.writeable:  # NumPy raises an error, whereas BLAS would write to it
        return None
    return _functions().get(x.dtype.char) if x.dtype.isnative else None


@lru_cache(maxsize=1)
def _functions():
    """Return BLAS's functions by dtype character. The dict is empty if the library has none."""
    found = find_functions(("cblas_saxpby", "cblas_daxpby"))
    if found is None or ctypes.sizeof(ctypes.c_void_p) < 8:
        return {}
    functions = dict(zip("fd", found, strict=True))
    for char, function in functions.items():
        # Some libraries have integers of 32 bits; they read the lower half of the same register.
        size, number, pointer = ctypes.c_int64, _TYPES[char], ctypes.c_void_p
        function.argtypes = [size, number, pointer, size, number, pointer, size]
        function.restype = None
    return functions
