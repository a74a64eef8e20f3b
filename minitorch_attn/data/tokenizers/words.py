"""One token per word."""

import re
from collections import Counter

import numpy as np

from ...errors import ArgumentError, DataError
from .checks import checked_ids, some_of

__all__ = ["WordTokenizer"]

_WORD = re.compile(r"\w+|[^\w\s]")


class WordTokenizer:
    """One token per word or punctuation mark; what lies between them is not kept.

    Parameters
    ----------
    vocabulary : sequence of str
        The known words; the id of a word is its position. Special tokens are words too: they are
        found in a text where they stand between spaces.
    unknown : str, optional
        The word of the vocabulary that stands for all others. Without it, others are an error.

    Examples
    --------
    >>> tokenizer = WordTokenizer.from_text("the cat, the dog", special_tokens=["<pad>", "<unk>"],
    ...                                     unknown="<unk>")
    >>> tokenizer.vocabulary
    ['<pad>', '<unk>', 'the', ',', 'cat', 'dog']
    >>> tokenizer.encode("the bird, <pad>")
    array([2, 1, 3, 0])
    >>> tokenizer.decode([2, 4, 3])
    'the cat ,'
    """

    def __init__(self, vocabulary, unknown=None):
        self.vocabulary = list(vocabulary)
        self._ids = {word: number for number, word in enumerate(self.vocabulary)}
        if len(self._ids) != len(self.vocabulary) or not self.vocabulary:
            raise ArgumentError(
                "WordTokenizer(vocabulary): every word must occur once.",
                got=f"{len(self.vocabulary)} words, {len(self._ids)} of them different",
            )
        if unknown is not None and unknown not in self._ids:
            raise ArgumentError(
                "WordTokenizer(unknown): it must be a word of the vocabulary.", got=repr(unknown)
            )
        self.unknown = unknown

    @classmethod
    def from_text(cls, text, *, max_words=None, min_count=1, special_tokens=(), unknown=None):
        """The tokenizer that knows the words of a text, the frequent ones first.

        Parameters
        ----------
        text : str
        max_words : int, optional
            Keep so many, besides the special tokens. Equally frequent words are taken in
            alphabetical order.
        min_count : int, default 1
            Leave out rarer words.
        special_tokens : sequence of str, optional
            The first words of the vocabulary.
        unknown : str, optional
            Which of the special tokens stands for words that are not known.

        Returns
        -------
        WordTokenizer
        """
        special_tokens = list(special_tokens)
        counts = Counter(_words(text, set(special_tokens)))
        for word in special_tokens:
            counts.pop(word, None)
        known = [word for word, count in counts.items() if count >= min_count]
        known.sort(key=lambda word: (-counts[word], word))
        return cls(special_tokens + known[:max_words], unknown)

    def __len__(self):
        return len(self.vocabulary)

    def encode(self, text):
        """Token ids of a text.

        Parameters
        ----------
        text : str

        Returns
        -------
        numpy array of int64 of shape (token,)

        Raises
        ------
        DataError
            If a word is not in the vocabulary and no word stands for the unknown ones.
        """
        words = _words(text, self._ids)
        default = self._ids.get(self.unknown, -1)
        ids = np.array([self._ids.get(word, default) for word in words], dtype=np.int64)
        if (ids < 0).any():
            strange = set(words) - self._ids.keys()
            raise DataError(
                "the text has words that are not in the vocabulary.",
                got=some_of(strange),
                hint="name a word that stands for them: WordTokenizer(..., unknown=...)",
            )
        return ids

    def decode(self, ids):
        """The words of token ids, with single spaces between them.

        Parameters
        ----------
        ids : sequence or array of int

        Returns
        -------
        str
        """
        ids = checked_ids(ids, len(self), "WordTokenizer.decode(ids)")
        return " ".join(map(self.vocabulary.__getitem__, ids))


def _words(text, whole):
    """Cut at spaces, then between words and punctuation, but leave the words in `whole` whole."""
    words = []
    for part in text.split():
        words.extend([part] if part in whole else _WORD.findall(part))
    return words
