"""Layout of matrix products for BLAS: transpose flags, leading dimensions, batch strides.

BLAS can read a matrix in place if its rows, or its columns, are contiguous in memory. The distance
between two rows (or columns) is called the leading dimension, and may be larger than their length.
In a batch, the distance between matrices must be constant. It is 0 if all products use the same
matrix. So most views, such as a transposed matrix, the heads of attention or a slice of the
features, do not need a copy.
"""

import math
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Plan", "matrix_layout", "merged", "plan"]

_LARGEST = 2**31 - 1  # BLAS takes sizes and leading dimensions as 32-bit integers


class Plan(NamedTuple):
    """How BLAS should compute a product of two batches of matrices, a @ b.

    Attributes
    ----------
    shape : tuple of int
        Shape of the product.
    copies : (bool, bool)
        Whether a and b must be copied first. If one is True, the fields below are not set.
    sizes : (int, int, int)
        Number of rows of a, number of columns of b, and number of columns of a.
    layouts : ((bool, int), (bool, int))
        For a and for b: whether the matrix is stored transposed, and its leading dimension.
    steps : (int, int, int)
        Batch strides of a, b and the product, in elements.
    count : int
        Number of matrices in the batch.
    starts : list of (int, int, int)
        Offsets of a, b and the product in each BLAS call, in elements. There are several calls only
        if the batch axes cannot be merged into one, as in grouped-query attention.
    """

    shape: tuple
    copies: tuple = (False, False)
    sizes: tuple = ()
    layouts: tuple = ()
    steps: tuple = (0, 0, 0)
    count: int = 1
    starts: tuple = ((0, 0, 0),)


def matrix_layout(rows, columns, row_step, column_step):
    """Return the layout that lets BLAS read a matrix in place, or None if there is none.

    Parameters
    ----------
    rows, columns : int
        Sizes, at least 1.
    row_step, column_step : int
        Distance in elements from one row to the next, and from one column to the next.

    Returns
    -------
    (bool, int) or None
        Whether the matrix is stored transposed, and its leading dimension. None if the matrix must
        be copied first.

    Examples
    --------
    >>> matrix_layout(3, 4, 4, 1), matrix_layout(3, 4, 1, 3), matrix_layout(3, 4, 8, 2)
    ((False, 4), (True, 3), None)
    """
    if columns == 1 or column_step == 1:
        step = columns if rows == 1 else row_step
        if columns <= step <= _LARGEST:
            return False, step
    if rows == 1 or row_step == 1:
        step = rows if columns == 1 else column_step
        if rows <= step <= _LARGEST:
            return True, step
    return None


def merged(shape, *steps):
    """Merge adjacent axes wherever every operand can traverse them with a single stride.

    Parameters
    ----------
    shape : tuple of int
    *steps : tuple of int
        Strides of each operand along these axes.

    Returns
    -------
    list of (int, tuple of int)
        Size of each remaining axis, and its stride in each operand.

    Examples
    --------
    >>> merged((2, 3, 1, 5), (15, 5, 5, 1), (0, 0, 0, 0))
    [(30, (1, 0))]
    >>> merged((2, 3), (12, 5))
    [(2, (12,)), (3, (5,))]
    """
    axes = []
    for size, *here in zip(shape, *steps, strict=True):
        if size == 1:
            continue
        before = axes[-1] if axes else None
        if before and all(far == size * near for far, near in zip(before[1], here, strict=True)):
            axes[-1] = before[0] * size, tuple(here)
        else:
            axes.append((size, tuple(here)))
    return axes


@lru_cache(maxsize=4096)
def plan(a_shape, a_steps, b_shape, b_steps):
    """Plan how BLAS computes the product a @ b, which must not be empty.

    Parameters
    ----------
    a_shape, b_shape : tuple of int
        Shapes (..., n, k) and (..., k, m), which match.
    a_steps, b_steps : tuple of int
        Strides in elements.

    Returns
    -------
    Plan

    Examples
    --------
    The scores of attention, query @ key^T, with the heads split from (batch, token, head, dim):

    >>> found = plan((1, 3, 2, 5), (30, 5, 15, 1), (1, 3, 5, 2), (30, 5, 1, 15))
    >>> found.copies, found.layouts, found.steps
    ((False, False), ((False, 15), (True, 15)), (5, 5, 4))
    """
    (n, k), m = a_shape[-2:], b_shape[-1]
    lead, a_lead, b_lead = _broadcast(a_shape[:-2], a_steps[:-2], b_shape[:-2], b_steps[:-2])
    shape, row_step = (*lead, n, m), a_steps[-2]
    if len(b_shape) == 2 and lead:
        rows = merged(a_shape[:-1], a_steps[:-1])  # (..., n, k) @ (k, m) is (rows, k) @ (k, m)
        if len(rows) < 2:
            n, row_step = (rows[0][0], rows[0][1][0]) if rows else (1, k)
            lead = a_lead = b_lead = ()
    layouts = (
        matrix_layout(n, k, row_step, a_steps[-1]),
        matrix_layout(k, m, b_steps[-2], b_steps[-1]),
    )
    out_lead = tuple(math.prod(lead[i + 1 :]) * n * m for i in range(len(lead)))
    axes = merged(lead, a_lead, b_lead, out_lead)
    copies = tuple(
        layout is None or (len(axes) > 1 and _uneven(lead, steps))
        for layout, steps in zip(layouts, (a_lead, b_lead), strict=True)
    )
    if any(copies):
        return Plan(shape, copies)
    longest = max(range(len(axes)), key=lambda i: axes[i][0], default=None)
    count, steps = (1, (0, 0, 0)) if longest is None else axes.pop(longest)
    return Plan(shape, copies, (n, m, k), layouts, steps, count, _starts(axes))


def _broadcast(a_lead, a_steps, b_lead, b_steps):
    """Return the broadcast shape of two batches, and the strides of each batch in this shape."""
    ndim = max(len(a_lead), len(b_lead))
    pairs = []
    for lead, steps in ((a_lead, a_steps), (b_lead, b_steps)):
        missing = ndim - len(lead)
        pairs.append(((1,) * missing + lead, (0,) * missing + steps))
    (a_sizes, a_steps), (b_sizes, b_steps) = pairs
    shape = tuple(q if p == 1 else p for p, q in zip(a_sizes, b_sizes, strict=True))
    even = [
        tuple(0 if size == 1 else step for size, step in zip(sizes, steps, strict=True))
        for sizes, steps in pairs
    ]
    return shape, *even


def _uneven(lead, steps):
    """Return True if the batch axes with a nonzero stride cannot be merged into one."""
    own = [(size, step) for size, step in zip(lead, steps, strict=True) if step]
    return len(merged([size for size, _ in own], [step for _, step in own])) > 1


def _starts(axes):
    """Return the offsets at which the BLAS calls start: one call for each index along `axes`."""
    starts = [(0, 0, 0)]
    for size, steps in axes:
        starts = [
            tuple(at + i * step for at, step in zip(start, steps, strict=True))
            for start in starts
            for i in range(size)
        ]
    return tuple(starts)
