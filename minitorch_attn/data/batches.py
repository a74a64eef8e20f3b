"""Batches of text windows, in random order for training and in text order for evaluation."""

import numpy as np

from ..errors import ArgumentError, DataError
from ..named_errors import names_arguments
from ..nn.checks import check_sizes
from ..tensor import tensor
from .batch_stream import BatchStream

__all__ = ["TextBatches", "windows"]


class TextBatches(BatchStream):
    """Infinite stream of random text windows. The targets are the windows, shifted by one token.

    Batch n depends only on (seed, n), so a checkpoint stores only n.

    Parameters
    ----------
    ids : array of int64 of shape (token,)
        Token ids of the text.
    batch_size, context_length : int
    seed : int, default 0
    device : str or Device, optional

    Attributes
    ----------
    position : int
        Number of batches drawn so far.

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
        check_sizes("TextBatches", batch_size=batch_size, context_length=context_length)
        if batch_size < 1 or context_length < 1:
            raise ArgumentError(
                "TextBatches: batch_size and context_length must be at least 1",
                got=f"batch_size {batch_size}, context_length {context_length}",
            )
        if len(ids) <= context_length:
            raise DataError(
                f"the text is too short for a context of {context_length} tokens",
                got=f"{len(ids)} tokens", expected=f"at least {context_length + 1}",
                hint="use a longer text or a smaller context_length",
            )  # fmt: skip
        self.ids = ids
        self.context_length = context_length
        super().__init__(batch_size, seed, device)

    def __next__(self):
        generator = np.random.default_rng([self.seed, self.position])
        starts = generator.integers(len(self.ids) - self.context_length, size=self.batch_size)
        self.position += 1
        return _pairs(self.ids, starts, self.context_length, self.device)


@names_arguments
def windows(ids, batch_size, context_length, device=None, limit=None):
    """Yield batches of inputs and targets that cover a text in order, without overlap.

    Parameters
    ----------
    ids : array of int64 of shape (token,)
    batch_size, context_length : int
    device : str or Device, optional
    limit : int, optional
        Maximum number of windows. If there are more, evenly spaced windows are chosen.

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
