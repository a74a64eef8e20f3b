"""Judging whether arrays are correct."""

import numpy as np
import pytest
from grader.grade.conftest import forward_driver

from minitorch_attn.grader.grade.judge import Check, judge

TRUTH = np.random.default_rng(0).normal(size=(3, 5))


def verdict(found, truth=TRUTH, **options):
    check = Check("y", forward_driver, {}, {"y": truth}, **options)
    return judge(check, {} if found is None else {"y": found})


def test_what_is_equal_to_round_off_passes():
    assert verdict(TRUTH.copy()).passed
    assert verdict(TRUTH * (1 + 1e-12)).passed
    assert verdict(np.asfortranarray(TRUTH)).passed


@pytest.mark.parametrize(
    "found",
    [
        None, TRUTH.tolist(), TRUTH[:2], TRUTH.T, TRUTH[None], TRUTH.astype(np.float32),
        TRUTH.astype(complex), TRUTH * np.nan, TRUTH + 1e-4, TRUTH.view(np.recarray),
        np.ma.masked_array(TRUTH), TRUTH * 0,
    ],
)  # fmt: skip
def test_everything_else_fails_and_says_why(found):
    result = verdict(found)
    assert not result.passed and "y" in result.message


def test_the_largest_error_is_shown():
    wrong = TRUTH.copy()
    wrong[2, 1] += 7
    wrong[0, 0] += 1
    result = verdict(wrong)
    assert result.first_difference["index"] == [2, 1]
    assert "2 of 15 entries are wrong" in result.message


def test_errors_are_measured_by_the_largest_entry():
    truth = np.array([1000.0, 0.0])
    assert verdict(np.array([1000.0, 1e-5]), truth).passed  # round-off of numbers of size 1000
    assert not verdict(np.array([1000.0, 1e-2]), truth).passed
    assert not verdict(np.array([0.0, 1e-300]), np.zeros(2)).passed


def test_infinities_are_entries_like_others():
    truth = np.array([np.inf, -np.inf, np.nan, 1.0])
    assert verdict(truth.copy(), truth).passed
    assert not verdict(-truth, truth).passed
    assert not verdict(np.array([np.inf, -np.inf, 0.0, 1.0]), truth).passed
    assert not verdict(np.array([np.nan, -np.inf, np.nan, 1.0]), truth).passed


def test_integers_and_booleans_are_exact():
    truth = np.array([10**15, 3])
    assert verdict(truth.copy(), truth).passed
    assert not verdict(truth + [1, 0], truth).passed
    assert not verdict(np.array([True, False]), np.array([True, True])).passed


def test_the_driver_travels_as_text_under_the_name_run():
    namespace = {}
    exec(Check("y", forward_driver, {}, {}).source, namespace)
    assert callable(namespace["run"])
