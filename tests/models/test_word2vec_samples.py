"""Training examples of word2vec against loops over the text."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.models.word2vec_samples import (
    cbow_windows,
    draw_negatives,
    skip_gram_pairs,
    subsample,
)


@pytest.mark.parametrize("length", [0, 1, 2, 11])
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("drawn", [False, True])
def test_pairs_and_windows_equal_the_loop(length, window, drawn, rng, device):
    ids = rng.integers(0, 7, length)
    sizes = rng.integers(1, window + 1, length)
    reach = sizes if drawn else [window] * length
    pairs, rows = [], []
    for i in range(length):
        near = [j for j in range(i - reach[i], i + reach[i] + 1) if 0 <= j < length and j != i]
        pairs += [(ids[i], ids[j]) for j in near]
        rows.append([ids[j] for j in near])
    text = mt.tensor(ids, device=device)
    given = mt.tensor(sizes, device=device) if drawn else None
    center, context = skip_gram_pairs(text, window, given)
    assert center.dtype == context.dtype == mt.int64
    assert list(zip(center.numpy(), context.numpy(), strict=True)) == pairs
    context, blocked, center = cbow_windows(text, window, given)
    assert context.shape == blocked.shape == (length, 2 * window)
    real = ~blocked.numpy()
    assert [row[keep].tolist() for row, keep in zip(context.numpy(), real, strict=True)] == rows
    np.testing.assert_array_equal(center.numpy(), ids)


def test_subsample_keeps_each_word_at_its_rate(device):
    mt.manual_seed(5)
    ids = mt.tensor([0, 1, 2, 1] * 3000, device=device)
    discard = mt.tensor([0.0, 0.75, 1.0], dtype=mt.float64, device=device)
    kept = subsample(ids, discard).numpy()
    counts = np.bincount(kept, minlength=3)
    assert counts[0] == 3000 and counts[2] == 0
    assert abs(counts[1] - 1500) < 5 * np.sqrt(6000 * 0.25 * 0.75)
    assert subsample(ids[:0], discard).shape == (0,)


def test_negatives_follow_the_noise(device):
    mt.manual_seed(5)
    noise = mt.tensor([0.5, 0.0, 0.3, 0.2], device=device)
    drawn = draw_negatives(noise, 4000, 5)
    assert drawn.shape == (4000, 5) and drawn.dtype == mt.int64
    share = np.bincount(drawn.numpy().reshape(-1), minlength=4) / 20000
    np.testing.assert_allclose(share, [0.5, 0.0, 0.3, 0.2], atol=5 * 0.5 / np.sqrt(20000))
    rows = draw_negatives(noise, 3, 2, generator=np.random.default_rng(7)).numpy()
    again = draw_negatives(noise, 3, 2, generator=np.random.default_rng(7)).numpy()
    np.testing.assert_array_equal(rows, again)


def test_a_word_that_is_never_discarded_stays(monkeypatch):
    """Even if the random number is exactly 0, a number that `rand` can return."""
    monkeypatch.setattr(mt.ops, "rand", lambda *shape, **options: mt.zeros(*shape))
    assert subsample(mt.tensor([1, 0, 1]), mt.tensor([0.1, 0.0])).tolist() == [1, 1]
