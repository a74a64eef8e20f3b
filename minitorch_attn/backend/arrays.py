"""Create arrays from numbers and sequences, optionally on the device of another array."""

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import array_module, device_of, from_host, is_array, to_host
from minitorch_attn.errors import DTypeError, ShapeError
from minitorch_attn.named_errors import names_arguments

__all__ = [
    "as_array", "as_dtype", "finfo", "get_default_dtype", "host_array", "iinfo", "is_number_dtype",
    "is_whole", "like", "new_array", "set_default_dtype", "zeros_like_device",
]  # fmt: skip

_default_float = [np.dtype("float32")]
_PLAIN = frozenset((bool, int, float))


def as_array(value):
    """Convert a NumPy scalar to a 0-d array, because NumPy's reductions return scalars.

    An instance of a subclass, such as a masked array, also becomes a plain array.
    """
    if type(value) is ndarray or not isinstance(value, (np.generic, ndarray)):
        return value
    return np.asarray(value)


def host_array(array, dtype, copy):
    """Call `numpy.array(array, dtype, copy=copy)` on a host array, for `__array__` methods."""
    return np.array(array, dtype=dtype, copy=copy)


def is_whole(array):
    """Return True if an array is not a view and its memory is in C order.

    Examples
    --------
    >>> is_whole(np.ones((2, 3))), is_whole(np.ones((2, 3)).T), is_whole(np.ones(3)[:2])
    (True, False, False)
    """
    return is_array(array) and array.base is None and array.flags.c_contiguous


def zeros_like_device(like, shape, dtype):
    """Create zeros with a shape and dtype on the device of `like`."""
    return array_module(like).zeros(shape, dtype=dtype)


def like(value, array):
    """Convert `value` (number, list or array) to the dtype and device of `array`."""
    if is_array(value) and device_of(value) == device_of(array):
        return value if value.dtype == array.dtype else value.astype(array.dtype)
    try:
        host = np.asarray(to_host(value) if is_array(value) else value, dtype=array.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(
            f"the value cannot be converted to {array.dtype}",
            got=f"{value!r:.60}; {error}",
            hint="convert it with mt.tensor(...) first",
        ) from None
    return from_host(host, device_of(array))


def new_array(data, dtype=None):
    """Create an array from a number or nested sequences, or copy another array.

    Parameters
    ----------
    data : number, nested sequence or array on any device
    dtype : dtype, optional
        By default, arrays keep their dtype, and Python floats and integers become the default dtype
        (float32) and int64.

    Raises
    ------
    ShapeError
        If nested sequences are ragged.
    DTypeError
        If the data are not real numbers.
    """
    if dtype is not None:
        dtype = as_dtype(dtype)
    if is_array(data) and not isinstance(data, (ndarray, np.generic)):
        return data.copy() if dtype is None else data.astype(dtype)
    typed = isinstance(data, (ndarray, np.generic))
    host = np.array(data) if typed else _from_python(data)
    if not is_number_dtype(host.dtype):
        raise DTypeError(
            "tensor(data): data must contain real numbers",
            got=f"dtype {host.dtype}",
            expected="floats, integers or booleans",
            hint="use data.real, data.imag or abs(data) for complex numbers, token ids for text",
        )
    if dtype is None and host.dtype == np.float64 and not (typed or _holds_typed(data)):
        dtype = get_default_dtype()
    return host if dtype is None else host.astype(dtype, copy=False)


def _from_python(data):
    if isinstance(data, (list, tuple)):
        data = _without_tensors(data)
    try:
        return np.array(data)
    except ValueError as error:
        raise ShapeError(
            "tensor(data): the nested sequences are ragged",
            got=str(error).rsplit(". ", 1)[-1],
            expected="rows of the same length",
            hint="pad the rows to the same length, and mask the padding",
        ) from None
    except TypeError as error:
        raise DTypeError(
            "tensor(data): data could not be read as numbers",
            got=str(error),
            hint="convert the entries to NumPy arrays or Python numbers first",
        ) from None


def _without_tensors(data):
    """Replace tensors inside nested sequences with their values."""
    if _PLAIN.issuperset(map(type, data)):
        return data
    return [
        _without_tensors(item)
        if isinstance(item, (list, tuple))
        else to_host(item.array)
        if hasattr(item, "array")
        else item
        for item in data
    ]


def _holds_typed(data):
    """Return True if the first entry of nested sequences is a NumPy array or scalar.

    Such data keep their dtype.
    """
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (ndarray, np.generic))


def as_dtype(dtype, other=None):
    """Return `dtype` as a dtype object; with `other`, promote the two dtypes as NumPy does."""
    if other is not None:
        return np.promote_types(as_dtype(dtype), as_dtype(other))
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # not the name of a dtype, or an invalid object
        found = None
    if dtype is None or found is None or not is_number_dtype(found):
        raise DTypeError(
            "the dtype is unsupported",
            got=f"{dtype!r:.60}",
            expected="a dtype of real numbers, such as float32, float64, int64 or bool",
            hint="dtype=mt.float32",
        )
    return found


def get_default_dtype():
    """Return the dtype of tensors made from Python floats: float32, unless it was changed."""
    return _default_float[0]


@names_arguments
def set_default_dtype(d):
    """Set the dtype of tensors made from Python floats, and of quotients of integer tensors.

    Parameters
    ----------
    d : dtype
        A floating-point dtype.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.set_default_dtype(mt.float64)
    >>> mt.tensor([0.5]).dtype, mt.zeros(2).dtype
    (dtype('float64'), dtype('float64'))
    >>> mt.set_default_dtype(mt.float32)
    """
    dtype = as_dtype(d)
    if dtype.kind != "f":
        raise DTypeError(
            "set_default_dtype: d must be a floating-point dtype",
            got=f"{dtype}",
            hint="pass a dtype where you create integers: mt.zeros(2, dtype=mt.int32)",
        )
    _default_float[0] = dtype


@names_arguments
def finfo(dtype=None):
    """Return the limits of a floating-point dtype: `max`, `min`, `eps`, `tiny`, `bits`."""
    return np.finfo(get_default_dtype() if dtype is None else as_dtype(dtype))


@names_arguments
def iinfo(dtype):
    """Return the limits of an integer dtype: `max`, `min`, `bits`."""
    return np.iinfo(as_dtype(dtype))


def is_number_dtype(dtype):
    """Return True for boolean, integer and floating-point dtypes of at most 8 bytes."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8
