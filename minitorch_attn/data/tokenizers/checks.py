"""Checks of texts and token ids, shared by the character tokenizer and the word tokenizer."""

import numpy as np

from ...errors import DTypeError, IndexRangeError

__all__ = ["check_text", "checked_ids", "some_of"]


def check_text(text, caller, name="text"):
    """Raise an error if a text is not a str.

    Parameters
    ----------
    text : str
    caller, name : str
        Names of the function and of its argument, for the error message.
    """
    if not isinstance(text, str):
        raise DTypeError(f"{caller}: {name} must be a str", got=f"a {type(text).__name__}")


def checked_ids(ids, size, caller):
    """Return token ids as a list of int. Raise an error if an id is out of range.

    Parameters
    ----------
    ids : sequence or array of int
    size : int
        Size of the vocabulary.
    caller : str
        Caller to name in the error message, such as "CharTokenizer.decode(ids)".
    """
    try:
        ids = np.asarray(ids, dtype=np.int64).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(
            f"{caller}: ids must be integers", got=f"a {type(ids).__name__}; {error}"
        ) from None
    if ids.size and not (0 <= ids.min() and ids.max() < size):
        raise IndexRangeError(
            f"{caller}: an id is out of range",
            got=f"ids from {ids.min()} to {ids.max()}", expected=f"0 to {size - 1}",
            hint="decode with the tokenizer that encoded the text",
        )  # fmt: skip
    return ids.tolist()


def some_of(tokens, most=8):
    """Format the first few tokens of a set for an error message.

    Examples
    --------
    >>> some_of({"b", "a", "c"}, most=2)
    "'a', 'b', ..."
    """
    tokens = sorted(tokens)
    return ", ".join(map(repr, tokens[:most])) + (", ..." if len(tokens) > most else "")
