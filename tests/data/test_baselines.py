"""Baselines: the losses of models that only count."""

import math

import numpy as np
import pytest

from minitorch_attn.data import baselines


def test_against_plain_loops(rng):
    vocab_size = 5
    training = rng.integers(4, size=200)  # token 4 never occurs
    validation = rng.integers(5, size=60)
    unigram_loss = bigram_loss = 0.0
    for a, b in zip(validation[:-1], validation[1:], strict=True):
        unigram = (sum(t == b for t in training) + 1) / (len(training) + vocab_size)
        follows = sum(x == a and y == b for x, y in zip(training[:-1], training[1:], strict=True))
        bigram = (follows + unigram) / (sum(t == a for t in training[:-1]) + 1)
        unigram_loss -= math.log(unigram) / (len(validation) - 1)
        bigram_loss -= math.log(bigram) / (len(validation) - 1)
    found = baselines(training, validation, vocab_size)
    assert found["uniform"] == pytest.approx(math.log(5))
    assert found["unigram"] == pytest.approx(unigram_loss)
    assert found["bigram"] == pytest.approx(bigram_loss)


def test_each_is_a_distribution():
    """Summed over all possible next tokens, the probabilities make 1."""
    training, vocab_size = np.array([0, 1, 1, 2, 0, 1]), 4
    for first in range(vocab_size):
        chances = [
            math.exp(-baselines(training, np.array([first, b]), vocab_size)["bigram"])
            for b in range(vocab_size)
        ]
        assert sum(chances) == pytest.approx(1)


def test_more_context_is_better_on_a_text_with_structure(rng):
    ids = np.cumsum(rng.integers(1, 3, size=5000)) % 17
    found = baselines(ids[:4000], ids[4000:], 17)
    assert found["bigram"] < 0.8 < 2.7 < found["unigram"]
    assert found["bigram"] > math.log(2) - 0.05
