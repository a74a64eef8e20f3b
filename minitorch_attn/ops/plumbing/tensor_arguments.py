"""Tensor arguments: accept tensors and arrays, and raise an error for anything else."""

from ... import backend
from ...errors import DTypeError
from ...tensor import Tensor, wrap

__all__ = ["as_operand", "as_operands", "no_operand", "not_tensors"]


def as_operand(input, name, argument="input"):
    """Return `input` as a Tensor; convert a raw array to a constant, and reject anything else.

    Parameters
    ----------
    input : Tensor or array
        Value passed by the user.
    name, argument : str
        Names of the public function and its argument, for error messages.
    """
    if isinstance(input, Tensor):
        return input
    if backend.is_array(input) and backend.is_number_dtype(input.dtype):
        return wrap(backend.as_array(input))
    raise no_operand(name, argument, input, "not a tensor")


def as_operands(tensors, name):
    """Apply `as_operand` to each entry of `tensors`; return a list."""
    return [as_operand(x, name, f"tensors[{i}]") for i, x in enumerate(tensors)]


def not_tensors(error, name, **arguments):
    """Return the error for the first argument that is not a tensor, or `error` if all are tensors.

    Call this function in the `except AttributeError` clause of a `try` statement around the first
    use of the arguments. A valid call then needs no checks.

    Parameters
    ----------
    error : Exception
        Error that the function raised.
    name : str
        Name of the public function.
    **arguments
        Arguments that must be tensors; the error names the first that is not.

    Returns
    -------
    Exception
    """
    for argument, value in arguments.items():
        if not isinstance(value, Tensor):
            return no_operand(name, argument, value, "not a tensor")
    return error


def no_operand(name, argument, value, verdict="neither a tensor nor a number"):
    """Return the error for an argument of a type that an operation does not accept."""
    return DTypeError(
        f"{name}: {argument} is {verdict}",
        got=f"{value!r:.60} of type {type(value).__name__}",
        hint="convert a number, a list or an array with mt.tensor(...)",
    )
