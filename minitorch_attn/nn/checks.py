"""Checks of arguments shared by several layers."""

import operator

from ..errors import ArgumentError

__all__ = ["check_sizes"]


def check_sizes(where, **sizes):
    """Check that sizes are non-negative integers.

    Parameters
    ----------
    where : str
        Name of the function, for the error message.
    **sizes
        Sizes, under the names of their arguments.

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
