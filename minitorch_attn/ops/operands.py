"""What the public functions share: operands brought to one dtype, and errors that name them."""

from .. import backend
from ..autograd.broadcasting import broadcast_shapes
from ..errors import DTypeError, MiniTorchError
from ..tensor import Tensor, wrap
from .cast import cast
from .promotion import default_float, promote

__all__ = ["as_operand", "binary", "explained", "floating"]


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
    if isinstance(error, MiniTorchError):
        return error
    arrays = {
        key: value.array if isinstance(value, Tensor) else value
        for key, value in operands.items()
        if isinstance(value, Tensor) or backend.is_array(value)
    }
    try:
        broadcast_shapes(*(a.shape for a in arrays.values()), names=list(arrays), where=name)
    except MiniTorchError as better:
        return better
    if isinstance(error, TypeError):
        seen = " and ".join(f"{key} {a.dtype}" for key, a in arrays.items())
        return DTypeError(
            f"{name}({', '.join(operands)}): not defined for these dtypes.",
            got=seen,
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


def as_operand(input, name):
    """`input` if it is a Tensor; a raw array counts as a constant one, anything else raises."""
    if isinstance(input, Tensor):
        return input
    if backend.is_array(input):
        return wrap(backend.as_array(input))
    raise DTypeError(
        f"{name}(input): the input is not a tensor.",
        got=f"{input!r:.60} of type {type(input).__name__}",
        hint="mt.tensor(...) makes a tensor of a number, a list or an array",
    )
