"""The batches of BERT's two lives: masked text first, then labelled passages."""

from typing import NamedTuple

import numpy as np

from ...data.examples import ShuffledBatches
from ...errors import CheckpointError
from ...tensor import Tensor

__all__ = ["LabelledBatch", "MaskedBatch", "TwoLives", "hide_words", "sentence_pairs"]

_MASKED, _RANDOM = 0.8, 0.1


class MaskedBatch(NamedTuple):
    """Pairs of text with hidden words.

    Parameters
    ----------
    ids : int64 Tensor of shape (batch, token)
        What is read.
    places : int64 Tensor of shape (batch, hidden)
        Where words are hidden in each row.
    words : int64 Tensor of shape (batch, hidden)
        The words that stood there.
    segments : int64 Tensor of shape (batch, token)
        0 in text A, 1 in text B.
    strangers : int64 Tensor of shape (batch,)
        0 where B follows A, 1 where it comes from elsewhere.
    """

    ids: Tensor
    places: Tensor
    words: Tensor
    segments: Tensor
    strangers: Tensor


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


def sentence_pairs(passages, generator, cls_id, sep_id):
    """[CLS] first half [SEP] second half [SEP]; half of the second halves are exchanged.

    Parameters
    ----------
    passages : int64 array of shape (batch, word)
    generator : numpy.random.Generator
    cls_id, sep_id : int

    Returns
    -------
    ids, segments : int64 array of shape (batch, word + 3)
    strangers : int64 array of shape (batch,)

    References
    ----------
    .. [1] Devlin et al. 2018, arXiv:1810.04805v2, section 3.1, task 2.
    """
    batch, length = passages.shape
    half = length // 2
    strangers = (generator.random(batch) < 0.5).astype(np.int64)
    elsewhere = np.roll(np.arange(batch), 1 + generator.integers(max(batch - 1, 1)))
    from_row = np.where(strangers == 1, elsewhere, np.arange(batch))
    column = np.ones((batch, 1), dtype=np.int64)
    cls, sep = cls_id * column, sep_id * column
    parts = [cls, passages[:, :half], sep, passages[from_row, half:], sep]
    ids = np.concatenate(parts, axis=1)
    segments = np.broadcast_to(np.arange(length + 3) >= half + 2, ids.shape).astype(np.int64)
    return ids, segments, strangers * (from_row != np.arange(batch))


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
