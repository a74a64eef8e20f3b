"""What a step reports for a CUDA graph, without a GPU: numbers, actions of the host, refusals."""

import threading

import numpy as np
import pytest

from minitorch_attn.backend import graph_capture
from minitorch_attn.backend.graph_capture import LENGTH, Capture, Rehearsal, recorded_by
from minitorch_attn.errors import DeviceError


@pytest.fixture
def capture():
    return Capture(np.zeros(LENGTH), seed=2**64 - 3, first=5)


def test_nothing_is_recorded_outside():
    graph_capture.refuse("waits")
    graph_capture.on_replay(pytest.fail, undo=pytest.fail)
    graph_capture.guard(pytest.fail)
    assert graph_capture.live_numbers(pytest.fail) is graph_capture.live_random() is None
    assert not graph_capture.is_recording()


def test_numbers_are_computed_again_for_each_replay_after_earlier_actions(capture):
    count = [1]

    def step(change):
        count[0] += change

    with recorded_by(capture):
        assert graph_capture.is_recording()
        before = graph_capture.live_numbers(lambda: [count[0] + 0.5])
        graph_capture.on_replay(lambda: step(1), undo=lambda: step(-1))
        step(1)
        after = graph_capture.live_numbers(lambda: [count[0], -count[0]], "int64")
    places = [before, after]
    for place in places:  # on the board, where the kernels read
        assert np.shares_memory(place, capture.board)
    capture.board[:] = capture.values
    assert before.tolist() == [1.5] and after.tolist() == [2, -2]
    capture.advance()
    capture.board[:] = capture.values
    assert before.tolist() == [2.5] and after.tolist() == [3, -3]
    capture.undo()
    assert count == [2]


def test_seed_and_first_counter_are_words_of_64_bits(capture):
    with recorded_by(capture):
        first, place = graph_capture.live_random()
    capture.board[:] = capture.values
    assert first == 5 and place.tolist() == [2**64 - 3, 5]
    capture.set_random(7, 2**63 + 1)
    capture.board[:] = capture.values
    assert place.tolist() == [7, 2**63 + 1]


def test_actions_are_undone_from_the_latest_to_the_first(capture):
    order = []
    with recorded_by(capture):
        for i in range(3):
            graph_capture.on_replay(order.clear, undo=lambda i=i: order.append(i))
    capture.undo()
    assert order == [2, 1, 0]


def test_a_capture_is_valid_while_all_guards_hold(capture):
    holds = [True, True]
    with recorded_by(capture):
        for i in range(2):
            graph_capture.guard(lambda i=i: holds[i])
    assert capture.is_valid()
    holds[1] = False
    assert not capture.is_valid()


def test_a_capture_stops_at_a_refusal_and_a_rehearsal_notes_it(capture):
    with pytest.raises(DeviceError, match="the step waits"), recorded_by(capture):
        graph_capture.refuse("waits")
    assert not graph_capture.is_recording()
    with recorded_by(Rehearsal()) as rehearsal:
        for reason in ("waits", "copies"):
            graph_capture.refuse(reason)
        assert graph_capture.live_numbers(pytest.fail) is graph_capture.live_random() is None
        graph_capture.on_replay(pytest.fail, undo=pytest.fail)
    assert rehearsal.refused == ["waits", "copies"]


def test_more_numbers_than_fit_are_refused(capture):
    with recorded_by(capture):
        graph_capture.live_numbers(lambda: [0.0] * (LENGTH - 2))
        with pytest.raises(DeviceError, match="more than 256 numbers"):
            graph_capture.live_numbers(lambda: [0.0])


def test_other_threads_are_not_recorded(capture):
    found = []
    with recorded_by(capture):
        thread = threading.Thread(target=lambda: found.append(graph_capture.is_recording()))
        thread.start()
        thread.join()
    assert found == [False]
