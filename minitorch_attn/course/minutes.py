"""Minutes that a lesson or a step takes, estimated from the amount of text and code."""

__all__ = ["minutes"]

WORDS = 150  # read in a minute: technical text with formulas
CODE_LINES = 20  # read in a minute, with their results
TYPED_LINES = 1.5  # written in a minute, with one failed check in between


def minutes(words, code_lines=0, typed_lines=0, other=0.0):
    """Estimate a time in minutes, rounded to five.

    Parameters
    ----------
    words, code_lines : int
        Text and code to read.
    typed_lines : int
        Lines to write.
    other : float
        Further minutes, such as waiting for results.

    Returns
    -------
    int

    Examples
    --------
    >>> minutes(words=900, code_lines=150, other=4)
    20
    """
    total = words / WORDS + code_lines / CODE_LINES + typed_lines / TYPED_LINES + other
    return max(5, 5 * round(total / 5))
