"""Character tokenizer: one token for each character."""

import numpy as np

from ...errors import ArgumentError, DataError
from ...named_errors import NamedErrors
from .checks import check_text, checked_ids, some_of

__all__ = ["CharTokenizer"]


class CharTokenizer(NamedErrors):
    """Tokenizer with one token per character.

    Parameters
    ----------
    vocabulary : str
        Known characters. The id of a character is its position.

    Examples
    --------
    >>> tokenizer = CharTokenizer.from_text("hello")
    >>> tokenizer.vocabulary
    'ehlo'
    >>> tokenizer.encode("hole")
    array([1, 3, 2, 0])
    >>> tokenizer.decode([1, 3, 2, 0])
    'hole'
    """

    def __init__(self, vocabulary):
        check_text(vocabulary, "CharTokenizer", "vocabulary")
        if len(set(vocabulary)) != len(vocabulary) or not vocabulary:
            raise ArgumentError(
                "CharTokenizer: vocabulary must not be empty or contain duplicates",
                got=f"{len(vocabulary)} characters, {len(set(vocabulary))} of them distinct",
                hint="collect the characters of a text with CharTokenizer.from_text(text)",
            )
        self.vocabulary = vocabulary
        self._codes = _code_points(vocabulary)
        self._order = np.argsort(self._codes)
        self._sorted = self._codes[self._order]

    @classmethod
    def from_text(cls, text):
        """Create a tokenizer for the characters in `text`, in sorted order."""
        check_text(text, "CharTokenizer.from_text")
        return cls("".join(sorted(set(text))))

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
            If a character is not in the vocabulary.
        """
        codes = _code_points(text)
        places = np.searchsorted(self._sorted, codes).clip(max=len(self) - 1)
        unknown = self._sorted[places] != codes
        if unknown.any():
            strange = {chr(code) for code in codes[unknown]}
            raise DataError(
                "CharTokenizer.encode: the text has characters that are not in the vocabulary",
                got=some_of(strange),
                expected=f"the {len(self)} characters of the text that the model was trained on",
                hint="remove these characters, or train on a text that contains them",
            )
        return self._order[places]

    def decode(self, ids):
        """Return the text that token ids stand for.

        Parameters
        ----------
        ids : sequence or array of int

        Returns
        -------
        str
        """
        ids = checked_ids(ids, len(self), "CharTokenizer.decode(ids)")
        return "".join(map(self.vocabulary.__getitem__, ids))


def _code_points(text):
    """Return an array with the characters' Unicode code points."""
    check_text(text, "CharTokenizer")
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
