"""What the public functions share: operands brought to one dtype, and errors that name them."""

from .. import backend
from ..autograd.broadcasting import broadcast_shapes
from ..errors import DTypeError, MiniTorchError
from ..tensor import Tensor
from .cast import cast
from .given import as_operand, no_operand
from .promotion import default_float, promote

__all__ = ["binary", "explained", "floating", "number"]


def binary(function, name, input, other):
    """Apply an elementwise Function to two operands of any dtypes that broadcast.

    add, sub and mul spell these lines out, because a call less shows on small arrays.

    Parameters
    ----------
    function : type
        A Function of two operands.
    name : str
        The public function, for error messages.
    input, other : Tensor, array or number
    """
    try:
        return function.apply(*promote(input, other))
    except (ValueError, TypeError) as error:
        raise explained(error, name, input=input, other=other) from None


def explained(error, name, **operands):
    """The error of an elementwise operation in terms of its arguments, or as it was.

    The array library finds shapes that do not broadcast on its own, so that nothing is checked
    where all is well.

    Parameters
    ----------
    error : Exception
    name : str
        The public function.
    **operands : Tensor, array or number

    Returns
    -------
    Exception
    """
    arrays = {}
    for key, value in operands.items():
        if isinstance(value, Tensor) or backend.is_array(value):
            arrays[key] = value
        elif not isinstance(value, (int, float)):
            return no_operand(name, key, value)
    if isinstance(error, MiniTorchError):
        return error
    try:
        broadcast_shapes(*(a.shape for a in arrays.values()), names=list(arrays), where=name)
    except MiniTorchError as better:
        return better
    if isinstance(error, TypeError):
        return DTypeError(
            f"{name}({', '.join(operands)}): not defined for these dtypes.",
            got=" and ".join(f"{key} {a.dtype}" for key, a in arrays.items()),
            hint="x.float() or x.to(mt.int64) first",
        )
    return error


def floating(input, name):
    """`input` as the operations on real numbers want it: integers become the default float.

    Parameters
    ----------
    input : Tensor
    name : str
        The public function, for error messages.
    """
    try:
        if input.array.dtype.kind == "f":
            return input
    except AttributeError:
        input = as_operand(input, name)
    return input if input.array.dtype.kind == "f" else cast(input, default_float)


def number(value, name, argument):
    """A setting as a Python number: one of NumPy's would widen the arrays that it meets.

    Parameters
    ----------
    value : number, NumPy scalar or one-element Tensor
    name, argument : str
        The public function and its argument, for error messages.

    Examples
    --------
    >>> import numpy as np
    >>> number(np.float64(0.5), "pow", "exponent")
    0.5
    """
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, Tensor) or backend.is_array(value):
        value = value.item()
    if isinstance(value, (int, float)):
        return value
    raise no_operand(name, argument, value, "not a number")
