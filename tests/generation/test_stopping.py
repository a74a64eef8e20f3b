"""Stopping criteria: when sequences are finished."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import generation as g
from minitorch_attn.errors import ArgumentError


class Letters:
    """Token i is a piece of text."""

    def __init__(self, *pieces):
        self.pieces = pieces

    def decode(self, ids):
        return "".join(self.pieces[i] for i in ids)


def done(criterion, ids, device):
    return g.StoppingCriteriaList([criterion])(mt.tensor(ids, device=device)).numpy().tolist()


def test_ends_count_only_as_the_last_token(device):
    assert done(g.EosTokenCriteria([3, 5]), [[3, 1], [1, 3], [1, 5]], device) == [False, True, True]
    assert done(g.EosTokenCriteria(3), [[3]], device) == [True]


def test_length_and_time(device):
    assert done(g.MaxLengthCriteria(3), [[1, 2]], device) == [False]
    assert done(g.MaxLengthCriteria(2), [[1, 2], [3, 4]], device) == [True, True]
    assert done(g.MaxTimeCriteria(60.0), [[1]], device) == [False]
    assert done(g.MaxTimeCriteria(-1.0), [[1]], device) == [True]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([0, 1], False),  # "ab"
        ([0, 1, 2], True),  # "abc"
        ([0, 3], True),  # "abc" over the border of two tokens
        ([0, 4], True),  # "abcx": it ends within the last token
        ([0, 4, 5], False),  # "abcxz": it ended before
        ([0, 1, 2, 5], False),  # just before
        ([5, 5, 5, 0, 3], True),
        ([6], True),  # another string
    ],
)
def test_stop_strings(device, ids, expected):
    letters = Letters("a", "b", "c", "bc", "bcx", "z", "qq")
    assert done(g.StopStringCriteria(letters, ["abc", "qq"]), [ids], device) == [expected]


def test_a_list_is_finished_by_any(device):
    ids = mt.tensor([[1, 2], [1, 3]], device=device)
    criteria = g.StoppingCriteriaList(
        [g.EosTokenCriteria(3), lambda ids, scores: False, g.MaxLengthCriteria(9)]
    )
    np.testing.assert_array_equal(criteria(ids).numpy(), [False, True])
    assert criteria.max_length == 9 and criteria.first_end == 3 and not criteria.only_length
    length = g.StoppingCriteriaList([g.MaxLengthCriteria(9)])
    assert length.only_length and length.first_end is None
    np.testing.assert_array_equal(g.StoppingCriteriaList()(ids).numpy(), [False, False])


def test_wrong_settings():
    for strings in ("", [], ["a", ""]):
        with pytest.raises(ArgumentError, match="empty"):
            g.StopStringCriteria(Letters("a"), strings)
