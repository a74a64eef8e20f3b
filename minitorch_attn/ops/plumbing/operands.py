"""Operands of elementwise functions: convert them to one dtype, and name them in errors."""

import math

from ... import backend
from ...autograd.broadcasting import broadcast_shapes
from ...errors import ArgumentError, DTypeError, MiniTorchError
from ...named_errors import under
from ...tensor import Tensor
from ..cast import cast
from .promotion import promote
from .tensor_arguments import as_operand, no_operand

__all__ = ["MISFITS", "at_least_zero", "binary", "explained", "floating", "number"]

MISFITS = (ValueError, TypeError, OverflowError)  # Python's errors if operands do not fit


def binary(function, name, input, other, **settings):
    """Apply an elementwise Function to two operands of any dtypes, with broadcasting.

    add, sub and mul repeat these lines instead of calling this function, because an extra call is
    measurably slow on small arrays.

    Parameters
    ----------
    function : type
        A Function of two operands.
    name : str
        Name of the public function, for error messages.
    input, other : Tensor, array or number
    **settings
        Settings of the Function.
    """
    try:
        return function.apply(*promote(input, other), **settings)
    except MISFITS as error:
        raise explained(error, name, input=input, other=other) from None


def explained(error, name, **operands):
    """Return an elementwise operation's error, reworded to name the public function's arguments.

    The array library itself detects shapes that do not broadcast, so valid calls need no checks.

    Parameters
    ----------
    error : Exception
        Error that the operation raised.
    name : str
        Name of the public function.
    **operands : Tensor, array or number
        Operands of the function.

    Returns
    -------
    Exception
    """
    arrays = {}
    for key, value in operands.items():
        array = backend.is_array(value) and backend.is_number_dtype(value.dtype)
        if array or isinstance(value, Tensor):
            arrays[key] = value
        elif not isinstance(value, (int, float)):
            return no_operand(name, key, value)
    if isinstance(error, MiniTorchError):
        return error if name in error.message else under(name, error)
    try:
        broadcast_shapes(*(a.shape for a in arrays.values()), names=list(arrays), where=name)
    except MiniTorchError as better:
        return better
    if isinstance(error, TypeError):
        return DTypeError(
            f"{name}({', '.join(operands)}): the dtype is unsupported",
            got=" and ".join(f"{key} {a.dtype}" for key, a in arrays.items()),
            hint="call x.float() or x.to(mt.int64) first",
        )
    return ArgumentError(
        f"{name}({', '.join(operands)}): an argument has an unsupported value",
        got=", ".join(f"{key} {_shape_or_number(x)}" for key, x in operands.items()),
        hint=f"help(mt.{name}) describes the arguments; {error}",
    )


def _shape_or_number(x):
    huge = isinstance(x, int) and x.bit_length() > 64
    return f"an integer of {x.bit_length():,} bits" if huge else getattr(x, "shape", x)


def floating(input, name):
    """Convert integers to the default floating-point dtype, for operations on real numbers.

    Parameters
    ----------
    input : Tensor
    name : str
        Name of the public function, for error messages.
    """
    try:
        if input.array.dtype.kind == "f":
            return input
    except AttributeError:
        input = as_operand(input, name)
    return input if input.array.dtype.kind == "f" else cast(input, backend.get_default_dtype())


def number(value, name, argument):
    """Convert a setting to a Python number, because a NumPy number could widen an array's dtype.

    Parameters
    ----------
    value : number, NumPy scalar or one-element Tensor
    name, argument : str
        Names of the public function and its argument, for error messages.

    Examples
    --------
    >>> import numpy as np
    >>> number(np.float64(0.5), "pow", "exponent")
    0.5
    """
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, Tensor) or backend.is_array(value):
        if math.prod(value.shape) != 1 or value.dtype.kind not in "biuf":
            raise no_operand(name, argument, value, "not a number")
        value = value.item()
    if isinstance(value, (int, float)):
        return value
    raise no_operand(name, argument, value, "not a number")


def at_least_zero(value, name, argument):
    """Convert a setting to a Python number; raise ArgumentError if it is negative or NaN.

    Parameters
    ----------
    value : number
    name, argument : str
        Names of the public function and its argument, for error messages.

    Examples
    --------
    >>> at_least_zero(1e-5, "batch_norm", "eps")
    1e-05
    """
    found = number(value, name, argument)
    if not found >= 0:
        raise ArgumentError(
            f"{name}: {argument} must not be negative or NaN",
            got=f"{argument}={found}",
            expected="a number that is at least 0",
        )
    return found
