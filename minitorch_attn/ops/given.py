"""What an operation is given: a tensor, or an error that says which argument is none."""

from .. import backend
from ..errors import DTypeError
from ..tensor import Tensor, wrap

__all__ = ["as_operand", "as_operands", "no_operand", "not_tensors"]


def as_operand(input, name, argument="input"):
    """`input` if it is a Tensor; a raw array counts as a constant one, anything else raises.

    Parameters
    ----------
    input : Tensor or array
    name, argument : str
        The public function and its argument, for the message.
    """
    if isinstance(input, Tensor):
        return input
    if backend.is_array(input):
        return wrap(backend.as_array(input))
    raise no_operand(name, argument, input, "not a tensor")


def as_operands(tensors, name):
    """Each of a sequence `tensors` as by `as_operand`, in a list."""
    return [as_operand(x, name, f"tensors[{i}]") for i, x in enumerate(tensors)]


def not_tensors(error, name, **arguments):
    """The error of a function of tensors in terms of its arguments, or as it was.

    For `except AttributeError` around the first look at them, so that nothing is checked where
    all is well.

    Parameters
    ----------
    error : Exception
    name : str
        The public function.
    **arguments
        What has to be tensors; the first that is none is named.

    Returns
    -------
    Exception
    """
    for argument, value in arguments.items():
        if not isinstance(value, Tensor):
            return no_operand(name, argument, value, "not a tensor")
    return error


def no_operand(name, argument, value, verdict="neither a tensor nor a number"):
    """The error for an argument that an operation cannot take."""
    return DTypeError(
        f"{name}: {argument} is {verdict}.",
        got=f"{value!r:.60} of type {type(value).__name__}",
        hint="mt.tensor(...) makes a tensor of a number, a list or an array",
    )
