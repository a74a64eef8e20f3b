"""Checks of arguments that several layers share."""

import operator

from ..errors import ArgumentError

__all__ = ["check_sizes"]


def check_sizes(where, **sizes):
    """Refuse sizes that are not whole numbers from 0.

    Parameters
    ----------
    where : str
        The call, for the error.
    **sizes
        Each under the name of its argument.

    Examples
    --------
    >>> check_sizes("Linear", in_features=3, out_features=-1)
    Traceback (most recent call last):
    minitorch_attn.errors.ArgumentError: Linear: out_features is a size.
      got       -1
      expected  a whole number, 0 or more
    """
    for name, size in sizes.items():
        try:
            good = operator.index(size) >= 0
        except TypeError:
            good = False
        if not good:
            raise ArgumentError(
                f"{where}: {name} is a size.", got=repr(size), expected="a whole number, 0 or more"
            )
