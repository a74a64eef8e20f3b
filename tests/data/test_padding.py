"""Padding: sequences of different lengths in one batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitorch_attn.data.padding import BucketedBatches, pad
from minitorch_attn.errors import ArgumentError, CheckpointError, DataError


def test_both_sides(device):
    sequences = [[5, 6, 7], np.array([8]), []]
    ids, mask = pad(sequences, pad_id=9, device=device)
    assert ids.tolist() == [[5, 6, 7], [8, 9, 9], [9, 9, 9]]
    assert ids.device.type == mask.device.type == device and ids.numpy().dtype == np.int64
    expected = [[True, True, True], [True, False, False], [False, False, False]]
    assert mask.shape == (3, 1, 1, 3) and mask.attend.reshape(3, 3).tolist() == expected
    ids, mask = pad(sequences, pad_id=9, side="left", multiple_of=5, device=device)
    assert ids.tolist() == [[9, 9, 5, 6, 7], [9, 9, 9, 9, 8], [9] * 5]
    assert mask.attend.reshape(3, 5).numpy().sum(axis=0).tolist() == [0, 0, 1, 1, 2]


def test_wrong_arguments():
    for call in (
        lambda: pad([]),
        lambda: pad([[1]], side="both"),
        lambda: pad([[1]], multiple_of=0),
        lambda: BucketedBatches([1]),
        lambda: BucketedBatches([1], 2, max_tokens=3),
        lambda: BucketedBatches([1], 0),
        lambda: BucketedBatches([1], 2, pool=0),
    ):
        with pytest.raises(ArgumentError):
            call()
    for call in (lambda: BucketedBatches([], 2), lambda: BucketedBatches([3, 9], max_tokens=8)):
        with pytest.raises(DataError):
            call()
    for state in ({}, {"position": 3}, {"position": [1, -1]}, {"position": [1, "2"]}, None):
        with pytest.raises(CheckpointError):
            BucketedBatches([1], 2).load_state_dict(state)


def one_pass(batches):
    found, number = [], batches.position[0]
    while batches.position[0] == number:
        before = batches.position
        batch = next(batches)
        if batches.position[0] != number:
            batches.position = before
            break
        found.append(batch)
    return found


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=80),
    size=st.sampled_from([{"batch_size": 7}, {"max_tokens": 30}, {"max_tokens": 95}]),
    pool=st.sampled_from([1, 2, 100]),
)
def test_every_example_comes_once(lengths, size, pool):
    batches = BucketedBatches(lengths, **size, pool=pool)
    found = one_pass(batches)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
    for batch in found:
        assert 1 <= len(batch) <= size.get("batch_size", 95)
        if "max_tokens" in size:
            assert max(lengths[i] for i in batch) * len(batch) <= size["max_tokens"]


def test_there_is_little_padding_and_yet_every_pass_is_another(rng):
    lengths = rng.integers(1, 100, size=2000)

    def padding(batches):
        return sum(int((lengths[b].max() - lengths[b]).sum()) for b in batches)

    batches = BucketedBatches(lengths, 16, pool=20)
    first = one_pass(batches)
    batches.position = (1, 0)
    second = one_pass(batches)
    assert padding(first) < 0.1 * padding(one_pass(BucketedBatches(lengths, 16, pool=1)))
    assert {tuple(sorted(b)) for b in first} != {tuple(sorted(b)) for b in second}
    mean_lengths = [lengths[b].mean() for b in first]
    assert mean_lengths[:40] != sorted(mean_lengths[:40])


def test_going_on_from_a_saved_position(rng):
    lengths = rng.integers(1, 9, size=50)
    whole = BucketedBatches(lengths, max_tokens=20, seed=-3)
    expected = [next(whole).tolist() for _ in range(60)]  # more than two passes
    first = BucketedBatches(lengths, max_tokens=20, seed=-3)
    drawn = [next(first).tolist() for _ in range(25)]
    second = BucketedBatches(lengths, max_tokens=20, seed=-3)
    second.load_state_dict(first.state_dict())
    assert drawn + [next(second).tolist() for _ in range(35)] == expected
    other = BucketedBatches(lengths, max_tokens=20, seed=4)
    assert [next(other).tolist() for _ in range(10)] != expected[:10]
