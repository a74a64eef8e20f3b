"""Minutes that a lesson or a step takes, estimated from the amount of text and code."""

__all__ = ["minutes"]

WORDS = 150  # words of technical text with formulas that a learner reads in a minute
CODE_LINES = 20  # lines of code, with their results, that a learner reads in a minute
TYPED_LINES = 1.5  # lines that a learner writes in a minute, if one check fails


def minutes(words, code_lines=0, typed_lines=0, other=0.0):
    """Estimate how many minutes a lesson or step takes, rounded to a multiple of five.

    Parameters
    ----------
    words, code_lines : int
        Number of words of text and number of lines of code to read.
    typed_lines : int
        Number of lines to write.
    other : float
        Further minutes, for example to wait for results.

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
