"""Argument checks shared by several layers."""

import operator

from ..errors import ArgumentError, DTypeError

__all__ = ["check_layers", "check_module", "check_sizes"]

_MOST_LAYERS = 10_000


def check_sizes(where, **sizes):
    """Raise an error unless all sizes are non-negative integers.

    Parameters
    ----------
    where : str
        Name of the function, for the error message.
    **sizes
        Sizes, with the names of the arguments as keys.

    Examples
    --------
    >>> check_sizes("Linear", in_features=3, out_features=-1)
    Traceback (most recent call last):
    minitorch_attn.errors.ArgumentError: Linear: out_features must be a non-negative integer
      got       -1
    """
    for name, size in sizes.items():
        hint = None
        try:
            good = operator.index(size) >= 0
        except TypeError:
            good, hint = False, "convert with int(...), or divide with // instead of /"
        if not good:
            message = f"{where}: {name} must be a non-negative integer"
            raise ArgumentError(message, got=repr(size), hint=hint)


def check_module(where, module, name="module"):
    """Raise an error if an argument is not a Module.

    Examples
    --------
    >>> check_module("evaluating", 3, "model")
    Traceback (most recent call last):
    minitorch_attn.errors.DTypeError: evaluating: model is not a Module
      got       int
    """
    if not hasattr(type(module), "named_modules"):
        raise DTypeError(f"{where}: {name} is not a Module", got=type(module).__name__)


def check_layers(where, **counts):
    """Raise an error unless each number of layers is an integer from 0 to 10,000.

    A larger number is probably a typo that would make the program hang.

    Examples
    --------
    >>> check_layers("LSTM", num_layers=10**9)
    Traceback (most recent call last):
    minitorch_attn.errors.ArgumentError: LSTM: num_layers must be at most 10,000
      got       1000000000
    """
    check_sizes(where, **counts)
    for name, count in counts.items():
        if count > _MOST_LAYERS:
            raise ArgumentError(f"{where}: {name} must be at most {_MOST_LAYERS:,}", got=f"{count}")
