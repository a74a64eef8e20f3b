"""Arguments of the functions that create tensors: sizes, dtypes and fill values."""

import builtins
import math

from ...backend import as_dtype, finfo, get_default_dtype, iinfo
from ...errors import ArgumentError, DTypeError
from ...tensor import Tensor
from .axes import sizes_of
from .operands import number

__all__ = ["count_of", "dtype_of", "fill_value_of", "shape_of"]


def shape_of(sizes, where, name="size"):
    """Return the shape as a tuple; `sizes` holds the arguments of `zeros(2, 3)` or `zeros((2, 3))`.

    Examples
    --------
    >>> shape_of((2, 3), "zeros"), shape_of(([2, 3],), "zeros"), shape_of((), "zeros")
    ((2, 3), (2, 3), ())
    """
    if len(sizes) == 1 and not isinstance(sizes[0], builtins.int):
        sizes = sizes[0]
        if isinstance(sizes, Tensor):
            sizes = sizes.tolist()
    shape = sizes_of(sizes, where, name)
    if any(n < 0 for n in shape):
        raise ArgumentError(
            f"{where}: {name} must not be negative",
            got=f"{shape}",
            hint="a size of -1 is inferred only by functions such as reshape",
        )
    return shape


def count_of(value, where, name):
    """Return `value`, a number of elements, as an int; raise ArgumentError if it is negative.

    Examples
    --------
    >>> count_of(3, "eye", "n")
    3
    """
    (count,) = sizes_of((value,), where, name)
    if count < 0:
        raise ArgumentError(f"{where}: {name} must not be negative", got=f"{name}={count}")
    return count


def dtype_of(dtype, where):
    """Return a dtype for a tensor; None means the default dtype, which is initially float32.

    Examples
    --------
    >>> dtype_of("int64", "zeros"), dtype_of(None, "zeros")
    (dtype('int64'), dtype('float32'))
    """
    if dtype is None:
        return get_default_dtype()
    try:
        return as_dtype(dtype)
    except DTypeError as error:
        raise DTypeError(
            f"{where}: dtype is unsupported",
            got=error.got,
            expected=error.expected,
            hint=error.hint,
        ) from None


def fill_value_of(value, dtype, where, name="fill_value"):
    """Return a Python number that the dtype can represent; truncate floats for integer dtypes.

    Examples
    --------
    >>> fill_value_of(2.7, as_dtype("int64"), "full")
    2
    """
    if not isinstance(value, (builtins.bool, builtins.int, builtins.float)):
        value = number(value, where, name)
    if dtype.kind == "b":
        return builtins.bool(value)
    if dtype.kind == "f":
        fits = isinstance(value, float) and not math.isfinite(value)
        lowest, highest = float(finfo(dtype).min), float(finfo(dtype).max)
    else:
        fits = False
        lowest, highest = iinfo(dtype).min, iinfo(dtype).max
        value = int(value) if math.isfinite(value) else value
    if not (fits or lowest <= value <= highest):
        raise ArgumentError(
            f"{where}: {name} is out of the range of {dtype}",
            got=f"{value}",
            expected=f"a number from {lowest} to {highest}",
            hint="dtype=mt.float32 or float64 for large values, infinity and NaN",
        )
    return float(value) if dtype.kind == "f" else value
