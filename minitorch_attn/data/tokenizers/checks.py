"""What tokenizers with a plain list of tokens check alike."""

import numpy as np

from ...errors import IndexRangeError

__all__ = ["checked_ids", "some_of"]


def checked_ids(ids, size, caller):
    """Token ids as a list of int, all of them inside the vocabulary.

    Parameters
    ----------
    ids : sequence or array of int
    size : int
        Of the vocabulary.
    caller : str
        For the message, as in "CharTokenizer.decode(ids)".
    """
    ids = np.asarray(ids, dtype=np.int64).reshape(-1)
    if ids.size and not (0 <= ids.min() and ids.max() < size):
        raise IndexRangeError(
            f"{caller}: an id is outside the vocabulary.",
            got=f"ids from {ids.min()} to {ids.max()}",
            expected=f"0 to {size - 1}",
        )
    return ids.tolist()


def some_of(tokens, most=8):
    """The first few tokens of a set, for a message.

    Examples
    --------
    >>> some_of({"b", "a", "c"}, most=2)
    "'a', 'b', ..."
    """
    tokens = sorted(tokens)
    return ", ".join(map(repr, tokens[:most])) + (", ..." if len(tokens) > most else "")
