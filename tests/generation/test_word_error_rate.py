"""Edit distance and word error rate, compared with the definition and with known pairs."""

from functools import cache

import numpy as np
import pytest

from minitorch_attn.errors import ArgumentError
from minitorch_attn.generation.word_error_rate import edit_distance, word_error_rate


def by_recursion(found, expected):
    """The fewest operations, tried at every place from the end."""

    @cache
    def distance(i, j):
        if i == 0 or j == 0:
            return i + j
        kept = distance(i - 1, j - 1) + (expected[i - 1] != found[j - 1])
        return min(kept, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(expected), len(found))


@pytest.mark.parametrize(
    "found, expected, distance",
    [
        ("", "", 0), ("", "abc", 3), ("ab", "", 2), ("a", "b", 1), ("aa", "a", 1),
        ("kitten", "sitting", 3), ("saturday", "sunday", 3), ("flaw", "lawn", 2),
        ("abcdef", "bcdefa", 2), ("intention", "execution", 5),
    ],
)  # fmt: skip
def test_known_distances(found, expected, distance):
    assert edit_distance(found, expected) == distance
    assert edit_distance(expected, found) == distance


def test_distances_of_drawn_sequences(rng):
    for _ in range(200):
        lengths = rng.integers(0, 8, 2)
        found, expected = [tuple(rng.integers(0, 3, length).tolist()) for length in lengths]
        assert edit_distance(found, expected) == by_recursion(found, expected)


def test_entries_of_any_kind():
    assert edit_distance(["one", "two"], ("one", "nine", "two")) == 1
    assert edit_distance(np.array([3, 5]), [3, 5]) == 0
    assert edit_distance(["a", 1, None], ["a", None]) == 1


def test_rate_weights_transcripts_by_their_words():
    """One error in one word and none in four are a fifth, not a half."""
    assert word_error_rate([[7], [1, 2, 3, 4]], [[5], [1, 2, 3, 4]]) == pytest.approx(1 / 5)
    assert word_error_rate([[], [1]], [[2, 3], [1]]) == pytest.approx(2 / 3)
    assert word_error_rate([[1, 1, 1, 1], []], [[1], []]) == 3.0
    assert word_error_rate([[4, 2]], [[4, 2]]) == 0.0


def test_arguments():
    with pytest.raises(ArgumentError, match="2 found and 1 expected transcripts, 1 expected words"):
        word_error_rate([[1], [2]], [[1]])
    for empty in ([], [[]]):
        with pytest.raises(ArgumentError, match="at least one word"):
            word_error_rate(empty, empty)
