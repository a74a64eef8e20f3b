"""Shared gradients: sums piece by piece, in one process that plays several."""

import threading
import time
from multiprocessing import get_context

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.training import shared_gradients
from minitorch_attn.training.shared_gradients import SharedGradients, _pieces_of

ROWS, WIDTH = 5, 3


def nothing():
    pass


@pytest.fixture
def parameter():
    return mt.zeros(ROWS, WIDTH, dtype="float64").requires_grad_()


@pytest.fixture
def shared(parameter, monkeypatch):
    """Two processes; each row of the parameter is a piece."""
    monkeypatch.setattr(shared_gradients, "_TOGETHER", WIDTH * 8)
    gradients = SharedGradients([parameter], get_context("fork").Lock())
    gradients.start(2)
    return gradients


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (5, 3), (1, 50), (0, 3), (4, 0)])
@pytest.mark.parametrize("together", [1, 8, 100, 1 << 20])
def test_pieces_cover_an_array(shape, together, monkeypatch):
    monkeypatch.setattr(shared_gradients, "_TOGETHER", together)
    array = np.zeros(shape)
    pieces = _pieces_of(array)
    for piece in pieces:
        array[piece] += 1
    np.testing.assert_array_equal(array, np.ones(shape))
    largest = max(np.zeros(shape)[piece].nbytes for piece in pieces)
    assert largest <= max(together, array.nbytes // max(len(array), 1) if shape else 8)


def test_another_process_adds_the_pieces_that_are_not_busy(shared, parameter, rng):
    first, second = rng.normal(size=(2, ROWS, WIDTH))
    shared.busy[2] = True  # process 1 is adding this piece
    pending = shared._pieces_to_add(0, mt.tensor(first.copy()).detach())
    waiting = threading.Thread(target=shared._take_turns, args=(pending, 0, nothing))
    waiting.start()
    time.sleep(0.05)
    assert waiting.is_alive()  # the last piece keeps the whole gradient in memory
    assert [*shared.turns] == [1, 1, 0, 1, 1]
    shared.views[0][2] = second[2]
    shared.filled[2], shared.turns[2], shared.busy[2] = True, 1, False
    waiting.join(5)
    assert not waiting.is_alive() and not pending and [*shared.turns] == [1, 1, 2, 1, 1]
    expected = first.copy()
    expected[2] += second[2]
    np.testing.assert_array_equal(shared.views[0], expected)


def test_a_small_gradient_does_not_wait(shared, monkeypatch):
    monkeypatch.setattr(shared_gradients, "_TOGETHER", 1 << 20)
    shared.busy[2] = True
    pending = shared._pieces_to_add(0, mt.ones(ROWS, WIDTH, dtype="float64"))
    shared._take_turns(pending, 0, nothing)
    assert [number for number, _, _ in pending] == [2]


def test_the_order_of_three_processes(shared, parameter):
    shared.start(3)
    grads = [mt.full((ROWS, WIDTH), v, dtype="float64") for v in (1e16, 1.0, -1e16)]
    later = [shared._pieces_to_add(0, grad) for grad in grads]
    shared._take_turns(later[2], 2, nothing)
    shared._take_turns(later[1], 1, nothing)
    assert not shared.turns.any()  # process 0 is first
    for rank in range(3):
        shared._take_turns(later[rank], rank, nothing)
    assert [*shared.turns] == [3] * ROWS
    np.testing.assert_array_equal(shared.views[0], np.zeros((ROWS, WIDTH)))  # (1e16 + 1) - 1e16
    shared.finish()
    assert parameter.grad.array is shared.views[0]


def test_a_wait_notices_that_the_other_process_has_ended(shared):
    shared.busy[:] = True

    def gone():
        raise EOFError("gone")

    with pytest.raises(EOFError, match="gone"):
        shared._take_turns(shared._pieces_to_add(0, mt.ones(ROWS, WIDTH, dtype="float64")), 0, gone)
