"""Samples follow their probabilities and can be repeated."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.generation.sampling import Draw, draw_several

WEIGHTS = np.array([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])


def scores_of(weights):
    """The logarithms of weights as scores."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


def test_frequencies(device):
    scores = mt.tensor(np.tile(scores_of(WEIGHTS) + 7, (20_000, 1)), device=device)
    with forbid_sync():
        drawn = Draw(seed=1)(scores)
    counts = np.bincount(drawn.numpy(), minlength=len(WEIGHTS)) / 20_000
    assert (counts[WEIGHTS == 0] == 0).all()
    np.testing.assert_allclose(counts, WEIGHTS, atol=0.015)


def test_a_temperature_divides_the_scores(device):
    scores = mt.tensor(np.random.default_rng(0).normal(0, 3, (50, 7)), device=device)
    found = Draw(seed=1, temperature=0.5)(scores).numpy()
    np.testing.assert_array_equal(found, Draw(seed=1)(scores / 0.5).numpy())
    assert (found != Draw(seed=1)(scores).numpy()).any()


class Nearly1:
    """A generator whose numbers round to 1 in float32."""

    def random(self, shape):
        return np.full(shape, np.nextafter(1.0, 0.0))


def test_the_last_possible_token_is_the_last(device):
    """Rounding does not lead behind it, to tokens of probability 0."""
    draw = Draw(seed=0)
    draw.generator = Nearly1()
    weights = [[1e-20, 1.0, 1e-20, 0.0, 0.0]], [[1.0, 0.0]]
    found = [draw(mt.tensor(scores_of(np.array(w)), device=device)).item() for w in weights]
    assert found[0] <= 2 and found[1] == 0


def test_scores_of_impossible_tokens(device):
    scores = mt.tensor(np.array([[-np.inf, 900.0, -np.inf, 900.0]]), device=device)
    drawn = {Draw(seed)(scores).item() for seed in range(30)}
    assert drawn == {1, 3}


def test_several_without_putting_back(device):
    """The first is drawn by the weights, the second by what is left of them."""
    with np.errstate(divide="ignore"):
        scores = np.tile(np.log(WEIGHTS), (20_000, 1))
    drawn = draw_several(mt.tensor(scores, device=device), 2, np.random.default_rng(2)).numpy()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    pairs = {(i, j): WEIGHTS[i] * WEIGHTS[j] / (1 - WEIGHTS[i]) for i in (1, 3, 4)
             for j in (1, 3, 4) if i != j}  # fmt: skip
    for (i, j), expected in pairs.items():
        count = ((drawn[:, 0] == i) & (drawn[:, 1] == j)).mean()
        np.testing.assert_allclose(count, expected, atol=0.015)


class Highest:
    """A generator whose uniform numbers are the largest ones below the upper limit."""

    def uniform(self, low, high, size):
        assert low > 0
        return np.full(size, np.nextafter(high, low))


def test_gumbel_noise_stays_finite_up_to_the_limit(device):
    scores = mt.tensor([[0.0, 5.0, 3.0]], dtype="float64", device=device)
    assert draw_several(scores, 3, Highest()).tolist() == [[1, 2, 0]]  # equal noise for all


@pytest.mark.parametrize(("seed", "same"), [(2**64 + 3, 3), (-1, 2**64 - 1), (2**70 + 5, 5)])
def test_seeds_are_taken_modulo_2_to_the_64(seed, same):
    scores = mt.zeros(5, 1000)
    assert Draw(seed)(scores).tolist() == Draw(same)(scores).tolist()
    assert Draw(seed)(scores).tolist() != Draw(4)(scores).tolist()
