"""Shared memory: arrays that a process and its forked children all read and write.

`os.fork` copies a process with all its arrays. From then on, each of the two processes sees only
its own changes. Memory that is mapped as shared is the exception: both processes see every change.
"""

import math
import mmap
from itertools import accumulate

import numpy as np

__all__ = ["is_shared", "shared_arrays"]

_ALIGNMENT = 64  # bytes; every array starts on a cache line of its own


def shared_arrays(forms):
    """Create arrays of zeros in shared memory, which is freed once all of the arrays are deleted.

    Parameters
    ----------
    forms : list of (tuple of int, dtype)
        Shape and dtype of each array.

    Returns
    -------
    list of ndarray

    Examples
    --------
    >>> counts, flags = shared_arrays([((2, 3), "int64"), ((0,), "bool")])
    >>> counts.shape, flags.dtype, is_shared(counts[1:]), is_shared(counts.copy())
    ((2, 3), dtype('bool'), True, False)
    """
    sizes = [math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in forms]
    aligned = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
    *starts, total = accumulate(aligned, initial=0)
    memory = np.frombuffer(mmap.mmap(-1, max(total, 1)), dtype="uint8")
    return [
        memory[start : start + size].view(dtype).reshape(shape)
        for start, size, (shape, dtype) in zip(starts, sizes, forms, strict=True)
    ]


def is_shared(array):
    """Return True if an array is a view of memory that `shared_arrays` has created."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, memoryview) and isinstance(array.obj, mmap.mmap)
