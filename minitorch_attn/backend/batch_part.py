"""Part of a batch: draw the dropout masks that its rows would get in the full batch."""

import math
import threading
from contextlib import contextmanager

from minitorch_attn.errors import ArgumentError, GraphError

__all__ = ["again_in", "batch_part", "current", "draws_part", "refuse_in_part", "whole_mask"]


class _Current(threading.local):
    rows = None  # (first, count, total) inside `batch_part`


current = _Current()


def batch_part(first, count, total):
    r"""Inside the `with` block, draw only some batch rows of every dropout mask.

    Several processes that share a batch set the same seed and call this function with different
    rows. Each process then draws its own rows of the mask that a single process would draw. It
    still reserves the counter values of the full mask, so later masks are correct, too.

    Parameters
    ----------
    first, count : int
        First row of the part, and its number of rows, at least 1.
    total : int
        Number of rows of the full batch.

    Raises
    ------
    ArgumentError
        If the rows are not a part of the batch. Inside the block, also if the length of a
        mask's first axis is not a multiple of `count`.
    GraphError
        Inside the block, if random numbers other than masks are drawn, or if threads that draw
        masks are started.

    Notes
    -----
    The first axis of every mask must be the batch axis, or the batch axis merged with the windows
    or heads that follow it. Let n be the number of mask entries of each row of the batch. In the
    flattened mask, the part consists of the entries at the positions i with

        n first <= i < n (first + count).

    These positions are contiguous. The random numbers of a mask are computed from counter values,
    and each counter value yields 16 mask entries. If the part does not start or end at a multiple
    of 16, the surplus entries at its ends are computed and discarded.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> from minitorch_attn.backend import keep_mask
    >>> generator = mt.manual_seed(1)
    >>> whole = keep_mask((3, 2), 0.5)
    >>> generator = mt.manual_seed(1)
    >>> with batch_part(1, 2, 3):
    ...     part = keep_mask((2, 2), 0.5)
    >>> bool((part == whole[1:]).all())
    True
    """
    if not (0 <= first and 1 <= count and first + count <= total):
        raise ArgumentError(
            "batch_part: the rows are not a part of the batch",
            got=f"first={first}, count={count}, total={total}",
            expected="0 <= first, 1 <= count and first + count <= total",
            hint="use a batch with at least one row for each process",
        )
    return again_in((first, count, total) if count < total else None)


@contextmanager
def again_in(rows):
    """Enter `batch_part` again with rows saved from `current.rows`; None means the full batch."""
    before, current.rows = current.rows, rows
    try:
        yield
    finally:
        current.rows = before


def draws_part():
    """Return True inside `batch_part`, where a kernel must not draw the full batch's mask."""
    return current.rows is not None


def refuse_in_part(message, hint):
    """Raise GraphError if called inside `batch_part`, where only dropout masks may be drawn."""
    if current.rows is None:
        return
    first, count, total = current.rows
    raise GraphError(
        message,
        got=f"rows {first} to {first + count - 1} of a batch of {total}",
        expected="dropout masks only, so that every split of the batch draws the same numbers",
        hint=hint,
    )


def whole_mask(shape):
    """Return the size of the full batch's mask, and where in it the current part's mask starts.

    Parameters
    ----------
    shape : tuple of int
        Shape of the current part's mask.

    Returns
    -------
    size, start : int
        Number of entries of the full mask, and number of entries before this part.

    Examples
    --------
    >>> with batch_part(1, 2, 5):
    ...     whole_mask((4, 3))
    (30, 6)
    """
    first, count, total = current.rows
    if not shape or shape[0] % count:
        raise ArgumentError(
            "batch_part: the length of a mask's first axis is not a multiple of count",
            got=f"a mask of shape {shape}, for {count} of the {total} rows of a batch",
            expected="the batch as the first axis, possibly times windows or heads",
            hint="put the batch first, or train with one process",
        )
    per_row = math.prod(shape) // count
    return per_row * total, per_row * first
