"""Batches of text windows: at random for training, in order for evaluation."""

import numpy as np

from ..errors import ArgumentError, DataError
from ..tensor import tensor
from .stream import BatchStream

__all__ = ["TextBatches", "windows"]


class TextBatches(BatchStream):
    """An endless stream of random windows of a text, each with the same window one token later.

    Batch number n is a function of (seed, n) alone. So the stream can go on from any position: a
    checkpoint needs to keep one number.

    Parameters
    ----------
    ids : array of int64 of shape (token,)
        The token ids of the text.
    batch_size, context_length : int
    seed : int, default 0
    device : str or Device, optional

    Attributes
    ----------
    position : int
        How many batches have been drawn.

    Examples
    --------
    >>> batches = TextBatches(np.arange(100), batch_size=2, context_length=3)
    >>> inputs, targets = next(batches)
    >>> inputs.shape, (targets - inputs).tolist()
    ((2, 3), [[1, 1, 1], [1, 1, 1]])
    >>> batches.state_dict()
    {'position': 1}
    """

    def __init__(self, ids, batch_size, context_length, seed=0, device=None):
        ids = np.asarray(ids)
        if batch_size < 1 or context_length < 1:
            raise ArgumentError(
                "TextBatches: batch_size and context_length count from 1.",
                got=f"batch_size {batch_size}, context_length {context_length}",
            )
        if len(ids) <= context_length:
            raise DataError(
                f"the text is too short for a context of {context_length} tokens.",
                got=f"{len(ids)} tokens",
                expected=f"at least {context_length + 1}",
            )
        self.ids = ids
        self.context_length = context_length
        super().__init__(batch_size, seed, device)

    def __next__(self):
        generator = np.random.default_rng([self.seed, self.position])
        starts = generator.integers(len(self.ids) - self.context_length, size=self.batch_size)
        self.position += 1
        return _pairs(self.ids, starts, self.context_length, self.device)


def windows(ids, batch_size, context_length, device=None, limit=None):
    """The windows of a text one after the other, without overlap, in batches.

    Parameters
    ----------
    ids : array of int64 of shape (token,)
    batch_size, context_length : int
    device : str or Device, optional
    limit : int, optional
        Stop after so many windows, evenly spread over the text.

    Yields
    ------
    inputs, targets : Tensor of shape (batch, token)
        The last batch may be smaller.

    Examples
    --------
    >>> [inputs.tolist() for inputs, _ in windows(np.arange(8), 2, 2)]
    [[[0, 1], [2, 3]], [[4, 5]]]
    """
    starts = np.arange(0, len(ids) - context_length, context_length)
    if limit is not None and limit < len(starts):
        starts = starts[np.linspace(0, len(starts) - 1, limit).astype(np.int64)]
    for first in range(0, len(starts), batch_size):
        yield _pairs(ids, starts[first : first + batch_size], context_length, device)


def _pairs(ids, starts, context_length, device):
    rows = ids[starts[:, None] + np.arange(context_length + 1)]  # (batch, token + 1)
    return tensor(rows[:, :-1], device=device), tensor(rows[:, 1:], device=device)
