"""Scatter-add: add rows to a table in place, as in the gradient of an embedding lookup."""

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import array_module, platform_of
from minitorch_attn.errors import IndexRangeError

__all__ = ["scatter_add", "scatter_add_host"]

# Measured for rows of 64 to 768 numbers: adding a run of equal indices as one sum takes about two
# microseconds per run, and adding entry by entry about 1.5 nanoseconds per entry.
_ENTRIES_WORTH_A_RUN = 1400
_BLOCK = 1 << 18  # entries per block; their positions fit in the cache


def scatter_add(target, index, source):
    """Add `source` to `target[index]` in place. Rows with the same index are all added.

    Parameters
    ----------
    target : array of shape (rows, ...)
        Table that is changed in place.
    index : integer array, or any index that `target[index]` accepts
    source : array that broadcasts to the shape of `target[index]`

    Returns
    -------
    array
        `target`.

    Notes
    -----
    On the host, the result is the same on every run. On the strict device, the order of the
    additions is random, as it is on a GPU with atomic additions.

    Examples
    --------
    >>> scatter_add(np.zeros(3), np.array([2, 0, 2]), np.array([1.0, 2.0, 4.0]))
    array([2., 0., 5.])
    """
    if type(target) is ndarray and type(source) is ndarray:
        return scatter_add_host(target, index, source)
    array_module(target, source)
    return platform_of(target).scatter_add(target, index, source)


def scatter_add_host(target, index, source):
    """Add `source` to `target[index]` in place, for NumPy arrays, including duplicate indices."""
    if not isinstance(index, ndarray) or index.dtype.kind not in "iu":
        return _add_anywhere(target, index, source)
    if not target.flags.c_contiguous or target.ndim == 0:
        np.add.at(target, index, source)
        return target
    row = target.shape[1:]
    source = np.broadcast_to(np.asarray(source, target.dtype), index.shape + row)
    index = index.reshape(-1)
    if index.size and source.size:
        _check_range(index, len(target))
        # (..., row) -> (index, entry)
        _add_rows(target.reshape(len(target), -1), index, source.reshape(index.size, -1))
    return target


def _add_rows(table, index, rows):
    """Add `rows[i]` to `table[index[i]]` for every i; `table` and `rows` are 2-D."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    if rows.size < _ENTRIES_WORTH_A_RUN * (len(starts) + 1):
        _add_entries(table, index, rows)
        return
    rows = rows[order]
    bounds = [0, *starts.tolist(), len(ordered)]
    for start, stop in zip(bounds, bounds[1:], strict=False):
        table[ordered[start]] += rows[start:stop].sum(axis=0)


def _add_entries(table, index, rows):
    """Like `_add_rows`, but entry by entry on flattened arrays, for which `np.add.at` is fast."""
    width = table.shape[1]
    flat, columns = table.reshape(-1), np.arange(width)
    step = max(1, _BLOCK // width)
    for start in range(0, len(index), step):
        block = slice(start, start + step)
        places = index[block, None].astype(np.intp) * width + columns
        np.add.at(flat, places.reshape(-1), rows[block].reshape(-1))


def _check_range(index, length):
    """Raise IndexRangeError for indices outside the table, before anything is added."""
    low, high = int(index.min()), int(index.max())
    if low < -length or high >= length:
        raise IndexRangeError(
            "scatter_add(target, index, source): an index is out of range",
            got=f"indices from {low} to {high}",
            expected=f"from {-length} to {length - 1}, because the target has {length} rows",
            hint=f"use a target with at least {max(high + 1, -low)} rows",
        )


def _add_anywhere(target, index, source):
    """Scatter-add for any index other than one integer array, such as a mask or a tuple."""
    entries = index if isinstance(index, tuple) else (index,)
    arrays = [e for e in entries if isinstance(e, (ndarray, list))]
    if all(isinstance(e, ndarray) and e.dtype.kind == "b" for e in arrays):
        target[index] += source  # each position occurs once
    elif target.flags.c_contiguous and target.size <= 4 * np.size(source):
        places = np.arange(target.size).reshape(target.shape)[index]
        source = np.broadcast_to(np.asarray(source, target.dtype), places.shape)
        np.add.at(target.reshape(-1), places.reshape(-1), source.reshape(-1))
    else:
        np.add.at(target, index, source)
    return target
