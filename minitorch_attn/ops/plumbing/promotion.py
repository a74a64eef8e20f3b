"""Type promotion: the dtype of operations on mixed operands, by PyTorch's rules.

Categories rank bool < integer < floating. The dtypes of tensors with at least one axis decide; a
0-d tensor or a Python number matters only if its category is higher. So `float32_vector * 2.0`
and `float32_vector * float64_scalar_tensor` stay float32.
"""

import builtins
from numbers import Number

from ...backend import as_dtype, get_default_dtype, is_array, is_number_dtype
from ...errors import DTypeError
from ...tensor import Tensor, wrap
from ..cast import cast

__all__ = ["promote", "result_type", "promote_types", "wrapped"]

_BOOL, _INT64 = as_dtype("bool"), as_dtype("int64")
_RANK = {"b": 0, "i": 1, "u": 1, "f": 2}


def promote_types(type1, type2):
    """The dtype that can hold both dtypes, as in NumPy, except that integers never widen a float.

    Examples
    --------
    >>> promote_types(as_dtype("int64"), as_dtype("float32"))
    dtype('float32')
    """
    type1, type2 = as_dtype(type1), as_dtype(type2)
    rank1, rank2 = _RANK[type1.kind], _RANK[type2.kind]
    if rank1 != rank2 and 2 in (rank1, rank2):
        return type1 if rank1 > rank2 else type2
    return as_dtype(type1, type2)


def result_type(*operands):
    """The dtype of the result of an operation on tensors and numbers.

    Parameters
    ----------
    *operands : Tensor or Python number

    Returns
    -------
    dtype

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> result_type(mt.tensor([1]), 2.0)
    dtype('float32')
    """
    levels = [None, None, None]  # tensors with axes, 0-d tensors, numbers
    for value in operands:
        if isinstance(value, Tensor):
            level, dtype = (0 if value.array.ndim else 1), value.array.dtype
        else:
            level, dtype = 2, _dtype_of_number(value)
        before = levels[level]
        levels[level] = dtype if before is None else promote_types(before, dtype)
    result = None
    for dtype in levels:
        if result is None:
            result = dtype
        elif dtype is not None and _RANK[dtype.kind] > _RANK[result.kind]:
            result = promote_types(result, dtype)
    return result


def _dtype_of_number(value):
    if isinstance(value, builtins.bool):
        return _BOOL
    if isinstance(value, builtins.int):
        return _INT64
    if isinstance(value, builtins.float):
        return get_default_dtype()
    raise DTypeError(
        "the operand is neither a tensor nor a number",
        got=f"{value!r} of type {type(value).__name__}",
        hint="convert a list or an array with mt.tensor(...)",
    )


def promote(a, b):
    """Convert two operands to one dtype; Python numbers stay numbers.

    Parameters
    ----------
    a, b : Tensor, array or Python number, at least one of them a Tensor

    Returns
    -------
    tuple of Tensor or number
    """
    a_is, b_is = isinstance(a, Tensor), isinstance(b, Tensor)
    if a_is and b_is:
        if a.array.dtype == b.array.dtype:
            return a, b
    elif a_is and type(b) in _NUMBERS and a.array.dtype.kind == "f":
        return a, b
    elif b_is and type(a) in _NUMBERS and b.array.dtype.kind == "f":
        return a, b
    if not a_is:
        a = _operand(a)
    if not b_is:
        b = _operand(b)
    if not (isinstance(a, Tensor) or isinstance(b, Tensor)):
        raise DTypeError(
            "at least one operand must be a tensor",
            got=f"{a!r} and {b!r}",
            hint="convert one of the numbers with mt.tensor(...)",
        )
    dtype = result_type(a, b)
    return _converted(a, dtype), _converted(b, dtype)


_NUMBERS = (float, int)


def _operand(value):
    """Convert a raw array to a constant tensor, and a NumPy scalar to a Python number."""
    if isinstance(value, Number):
        return value.item() if hasattr(value, "item") else value
    return wrap(value) if is_array(value) and is_number_dtype(value.dtype) else value


def _converted(value, dtype):
    if isinstance(value, Tensor):
        return value if value.array.dtype == dtype else cast(value, dtype)
    if dtype.kind == "f":
        return float(value)
    return builtins.bool(value) if dtype.kind == "b" else wrapped(value, dtype)


def wrapped(value, dtype):
    """Reduce a Python int modulo 2^n to the range of an integer dtype with n bits.

    Examples
    --------
    >>> wrapped(-1, as_dtype("uint8")), wrapped(200, as_dtype("int8"))
    (255, -56)
    """
    modulus = 1 << 8 * dtype.itemsize
    value %= modulus
    return value - modulus if dtype.kind == "i" and value >= modulus // 2 else value
