"""Masked words, and the pretraining and fine-tuning of BERT."""

import numpy as np
import pytest

from minitorch_attn.data.examples import ShuffledBatches
from minitorch_attn.errors import CheckpointError
from minitorch_attn.training.recipes.masked_stream import TwoLives, hide_words


def test_what_becomes_of_hidden_words(rng):
    ids = rng.integers(5, 97, size=(400, 20))
    ids[:, 0] = 2
    read, places, words = hide_words(ids, rng, 0.15, mask_id=4, first_word=5, vocab_size=97)
    assert places.shape == words.shape == (400, 3)
    assert (np.take_along_axis(ids, places, 1) == words).all() and (places > 0).all()
    assert all(len(set(row)) == 3 for row in places.tolist())
    hidden = np.zeros(ids.shape, dtype=bool)
    np.put_along_axis(hidden, places, True, 1)
    assert (read[~hidden] == ids[~hidden]).all()
    shown = np.take_along_axis(read, places, 1)
    assert abs((shown == 4).mean() - 0.8) < 0.05
    assert abs((shown == words).mean() - 0.1) < 0.04
    assert shown[shown != 4].min() >= 5


def test_one_life_after_the_other():
    def stream():
        labelled = ShuffledBatches([np.arange(6), np.arange(6) * 2], 2, seed=1)
        return TwoLives(lambda generator: generator.integers(1000), labelled, 3, seed=1)

    whole = stream()
    batches = [next(whole) for _ in range(7)]
    assert all(np.ndim(batch) == 0 for batch in batches[:3])
    assert all((b.labels == 2 * b.ids).all() for b in batches[3:])
    for position in (2, 3, 5):
        other = stream()
        other.load_state_dict({"position": position})
        rest = [next(other) for _ in range(7 - position)]
        for one, two in zip(rest, batches[position:], strict=True):
            assert one == two if np.ndim(two) == 0 else one.ids.tolist() == two.ids.tolist()
    with pytest.raises(CheckpointError):
        whole.load_state_dict({})
