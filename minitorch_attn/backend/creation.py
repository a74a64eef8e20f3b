"""New arrays from what a user gives, and arrays placed like another one."""

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import (
    device_of,
    from_host,
    is_array,
    platform_of,
    to_device,
    to_host,
)
from minitorch_attn.errors import DTypeError, ShapeError

__all__ = ["DTYPES", "as_array", "like", "new_array", "zeros_like_device"]

DTYPES = frozenset(
    np.dtype(name)
    for name in (
        *("float16", "float32", "float64", "bool"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)


def as_array(value):
    """Return `value` as an array: NumPy's scalars, which its reductions return, become 0-d.

    Examples
    --------
    >>> as_array(np.ones(3).sum()).shape
    ()
    """
    if type(value) is ndarray or (is_array(value) and not isinstance(value, np.generic)):
        return value
    return np.asarray(value)


def new_array(data, dtype=None):
    """Make an array that shares no memory with `data`.

    Parameters
    ----------
    data : array, number or nested sequence of numbers
        An array stays on its device; anything else becomes a NumPy array.
    dtype : dtype-like, optional
        By default arrays and NumPy scalars keep theirs, and Python numbers become bool, int64 or
        float32.

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        If the rows of a nested sequence differ in length.
    DTypeError
        If the values are not numbers.

    Examples
    --------
    >>> new_array([1, 2.5]).dtype
    dtype('float32')
    """
    dtype = None if dtype is None else _checked(np.dtype(dtype))
    if is_array(data):
        _checked(data.dtype)
        array = as_array(data)
        return array.copy() if dtype is None else array.astype(dtype)
    try:
        array = np.array(data)
    except ValueError as error:
        raise ShapeError(
            "an array needs rows of equal length.",
            got=str(error).removeprefix("setting an array element with a sequence. "),
            hint="pad the short rows",
        ) from None
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(dtype or np.float32)
    _checked(array.dtype)
    if dtype is None and array.dtype == np.float64 and not _has_numpy_values(data):
        dtype = np.float32
    return array if dtype is None else array.astype(dtype, copy=False)


def _checked(dtype):
    """Return `dtype` if arrays may have it."""
    if dtype not in DTYPES:
        raise DTypeError(
            f"an array cannot hold {dtype}.",
            got=f"dtype {dtype}",
            expected="numbers: bool, integers, float16, float32 or float64",
        )
    return dtype


def _has_numpy_values(data):
    """Tell whether the first entry of nested sequences is a NumPy value with a dtype of its own."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (ndarray, np.generic))


def like(value, array):
    """Return `value` with the dtype of `array`, on its device.

    Parameters
    ----------
    value : array, number or nested sequence of numbers
    array : array

    Examples
    --------
    >>> like(1, np.zeros(3, np.float32))
    array(1., dtype=float32)
    """
    device = device_of(array)
    if is_array(value) and device_of(value) == device:
        return as_array(value).astype(array.dtype, copy=False)
    if is_array(value):
        return to_device(as_array(to_host(value)).astype(array.dtype, copy=False), device)
    return from_host(new_array(value, array.dtype), device)


def zeros_like_device(array, shape, dtype):
    """Return zeros of `shape` and `dtype` on the device of `array`."""
    if type(array) is ndarray:
        return np.zeros(shape, dtype)
    return platform_of(array).module_of(array).zeros(shape, dtype)
