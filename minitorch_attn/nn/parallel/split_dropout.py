"""Dropout of a tensor that is split among ranks: each rank draws its part of the mask."""

import math

from ...backend import array_module, initial_seed, next_offset
from ...backend.random import keep_runs
from ...ops.dropout import Dropout as Dropped
from ..dropout import Dropout

__all__ = ["SplitDropout", "mask_part"]


def mask_part(shape, axis, slices, total, p, xp):
    """Return the part of a random dropout mask that belongs to some slices of one axis.

    Parameters
    ----------
    shape : tuple of int
        Shape of the part.
    axis : int
        The axis that is split.
    slices : list of slice
        Slices of the whole axis that make up the part, in order.
    total : int
        Size of the whole axis.
    p : float
        Probability that an element is zeroed.
    xp : module
        Array module of the result, such as `numpy`.

    Returns
    -------
    array of bool of shape `shape`
        The same entries that a single process would draw for these slices. The random generator
        advances as if the whole mask had been drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import minitorch_attn as mt
    >>> generator = mt.manual_seed(0)
    >>> whole = mt.backend.keep_mask((2, 6), 0.5)
    >>> generator = mt.manual_seed(0)
    >>> part = mask_part((2, 3), 1, [slice(1, 2), slice(4, 6)], 6, 0.5, np)
    >>> bool((part == whole[:, [1, 4, 5]]).all())
    True
    """
    axis %= len(shape)
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    seed, offset = initial_seed(), next_offset(before * total * after)
    parts = []
    for part in slices:
        starts = (xp.arange(before) * total + part.start) * after
        length = (part.stop - part.start) * after
        mask = keep_runs(starts, length, 1.0 - p, seed, offset)
        parts.append(mask.reshape(*shape[:axis], -1, *shape[axis + 1 :]))
    return (parts[0] if len(parts) == 1 else xp.concatenate(parts, axis)).reshape(shape)


class SplitDropout(Dropout):
    """Dropout of a tensor with one axis split among ranks.

    The result is the same as in a single process.

    Parameters
    ----------
    p : float
        Probability that an element is zeroed.
    axis : int
        The axis that is split.
    slices : callable
        Function that maps the size of the rank's part of the axis to (slices of the whole axis,
        size of the whole axis).

    Notes
    -----
    All ranks must have the same seed. Before, they must have drawn parts of the same dropout masks,
    in the same order, so that their random generators have advanced equally.
    """

    def __init__(self, p, axis, slices):
        super().__init__(p)
        self.axis, self.slices = axis, slices

    def forward(self, input):
        if not self.training or self.p == 0:
            return input
        slices, total = self.slices(input.shape[self.axis])
        xp = array_module(input.array)
        mask = mask_part(input.shape, self.axis, slices, total, self.p, xp)
        return dropout_with(input, mask, self.p)


def dropout_with(x, mask, p):
    """Apply dropout to `x`, with a given mask that is True for the elements to keep."""
    return Dropped.apply(x, mask, scale=1.0 / (1.0 - p) if p < 1 else 1.0)
