"""Word error rate and edit distance (Levenshtein distance) of transcripts."""

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments

__all__ = ["edit_distance", "word_error_rate"]


@names_arguments
def edit_distance(found, expected):
    """Return the minimum number of substitutions, insertions and deletions between two sequences.

    Parameters
    ----------
    found, expected : sequence
        Strings, which are compared by character, or sequences of words or ids.

    Returns
    -------
    int

    Notes
    -----
    Let d(i, j) be the distance between the first i entries of `expected` and the first j entries of
    `found`. Either the two last entries are aligned, or one of them is deleted or inserted:

        d(i, j) = min(d(i-1, j-1) + [the entries differ], d(i-1, j) + 1, d(i, j-1) + 1)

    with d(i, 0) = i and d(0, j) = j [1]_. NumPy computes each row in one step: if t(j) is the
    minimum of the first two terms, d(i, j) is the minimum of t(k) + (j - k) over k <= j.

    References
    ----------
    .. [1] Wagner and Fischer 1974, "The String-to-String Correction Problem", Journal of the ACM
       21(1), section 3.

    Examples
    --------
    >>> edit_distance("sitting", "kitten")
    3
    >>> edit_distance(["one", "two"], ["one", "nine", "two"])
    1
    """
    found, expected = list(found), list(expected)
    columns = np.arange(len(found) + 1)
    row = columns  # d(0, j)
    for i, entry in enumerate(expected, 1):
        differs = np.array([entry != other for other in found], dtype=np.int64)
        best = np.concatenate([[i], np.minimum(row[:-1] + differs, row[1:] + 1)])
        row = np.minimum.accumulate(best - columns) + columns
    return int(row[-1])


@names_arguments
def word_error_rate(found, expected):
    """Word error rate: the sum of all edit distances, divided by the number of expected words.

    Parameters
    ----------
    found, expected : list of sequence
        Transcripts as sequences of words or ids.

    Returns
    -------
    float
        0 if all transcripts are correct. Insertions can raise it above 1.

    Raises
    ------
    ArgumentError
        If `found` and `expected` have different lengths, or there are no expected words.

    Examples
    --------
    One of five words is wrong, and there is one extra word:

    >>> word_error_rate([[4, 7, 7], [1, 5, 6]], [[4, 7], [1, 5, 8]])
    0.4
    """
    words = sum(len(transcript) for transcript in expected)
    if len(found) != len(expected) or not words:
        raise ArgumentError(
            "word_error_rate: found and expected must have the same length, with at least one word",
            got=f"{len(found)} found and {len(expected)} expected transcripts, "
            f"{words} expected words",
        )
    return sum(map(edit_distance, found, expected)) / words
