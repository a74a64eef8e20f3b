"""Text batches: the correct pairs, and the same ones after a restart."""

import numpy as np
import pytest

from minitorch_attn.data import TextBatches, windows
from minitorch_attn.errors import ArgumentError, CheckpointError, DataError

IDS = np.arange(1000) * 7 % 101


def draw(batches, count):
    return [(x.numpy(), y.numpy()) for _, (x, y) in zip(range(count), batches, strict=False)]


def test_targets_are_the_next_tokens():
    for x, y in draw(TextBatches(np.arange(50), 5, 7, seed=3), 20):
        assert x.shape == y.shape == (5, 7) and x.dtype == np.int64
        assert (y == x + 1).all() and (np.diff(x) == 1).all() and y.max() < 50


def test_every_window_can_be_drawn():
    starts = {int(row[0]) for x, _ in draw(TextBatches(np.arange(10), 8, 3), 50) for row in x}
    assert starts == set(range(7))


def test_equal_seeds_equal_batches():
    a, b, c = (draw(TextBatches(IDS, 4, 8, seed=seed), 5) for seed in (1, 1, 2))
    assert all((x == y).all() for (x, _), (y, _) in zip(a, b, strict=True))
    assert any((x != y).any() for (x, _), (y, _) in zip(a, c, strict=True))
    assert any((a[0][0] != x).any() for x, _ in a[1:])


def test_going_on_from_a_saved_position():
    whole = draw(TextBatches(IDS, 4, 8, seed=-5), 6)
    first = TextBatches(IDS, 4, 8, seed=-5)
    draw(first, 3)
    second = TextBatches(IDS, 4, 8, seed=-5)
    second.load_state_dict(first.state_dict())
    rest = draw(second, 2)
    assert all((x == y).all() for (x, _), (y, _) in zip(whole[3:5], rest, strict=True))


def test_batches_live_on_the_device(device):
    x, _ = next(TextBatches(IDS, 2, 3, device=device))
    assert x.device.type == device


def test_wrong_sizes_and_states():
    with pytest.raises(DataError, match="at least 9"):
        TextBatches(np.arange(8), 1, 8)
    with pytest.raises(ArgumentError):
        TextBatches(IDS, 0, 8)
    for state in ({}, {"position": "3"}, {"position": -1}, None):
        with pytest.raises(CheckpointError):
            TextBatches(IDS, 1, 8).load_state_dict(state)


def test_windows_cover_the_text_once():
    pairs = [(x.numpy(), y.numpy()) for x, y in windows(np.arange(22), 2, 4)]
    assert [len(x) for x, _ in pairs] == [2, 2, 1]
    targets = np.concatenate([y.ravel() for _, y in pairs])
    assert targets.tolist() == list(range(1, 21))


def test_windows_may_be_limited_and_are_then_spread():
    starts = [int(row[0]) for x, _ in windows(np.arange(101), 2, 10, limit=3) for row in x.numpy()]
    assert starts == [0, 40, 90]
