"""Batch stream for the BERT recipe: masked text for pre-training, then labeled passages."""

from typing import NamedTuple

import numpy as np

from ...data.batch_stream import BatchStream
from ...data.examples import ShuffledBatches
from ...tensor import Tensor

__all__ = ["LabelledBatch", "MaskedBatch", "TwoLives", "hide_words"]

_MASKED, _RANDOM = 0.8, 0.1


class MaskedBatch(NamedTuple):
    """Batch of text with masked words.

    Parameters
    ----------
    ids : int64 Tensor of shape (batch, token)
        Input tokens.
    places : int64 Tensor of shape (batch, hidden)
        Positions of the masked words in each row.
    words : int64 Tensor of shape (batch, hidden)
        Original words at these positions.
    """

    ids: Tensor
    places: Tensor
    words: Tensor


class LabelledBatch(NamedTuple):
    """Batch of passages, int64 of shape (batch, token), and their labels, of shape (batch,)."""

    ids: Tensor
    labels: Tensor


def hide_words(ids, generator, share, mask_id, first_word, vocab_size):
    """Choose a fraction of the words in each row, and mask most of them.

    `mask_id` replaces 80 % of the chosen words, and random words replace 10 %. The other 10 % of
    the chosen words stay unchanged.

    Parameters
    ----------
    ids : int64 array of shape (batch, token)
    generator : numpy.random.Generator
    share : float
        Fraction of words to choose (0.15 in the paper).
    mask_id : int
    first_word : int
        Smallest id of a word. Smaller ids are special tokens, chosen only if no words are left.
    vocab_size : int

    Returns
    -------
    read : int64 array of shape (batch, token)
        Input tokens after the replacements.
    places, words : int64 array of shape (batch, hidden)
        Positions of the chosen words in each row, and the original words at these positions.

    References
    ----------
    .. [1] Devlin et al. 2018, arXiv:1810.04805v2, section 3.1, task 1.

    Examples
    --------
    >>> ids = np.arange(5, 105).reshape(5, 20)
    >>> read, places, words = hide_words(ids, np.random.default_rng(0), 0.15, 4, 5, 105)
    >>> words.shape, bool((np.take_along_axis(ids, places, 1) == words).all())
    ((5, 3), True)
    """
    count = max(round(share * ids.shape[1]), 1)
    order = generator.random(ids.shape) + (ids < first_word)
    places = np.sort(np.argsort(order, axis=1)[:, :count], axis=1)  # (batch, hidden)
    words = np.take_along_axis(ids, places, 1)
    fate = generator.random(places.shape)
    others = generator.integers(first_word, vocab_size, size=places.shape)
    shown = np.where(fate < _MASKED + _RANDOM, others, words)
    read = ids.copy()
    np.put_along_axis(read, places, np.where(fate < _MASKED, mask_id, shown), 1)
    return read, places, words


class TwoLives(BatchStream):
    """Stream of masked batches for pre-training, then of labeled batches for fine-tuning.

    Batch n depends only on (seed, n), so a checkpoint stores only one number.

    Parameters
    ----------
    masked : callable
        Function `masked(generator)` that returns a MaskedBatch.
    labelled : ShuffledBatches
    boundary : int
        Number of masked batches.
    seed : int

    Attributes
    ----------
    position : int
        Number of batches drawn so far.
    """

    def __init__(self, masked, labelled: ShuffledBatches, boundary, seed):
        super().__init__(labelled.batch_size, seed)
        self.masked, self.labelled, self.boundary = masked, labelled, boundary

    def __next__(self):
        position, self.position = self.position, self.position + 1
        if position < self.boundary:
            return self.masked(np.random.default_rng([self.seed, position]))
        return LabelledBatch(*next(self.labelled))

    def load_state_dict(self, state):
        """Continue at the position stored in a checkpoint's state."""
        super().load_state_dict(state)
        self.labelled.load_state_dict({"position": max(self.position - self.boundary, 0)})
