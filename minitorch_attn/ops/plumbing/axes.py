"""Validate the axes and sizes that a user passes; negative axes count from the end."""

import builtins
from operator import index as as_int

from ...errors import ArgumentError, DTypeError, IndexRangeError, ShapeError

__all__ = ["axes_of", "axis_of", "flag_of", "sizes_of", "too_many_axes"]


def axis_of(dim, ndim, where, name="dim"):
    """Convert an axis, which may be negative, to an index from 0. A 0-d tensor allows 0 and -1.

    Parameters
    ----------
    dim : int
        Axis passed by the user.
    ndim : int
        Number of axes of the tensor.
    where, name : str
        Names of the function and its argument, for error messages.

    Examples
    --------
    >>> axis_of(-1, 3, "sum")
    2
    """
    try:
        axis = as_int(dim)
    except TypeError:
        raise DTypeError(
            f"{where}: {name} must be an integer",
            got=f"{dim!r}",
            expected="an axis number",
            hint="convert it with int(...), or with .item() if it is a tensor",
        ) from None
    count = max(ndim, 1)
    if not -count <= axis < count:
        raise IndexRangeError(
            f"{where}: {name} is out of range",
            got=f"{name}={axis} for {ndim} axes",
            expected=f"from {-count} to {count - 1}",
            hint="negative axes count from the end: -1 is the last",
        )
    return axis % count


def axes_of(dim, ndim, where, name="dim"):
    """Convert one axis, or several different axes, to a tuple of non-negative axis numbers.

    Examples
    --------
    >>> axes_of((-1, 0), 3, "sum")
    (2, 0)
    """
    if not isinstance(dim, (tuple, list)):
        return (axis_of(dim, ndim, where, name),)
    axes = tuple([axis_of(d, ndim, where, name) for d in dim])
    if len(set(axes)) < len(axes):
        raise ArgumentError(
            f"{where}: {name} must not repeat an axis",
            got=f"{name}={tuple(dim)} for {ndim} axes",
            hint="name each axis once; -1 is the last axis",
        )
    return axes


def too_many_axes(where, name, count):
    """Return the error for a result with more axes than NumPy's arrays can have.

    Call this function in `except ValueError`; a valid call then needs no check.
    """
    return ShapeError(
        f"{where}: {name} has too many axes",
        got=f"a result with {count} axes",
        expected="at most 64 axes",
    )


def flag_of(value, where, name):
    """Convert the value of a flag, such as `keepdim`, to a bool.

    Examples
    --------
    >>> flag_of(1, "sum", "keepdim")
    True
    """
    if value is True or value is False:
        return value
    try:
        return builtins.bool(value)
    except ValueError:  # an array, or a Tensor
        raise DTypeError(f"{where}: {name} must be True or False", got=f"{value!r:.60}") from None


def sizes_of(sizes, where, name="size"):
    """Convert sizes to a tuple of ints, from `(2, 3)`, `[2, 3]` or a single int.

    Examples
    --------
    >>> sizes_of([2, 3], "reshape"), sizes_of(4, "reshape")
    ((2, 3), (4,))
    """
    if not isinstance(sizes, (tuple, list)):
        sizes = (sizes,)
    try:
        return tuple([n if type(n) is builtins.int else as_int(n) for n in sizes])
    except TypeError:
        raise DTypeError(
            f"{where}: {name} must hold integers",
            got=f"{sizes!r}",
            hint="compute sizes with // or int(...)",
        ) from None
