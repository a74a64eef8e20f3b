"""Threads: results in order, errors after all threads have ended, equal shares of work."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_attn as mt
from minitorch_attn.backend.blas import blas_threads
from minitorch_attn.backend.gemm import dry_run
from minitorch_attn.backend.threads import shares, threads_for, together


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(1, 6))
def test_shares_cover_everything_once_and_in_order(sizes, parts):
    found = shares(sizes, parts)
    assert len(found) <= parts
    covered = [i for part in found for i in range(len(sizes))[part]]
    assert covered == list(range(len(sizes)))
    assert all(part.stop > part.start for part in found)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 6))
def test_no_share_is_larger_than_the_mean_by_more_than_a_piece(sizes, parts):
    for part in shares(sizes, parts):
        assert sum(sizes[part]) < sum(sizes) / parts + max(sizes)


def test_results_come_in_order_and_calls_run_at_once():
    meeting = threading.Barrier(3, timeout=20)

    def call(k):
        meeting.wait()
        return k, threading.get_ident()

    found = together([lambda k=k: call(k) for k in range(3)])
    assert [k for k, _ in found] == [0, 1, 2]
    assert found[0][1] == threading.get_ident()
    assert len({thread for _, thread in found}) == 3


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_is_raised_when_all_have_ended(bad):
    ended, before = [], blas_threads()

    def call(k):
        if k == bad:
            raise KeyError(k)
        ended.append(k)

    with pytest.raises(KeyError):
        together([lambda k=k: call(k) for k in range(2)])
    assert ended == [1 - bad]
    assert blas_threads() == before


def test_one_call_or_none_needs_no_thread():
    assert together([threading.get_ident]) == [threading.get_ident()]
    assert together([]) == []


def test_work_is_shared_once_only(monkeypatch):
    array = np.ones(3)
    monkeypatch.setattr("minitorch_attn.backend.threads.blas_threads", lambda: 4)
    assert threads_for(array) == 4
    monkeypatch.undo()
    if blas_threads() is not None:
        assert together([lambda: threads_for(array)] * 2) == [1, 1]
    with dry_run():
        assert threads_for(array) == 1
    assert threads_for(mt.ones(3, device="strict").array) == 1
