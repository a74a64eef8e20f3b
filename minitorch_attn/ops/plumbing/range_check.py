"""Range checks of values, and of indices such as labels and token ids.

On the host, a value out of range raises an error immediately. A GPU would silently compute with the
wrong value, and an immediate check would make the host wait for the GPU. On a GPU, the check
therefore runs on the device, and the error is raised when the host next reads from the device
(`.item()`, `.numpy()`).
"""

from typing import NamedTuple

from ...backend import array_module, device_of
from ...backend.deferred import note_largest, note_worst
from ...errors import DTypeError, IndexRangeError

__all__ = ["InvalidValue", "check_range", "check_values"]


class _Question(NamedTuple):
    """Range check of indices, as a callable that returns the error, or None if all are in range."""

    where: str
    name: str
    size: int
    lowest: int
    bits: int  # number of bits of a checked integer

    def __call__(self, worst, position=None):
        """Return the error if an index is out of range, else None.

        `worst` is the largest `index - lowest`, computed with `_unsigned`, so that an index below
        `lowest` gives a very large number. If `worst` is in range, all indices are.
        """
        if worst < self.size - self.lowest or (worst == 0 and position is None):
            return None
        if worst >= 1 << (self.bits - 1):
            worst -= 1 << self.bits  # the index was less than `lowest`
        place = f" at position {position}" if position is not None else ""
        late = (
            None if place else "look at earlier operations: devices report errors at the next read"
        )
        return self.error(f"{worst + self.lowest}{place}", late)

    def error(self, got, hint=None):
        """Return the error for an index out of range."""
        allowed = (
            f"from {self.lowest} to {self.size - 1}" if self.size else "no index: the size is 0"
        )
        return IndexRangeError(
            f"{self.where}: {self.name} holds an index out of range",
            got=got, expected=allowed, hint=hint,
        )  # fmt: skip


def check_range(index, size, *, where, name, allow=None, lowest=0):
    """Raise IndexRangeError if an index is less than `lowest` or greater than `size - 1`.

    Parameters
    ----------
    index : integer array
    size : int
        Size of the axis that `index` refers to.
    where, name : str
        Names of the function and its argument, for error messages.
    allow : int, optional
        A value that is allowed although it is out of range, such as `ignore_index`.
    lowest : int, default 0
        The smallest index allowed; `-size` if negative indices count from the end.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> check_range(mt.tensor([3, 7]).array, 5, where="embedding", name="input")
    Traceback (most recent call last):
    minitorch_attn.errors.IndexRangeError: embedding: input holds an index out of range
      got       7 at position (1,)
      expected  from 0 to 4
    """
    if index.dtype.kind not in "iu":
        raise DTypeError(
            f"{where}: {name} must hold integers", got=f"{index.dtype}", hint=f"{name}.long()"
        )
    if index.size == 0:
        return
    if index.dtype.kind == "u" or index.dtype.itemsize < 4:
        index = index.astype("int64")  # this dtype can hold `allow` and every shifted index
    question = _Question(where, name, size, lowest, 8 * index.dtype.itemsize)
    if device_of(index).type == "cpu":
        worst = int(_unsigned(index, lowest).max())
        if worst < size - lowest:
            return
        index = _without(index, allow, lowest)
        shifted = _unsigned(index, lowest)
        position = array_module(index).unravel_index(shifted.argmax(), index.shape)
        error = question(int(shifted.max()), tuple([int(p) for p in position]))
        if error is not None:
            raise error
    elif size > lowest:
        note_largest(question, index, lowest, allow)
    else:
        raise question.error(f"{index.size} indices")


class InvalidValue(NamedTuple):
    """The error to raise if an element is invalid for a function; see `check_values`."""

    error: type
    message: str
    hint: str

    def __call__(self, found, got="a value on the device"):
        """Return the error, or None if no invalid element was found."""
        return self.error(self.message, got=got, hint=self.hint) if found else None


def check_values(values, invalid, problem):
    """Raise the error `problem` if an element of `values` is invalid.

    Parameters
    ----------
    values : array
    invalid : bool array of the same shape
        Where `values` is invalid.
    problem : InvalidValue
        The error to raise.

    Examples
    --------
    >>> import numpy as np
    >>> from minitorch_attn.errors import ArgumentError
    >>> check_values(np.array([2, 0]), np.array([False, True]),
    ...              InvalidValue(ArgumentError, "f(x): x must not be 0", "x.float()"))
    Traceback (most recent call last):
    minitorch_attn.errors.ArgumentError: f(x): x must not be 0
      got       0 at position (1,)
      try       x.float()
    """
    if device_of(values).type != "cpu":
        if values.size:
            note_worst(problem, invalid.max().astype("uint64"))
    elif invalid.any():
        place = array_module(values).unravel_index(invalid.argmax(), values.shape)
        position = tuple([int(p) for p in place])
        raise problem(True, f"{values[position]} at position {position}")


def _unsigned(index, lowest):
    """Return `index - lowest` as unsigned integers. Negative differences become very large."""
    shifted = index - lowest if lowest else index
    return shifted.view(f"u{index.dtype.itemsize}")


def _without(index, allow, lowest):
    """Replace the allowed value, such as `ignore_index`, with `lowest`, which passes the check."""
    if allow is None:
        return index
    return array_module(index).where(index == allow, lowest, index)
