"""Batches of examples in arrays, shuffled for training and in order for evaluation."""

import numpy as np

from ..backend import as_dtype
from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..ops import as_tensor
from ..utils.data import DataLoader, EpochSampler, TensorDataset
from .batch_stream import BatchStream

__all__ = ["ShuffledBatches", "in_batches"]


class ShuffledBatches(BatchStream):
    """Infinite stream of batches. Each epoch takes the examples in a new random order.

    The order of epoch n depends only on (seed, n), so a checkpoint stores only the position in the
    stream. The last examples of an epoch are dropped if they are too few for a complete batch.

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
        examples = _examples(arrays, dtype)
        if not 1 <= batch_size <= len(examples):
            raise ArgumentError(
                "ShuffledBatches: batch_size must be between 1 and the number of examples",
                got=f"batch_size={batch_size}, {len(examples)} examples",
            )
        super().__init__(batch_size, seed, device)
        self.order = EpochSampler(examples, seed)
        self.loader = DataLoader(examples, batch_size, sampler=self.order, drop_last=True)
        self._next, self._batches = None, None  # next position, rest of the epoch

    def __next__(self):
        """Return one Tensor of shape (batch, ...) for each array."""
        number, place = divmod(self.position, len(self.loader))
        if place == 0 or self._next != self.position:
            self.order.set_epoch(number, start=place * self.batch_size)
            self._batches = iter(self.loader)
        batch = next(self._batches)
        self.position = self._next = self.position + 1
        return _on(self.device, batch)


@names_arguments
def in_batches(arrays, batch_size, device=None, dtype=None):
    """Yield batches that contain each example once, in order.

    Parameters
    ----------
    arrays, batch_size, device, dtype
        See `ShuffledBatches`.

    Yields
    ------
    tuple of Tensor
        The last batch may be smaller.

    Examples
    --------
    >>> [x.tolist() for (x,) in in_batches([np.arange(5)], 2)]
    [[0, 1], [2, 3], [4]]
    """
    for batch in DataLoader(_examples(arrays, dtype), batch_size):
        yield _on(device, batch)


def _examples(arrays, dtype):
    """Return the arrays as one data set. Convert floating-point arrays to `dtype`."""
    arrays = [np.asarray(array) for array in arrays]
    return TensorDataset(
        *[
            as_tensor(a.astype(as_dtype(dtype or a.dtype)) if a.dtype.kind == "f" else a)
            for a in arrays
        ]
    )


def _on(device, batch):
    return tuple(batch) if device is None else tuple([entry.to(device) for entry in batch])
