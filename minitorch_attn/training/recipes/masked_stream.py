"""The batches of BERT's two lives: masked text first, then labelled passages."""

from typing import NamedTuple

import numpy as np

from ...data.examples import ShuffledBatches
from ...errors import CheckpointError
from ...tensor import Tensor

__all__ = ["LabelledBatch", "MaskedBatch", "TwoLives", "hide_words"]

_MASKED, _RANDOM = 0.8, 0.1


class MaskedBatch(NamedTuple):
    """Text with hidden words.

    Parameters
    ----------
    ids : int64 Tensor of shape (batch, token)
        What is read.
    places : int64 Tensor of shape (batch, hidden)
        Where words are hidden in each row.
    words : int64 Tensor of shape (batch, hidden)
        The words that stood there.
    """

    ids: Tensor
    places: Tensor
    words: Tensor


class LabelledBatch(NamedTuple):
    """Passages, int64 of shape (batch, token), and labels, int64 of shape (batch,)."""

    ids: Tensor
    labels: Tensor


def hide_words(ids, generator, share, mask_id, first_word, vocab_size):
    """Hide a share of each row: of these 80 % become [MASK], 10 % another word, 10 % stay.

    Parameters
    ----------
    ids : int64 array of shape (batch, token)
    generator : numpy.random.Generator
    share : float
        The paper hides 0.15.
    mask_id : int
    first_word : int
        Smaller ids are special tokens: they are hidden last, and never stand for a word.
    vocab_size : int

    Returns
    -------
    read : int64 array of shape (batch, token)
    places, words : int64 array of shape (batch, hidden)

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


class TwoLives:
    """Masked batches up to a step, labelled batches from then on.

    Batch number n is a function of (seed, n) alone: a checkpoint needs to keep one number.

    Parameters
    ----------
    masked : callable
        `masked(generator)` -> MaskedBatch.
    labelled : ShuffledBatches
    boundary : int
        How many masked batches there are.
    seed : int

    Attributes
    ----------
    position : int
        How many batches have been drawn.
    """

    def __init__(self, masked, labelled: ShuffledBatches, boundary, seed):
        self.masked, self.labelled, self.boundary = masked, labelled, boundary
        self.seed = seed % 2**64
        self.position = 0

    def __iter__(self):
        return self

    def __next__(self):
        position, self.position = self.position, self.position + 1
        if position < self.boundary:
            return self.masked(np.random.default_rng([self.seed, position]))
        return LabelledBatch(*next(self.labelled))

    def state_dict(self):
        """What a checkpoint keeps."""
        return {"position": self.position}

    def load_state_dict(self, state):
        """Go on where the stream with this state stood."""
        position = state.get("position") if isinstance(state, dict) else None
        if type(position) is not int or position < 0:
            raise CheckpointError("TwoLives.load_state_dict: no position.", got=repr(state))
        self.position = position
        self.labelled.load_state_dict({"position": max(position - self.boundary, 0)})
