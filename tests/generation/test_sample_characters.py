"""Sampling: greedy at temperature 0, repeatable by seed, true to the distribution."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.generation import sample
from minitorch_attn.models import GPT


class Fixed(mt.nn.Module):
    """The same logits at every position, however long the text."""

    context_length = 4

    def __init__(self, logits, device="cpu"):
        super().__init__()
        self.logits = mt.nn.Parameter(mt.tensor(logits, device=device))
        self.longest = 0

    def forward(self, ids):
        self.longest = max(self.longest, ids.shape[1])
        return self.logits.reshape(1, 1, -1).expand(1, ids.shape[1], -1)


def test_equal_seeds_equal_texts(device):
    mt.manual_seed(0)
    model = GPT(vocab_size=9, context_length=4, embed_dim=8, num_heads=2, num_layers=1).to(device)
    state = mt.get_rng_state()
    first, again, other = (sample(model, [1, 2], 30, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first[:2] == [1, 2] and len(first) == 32 and set(first) <= set(range(9))
    assert mt.get_rng_state() == state
    assert model.training
    model.eval()
    sample(model, [1], 1)
    assert not model.training


class Forgetful(GPT):
    """Without an argument for a cache: every token is read at every step."""

    def forward(self, ids):
        return super().forward(ids)


def test_the_cache_changes_nothing(device):
    """Within the context and when its window moves."""
    models = []
    for kind in (GPT, Forgetful):
        mt.manual_seed(0)
        model = kind(vocab_size=9, context_length=7, embed_dim=8, num_heads=2, num_layers=2)
        models.append(model.double().to(device))
    for seed in range(3):
        cached, read_again = (sample(model, [1, 2, 5], 20, seed=seed) for model in models)
        assert cached == read_again


def test_frequencies_follow_the_logits(device):
    model = Fixed(np.log([0.5, 0.3, 0.2]), device)
    for temperature in (1.0, 2.0):
        drawn = np.bincount(sample(model, [0], 4000, temperature=temperature, seed=3)[1:]) / 4000
        expected = np.array([0.5, 0.3, 0.2]) ** (1 / temperature)
        np.testing.assert_allclose(drawn, expected / expected.sum(), atol=0.03)
    assert model.longest == 4  # never more than the context


def test_greedy_and_top_k():
    model = Fixed([1.0, 3.0, 2.0, -9.0])
    assert sample(model, [0], 5, temperature=0) == [0, 1, 1, 1, 1, 1]
    assert sample(model, [0], 5, top_k=1) == [0, 1, 1, 1, 1, 1]
    assert set(sample(model, [0], 200, top_k=2)[1:]) == {1, 2}
    assert set(sample(model, [0], 200, top_k=9, temperature=5.0)[1:]) == {0, 1, 2, 3}


def test_extreme_logits_do_not_overflow():
    assert sample(Fixed([0.0, 30000.0]), [0], 3, temperature=0.01) == [0, 1, 1, 1]


def test_wrong_settings():
    model = Fixed([0.0, 1.0])
    for settings in ({"temperature": -1}, {"top_k": 0}):
        with pytest.raises(ArgumentError, match="temperature must be at least 0"):
            sample(model, [0], 1, **settings)
    with pytest.raises(ArgumentError, match="prompt is empty"):
        sample(model, [], 1)
