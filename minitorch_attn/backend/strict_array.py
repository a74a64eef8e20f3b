"""The array of the strict device: a NumPy array that refuses what a CuPy array would.

It is not an ndarray and hides the protocols through which NumPy would look inside, so a stray
`np.` call, a mixture with host arrays or a hidden copy fails on any machine, not only on a GPU.
It offers the methods of `cupy.ndarray`, with CuPy's keywords.
"""

from collections import namedtuple

import numpy as np
from numpy import ndarray

__all__ = ["StrictArray", "refuse_host_value", "scatter_positions", "shuffled", "wrap"]

_NUMBERS = frozenset({int, float, bool, complex})
_BASIC_INDEX = frozenset({int, slice, type(None), type(Ellipsis)})
_shuffle = np.random.Generator(np.random.PCG64(0)) if False else None

Flags = namedtuple("Flags", "c_contiguous f_contiguous owndata")


def wrap(cls, raw):
    """Make an array of the strict device from NumPy's result; scalars become 0-d arrays."""
    array = object.__new__(cls)
    array._raw = raw if type(raw) is ndarray else np.asarray(raw)
    return array
