"""Making arrays: from what a user typed, and like another array on its device."""

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import (
    array_module,
    device_of,
    from_host,
    is_array,
    to_host,
)
from minitorch_attn.errors import DTypeError, ShapeError

__all__ = [
    "as_array",
    "as_dtype",
    "like",
    "new_array",
    "zeros_like_device",
]

DEFAULT_FLOAT = np.dtype("float32")


def as_array(value):
    """NumPy's reductions return scalars for 0-d results; turn those into arrays."""
    if type(value) is ndarray or not isinstance(value, np.generic):
        return value
    return np.asarray(value)


def zeros_like_device(like, shape, dtype):
    """Zeros of a shape and dtype on the device of `like`."""
    return array_module(like).zeros(shape, dtype=dtype)


def like(value, array):
    """`value` (number, list or any array) with the dtype of `array`, on its device."""
    if is_array(value) and device_of(value) == device_of(array):
        return value if value.dtype == array.dtype else value.astype(array.dtype)
    host = np.asarray(to_host(value) if is_array(value) else value, dtype=array.dtype)
    return from_host(host, device_of(array))


def new_array(data, dtype=None):
    """A fresh array from a number, nested sequences, or a copy of another array.

    Parameters
    ----------
    data : number, nested sequence or array of any device
    dtype : dtype, optional
        By default arrays keep theirs, Python floats become float32, integers int64.

    Raises
    ------
    ShapeError
        If nested sequences are ragged.
    DTypeError
        If the data are not numbers.
    """
    if is_array(data) and not isinstance(data, (ndarray, np.generic)):
        return data.copy() if dtype is None else data.astype(dtype)
    typed = isinstance(data, (ndarray, np.generic))
    host = np.array(data, dtype=dtype) if typed else _from_python(data, dtype)
    if host.dtype.kind not in "biuf" or host.dtype.itemsize > 8:
        raise DTypeError(
            "tensor(data): the data are not real numbers.",
            got=f"dtype {host.dtype}",
            expected="floats, integers or booleans",
        )
    return host


def _from_python(data, dtype):
    if isinstance(data, (list, tuple)):
        data = _without_tensors(data)
    try:
        host = np.array(data)
    except ValueError as error:
        raise ShapeError(
            "tensor(data): the nested sequences are ragged.",
            got=str(error).rsplit(". ", 1)[-1],
            expected="rows of equal length",
            hint="pad the rows to one length, and mask the padding",
        ) from None
    except TypeError as error:
        raise DTypeError(
            "tensor(data): the data cannot be read as numbers.", got=str(error)
        ) from None
    if dtype is not None:
        return host.astype(dtype)
    if host.dtype == np.float64 and not _holds_typed(data):
        return host.astype(DEFAULT_FLOAT)
    return host


def _without_tensors(data):
    """Replace tensors inside nested sequences by their values."""
    return [
        _without_tensors(item)
        if isinstance(item, (list, tuple))
        else to_host(item.array)
        if hasattr(item, "array")
        else item
        for item in data
    ]


def _holds_typed(data):
    """Whether a nested sequence carries NumPy arrays, whose dtype is meant."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (ndarray, np.generic))


def as_dtype(dtype, other=None):
    """A dtype object from its name or class; with two, NumPy's promotion of both."""
    return np.dtype(dtype) if other is None else np.promote_types(dtype, other)
