"""Batches of examples that are held in arrays."""

import numpy as np

from ..errors import ArgumentError
from ..tensor import tensor
from .stream import BatchStream

__all__ = ["ShuffledBatches", "in_batches"]


class ShuffledBatches(BatchStream):
    """An endless stream of batches: every example once, in random order, then again.

    The order of pass number n is a function of (seed, n) alone. So the stream can go on from any
    position: a checkpoint needs to keep one number. A pass drops the examples that do not fill a
    last batch; they are others each time.

    Parameters
    ----------
    arrays : sequence of array
        Of one length; each gives one Tensor of the batch.
    batch_size : int
    seed : int, default 0
    device : str or Device, optional
    dtype : dtype, optional
        Of the floating-point arrays.

    Attributes
    ----------
    position : int
        How many batches have been drawn.

    Examples
    --------
    >>> batches = ShuffledBatches([np.arange(6), np.arange(6) ** 2], batch_size=3)
    >>> x, y = next(batches)
    >>> bool((x * x == y).all()), sorted(x.tolist() + next(batches)[0].tolist())
    (True, [0, 1, 2, 3, 4, 5])
    """

    def __init__(self, arrays, batch_size, seed=0, device=None, dtype=None):
        self.arrays = [_as_dtype(np.asarray(array), dtype) for array in arrays]
        self.count = len(self.arrays[0])
        if not 1 <= batch_size <= self.count or any(len(a) != self.count for a in self.arrays):
            raise ArgumentError(
                "ShuffledBatches: the arrays have no such batches.",
                got=f"batch_size={batch_size} of {[len(a) for a in self.arrays]} examples",
                expected="arrays of one length, and a batch_size of at most that",
            )
        super().__init__(batch_size, seed, device)
        self._order = (None, None)  # number of a pass, its order

    def __next__(self):
        """One Tensor for each array, of shape (batch, ...)."""
        number, place = divmod(self.position, self.count // self.batch_size)
        if self._order[0] != number:
            generator = np.random.default_rng([self.seed, number])
            self._order = number, generator.permutation(self.count)
        chosen = self._order[1][place * self.batch_size : (place + 1) * self.batch_size]
        self.position += 1
        return tuple(tensor(array[chosen], device=self.device) for array in self.arrays)


def in_batches(arrays, batch_size, device=None, dtype=None):
    """The examples in order, once.

    Parameters
    ----------
    arrays, batch_size, device, dtype
        As for `ShuffledBatches`.

    Yields
    ------
    tuple of Tensor
        The last batch may be smaller.

    Examples
    --------
    >>> [x.tolist() for (x,) in in_batches([np.arange(5)], 2)]
    [[0, 1], [2, 3], [4]]
    """
    arrays = [_as_dtype(np.asarray(array), dtype) for array in arrays]
    for first in range(0, len(arrays[0]), batch_size):
        yield tuple(tensor(a[first : first + batch_size], device=device) for a in arrays)


def _as_dtype(array, dtype):
    return array if dtype is None or array.dtype.kind != "f" else array.astype(dtype)
