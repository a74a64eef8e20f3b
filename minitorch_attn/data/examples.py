"""Batches of examples in arrays, shuffled for training and in order for evaluation."""

import numpy as np

from ..errors import ArgumentError
from ..tensor import tensor
from .batch_stream import BatchStream

__all__ = ["ShuffledBatches", "in_batches"]


class ShuffledBatches(BatchStream):
    """Infinite stream of batches. Each epoch contains every example once, in random order.

    The order of epoch n depends only on (seed, n), so a checkpoint stores one number to resume the
    stream. An epoch drops the examples that do not fill a batch; these differ between epochs.

    Parameters
    ----------
    arrays : sequence of array
        Arrays of the same length. A batch contains one Tensor for each array.
    batch_size : int
    seed : int, default 0
    device : str or Device, optional
    dtype : dtype, optional
        Dtype of the floating-point arrays.

    Attributes
    ----------
    position : int
        Number of batches drawn so far.

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
                "ShuffledBatches: arrays must have the same length, at least batch_size",
                got=f"batch_size={batch_size}, arrays of {[len(a) for a in self.arrays]} examples",
            )
        super().__init__(batch_size, seed, device)
        self._order = (None, None)  # (number of an epoch, order of its examples)

    def __next__(self):
        """Return one Tensor for each array, of shape (batch, ...)."""
        number, place = divmod(self.position, self.count // self.batch_size)
        if self._order[0] != number:
            generator = np.random.default_rng([self.seed, number])
            self._order = number, generator.permutation(self.count)
        chosen = self._order[1][place * self.batch_size : (place + 1) * self.batch_size]
        self.position += 1
        return tuple(tensor(array[chosen], device=self.device) for array in self.arrays)


def in_batches(arrays, batch_size, device=None, dtype=None):
    """Yield each example once, in order.

    Parameters
    ----------
    arrays, batch_size, device, dtype
        As in `ShuffledBatches`.

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
