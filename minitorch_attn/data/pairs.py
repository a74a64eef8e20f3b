"""Pairs of short texts (source and target) as padded batches of character ids."""

import numpy as np

from ..tensor import tensor
from .batch_stream import BatchStream
from .tokenizers import CharTokenizer

__all__ = ["GeneratedBatches", "PairTokenizer"]


class PairTokenizer:
    """Tokenizer with one token per character, and with padding, start and end tokens.

    Parameters
    ----------
    vocabulary : str
        Known characters.

    Attributes
    ----------
    PAD, START, END : int
        The ids 0, 1 and 2.

    Examples
    --------
    >>> tokenizer = PairTokenizer("abc")
    >>> tokenizer.encode(["cab", "b"])
    array([[5, 3, 4, 2],
           [4, 2, 0, 0]])
    >>> tokenizer.decode([5, 3, 4, 2, 2])
    'cab'
    """

    PAD, START, END = 0, 1, 2

    def __init__(self, vocabulary):
        self.characters = CharTokenizer(vocabulary)
        self.vocabulary = vocabulary

    def __len__(self):
        return 3 + len(self.characters)

    def encode(self, texts):
        """Encode texts. END follows the ids of each text, and PAD fills the shorter rows.

        Parameters
        ----------
        texts : sequence of str

        Returns
        -------
        int64 array of shape (text, token)
        """
        ids = np.full((len(texts), 1 + max(map(len, texts))), self.PAD, dtype=np.int64)
        for row, text in zip(ids, texts, strict=True):
            row[: len(text)] = 3 + self.characters.encode(text)
            row[len(text)] = self.END
        return ids

    def decode(self, ids):
        """Decode one row of ids up to the first END.

        Parameters
        ----------
        ids : sequence or array of int

        Returns
        -------
        str
            Text. PAD and START, which an untrained model may generate, become "_".
        """
        ids = np.asarray(ids, dtype=np.int64).reshape(-1)
        ends = np.flatnonzero(ids == self.END)
        ids = ids[: ends[0]] if len(ends) else ids
        return "".join("_" if i < 3 else self.characters.decode([i - 3]) for i in ids)


class GeneratedBatches(BatchStream):
    """Infinite stream of batches of pairs that are generated on demand.

    Batch n depends only on (seed, n), so a checkpoint stores only n.

    Parameters
    ----------
    make_pair : callable
        Function `make_pair(generator)` that returns two strings, (source, target).
    tokenizer : PairTokenizer
    batch_size : int
    seed : int, default 0
    device : str or Device, optional

    Attributes
    ----------
    position : int
        Number of batches drawn so far.

    Examples
    --------
    >>> def doubled(generator):
    ...     letter = "ab"[generator.integers(2)]
    ...     return letter, 2 * letter
    >>> batches = GeneratedBatches(doubled, PairTokenizer("ab"), batch_size=5)
    >>> source, target = next(batches)
    >>> source.shape, target.shape, batches.state_dict()
    ((5, 2), (5, 3), {'position': 1})
    """

    def __init__(self, make_pair, tokenizer, batch_size, seed=0, device=None):
        self.make_pair = make_pair
        self.tokenizer = tokenizer
        super().__init__(batch_size, seed, device)

    def __next__(self):
        """Return the next batch: `source` and `target`, int64 Tensors of shape (batch, token)."""
        generator = np.random.default_rng([self.seed, self.position])
        pairs = [self.make_pair(generator) for _ in range(self.batch_size)]
        self.position += 1
        return tuple(
            tensor(self.tokenizer.encode(texts), device=self.device)
            for texts in zip(*pairs, strict=True)
        )
