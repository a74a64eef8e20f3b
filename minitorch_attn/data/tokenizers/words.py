"""Word tokenizer: one token for each word or punctuation mark."""

import re
from collections import Counter

import numpy as np

from ...errors import ArgumentError, DataError
from ...named_errors import NamedErrors, names_arguments
from .checks import check_text, checked_ids, some_of

__all__ = ["WordTokenizer"]

_WORD = re.compile(r"\w+|[^\w\s]")


class WordTokenizer(NamedErrors):
    """Tokenizer with one token for each word or punctuation mark. Whitespace is not kept.

    Parameters
    ----------
    vocabulary : sequence of str
        Known words. The id of a word is its position. Special tokens are also words. They
        are recognized in a text if spaces separate them from other words.
    unknown : str, optional
        Word in the vocabulary that replaces unknown words. By default, they raise an error.

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
                "WordTokenizer: vocabulary must not be empty or contain duplicates",
                got=f"{len(self.vocabulary)} words, {len(self._ids)} of them distinct",
                hint="remove duplicates with list(dict.fromkeys(words))",
            )
        if unknown is not None and unknown not in self._ids:
            raise ArgumentError(
                "WordTokenizer: unknown must be a word of the vocabulary",
                got=repr(unknown), hint=f"add it to the vocabulary: [{unknown!r}, ...]",
            )  # fmt: skip
        self.unknown = unknown

    @classmethod
    @names_arguments
    def from_text(cls, text, *, max_words=None, min_count=1, special_tokens=(), unknown=None):
        """Create a tokenizer for the words in a text, sorted by decreasing frequency.

        Parameters
        ----------
        text : str
        max_words : int, optional
            Maximum number of words, excluding special tokens. Words with the same frequency are
            taken in alphabetical order.
        min_count : int, default 1
            Minimum number of occurrences of a word.
        special_tokens : sequence of str, optional
            Special tokens, which become the first words of the vocabulary.
        unknown : str, optional
            Special token that replaces unknown words.

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
        """Return the token ids of a text.

        Parameters
        ----------
        text : str

        Returns
        -------
        numpy array of int64 of shape (token,)

        Raises
        ------
        DataError
            If a word is not in the vocabulary and `unknown` is not set.
        """
        words = _words(text, self._ids)
        default = self._ids.get(self.unknown, -1)
        ids = np.array([self._ids.get(word, default) for word in words], dtype=np.int64)
        if (ids < 0).any():
            strange = set(words) - self._ids.keys()
            raise DataError(
                "WordTokenizer.encode: the text has words that are not in the vocabulary",
                got=some_of(strange),
                hint="pass a word that replaces them: WordTokenizer(..., unknown=...)",
            )
        return ids

    def decode(self, ids):
        """Return the words that token ids stand for, separated by single spaces.

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
    """Split at whitespace, then split parts that are not in `whole` into words and punctuation."""
    check_text(text, "WordTokenizer")
    words = []
    for part in text.split():
        words.extend([part] if part in whole else _WORD.findall(part))
    return words
