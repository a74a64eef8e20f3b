"""Shuffled batches of arrays, and batches in order."""

import numpy as np
import pytest

from minitorch_attn.backend import to_host
from minitorch_attn.data.examples import ShuffledBatches, in_batches
from minitorch_attn.errors import ArgumentError, CheckpointError


def numbers(batches, count):
    return [to_host(next(batches)[0].array).tolist() for _ in range(count)]


def test_every_pass_has_every_example_once(device):
    batches = ShuffledBatches([np.arange(21), np.arange(21) * 2], 7, seed=5, device=device)
    passes = [[i for batch in numbers(batches, 3) for i in batch] for _ in range(3)]
    assert all(sorted(one) == list(range(21)) for one in passes)
    assert passes[0] != passes[1] != passes[2]


def test_the_rows_of_the_arrays_stay_together(device):
    batches = ShuffledBatches([np.arange(11), np.arange(11)[:, None] * [1, 10]], 3, device=device)
    for _ in range(7):
        first, second = (to_host(part.array) for part in next(batches))
        assert (second == first[:, None] * [1, 10]).all() and second.shape == (3, 2)


def test_what_fills_no_batch_is_left_out_of_a_pass():
    batches = ShuffledBatches([np.arange(5)], 3)
    left_out = [set(range(5)) - set(one) for one in numbers(batches, 20)]
    assert all(len(left) == 2 for left in left_out) and len(set(map(frozenset, left_out))) > 3


def test_a_stream_goes_on_from_its_state():
    stream = ShuffledBatches([np.arange(23)], 5, seed=2)
    all_of_them = numbers(stream, 13)
    for position in (1, 4, 9):
        other = ShuffledBatches([np.arange(23)], 5, seed=2)
        other.load_state_dict({"position": position})
        assert numbers(other, 13 - position) == all_of_them[position:]
    assert numbers(ShuffledBatches([np.arange(23)], 5, seed=3), 13) != all_of_them
    with pytest.raises(CheckpointError):
        stream.load_state_dict({"position": "3"})


def test_dtypes_of_numbers_with_a_point_can_be_chosen():
    arrays = [np.ones((4, 2), dtype=np.float32), np.arange(4)]
    images, labels = next(ShuffledBatches(arrays, 2, dtype="float64"))
    assert images.dtype == np.float64 and labels.dtype == np.int64
    ((images, labels),) = in_batches(arrays, 9, dtype="float64")
    assert images.dtype == np.float64 and labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [6, 0, -1])
def test_a_batch_size_that_does_not_fit(size):
    with pytest.raises(ArgumentError, match="between 1 and the number of examples"):
        ShuffledBatches([np.zeros(5), np.zeros(5)], size)


def test_arrays_of_different_lengths():
    with pytest.raises(ArgumentError, match="the same number of rows"):
        ShuffledBatches([np.zeros(5), np.zeros(4)], 2)
