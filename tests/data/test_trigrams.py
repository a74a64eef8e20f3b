"""Trigram models: probabilities that sum to 1, known values, and tuned weights."""

import math

import numpy as np
import pytest

from minitorch_attn.data.trigrams import (
    InterpolatedTrigram,
    KneserNeyTrigram,
    _fit_mixture,
    _split,
)


def sentences(rng, count=60, size=5):
    """Sentences of a random Markov chain; word 0 is the mark of the begin and of the end."""
    table = rng.dirichlet(np.full(size, 0.3), size)
    found = []
    for _ in range(count):
        row = [0]
        for _ in range(9):
            row.append(int(rng.choice(size, p=table[row[-1]])))
        found.append([*row, 0])
    return found


@pytest.mark.parametrize("kind", [InterpolatedTrigram, KneserNeyTrigram])
@pytest.mark.parametrize("context", [(0,), (0, 3), (0, 3, 1), (0, 6, 6), (6, 1)])
def test_probabilities_sum_to_one(kind, context, rng):
    model = kind(sentences(rng), 7)  # words 5 and 6 never occur
    n = len(context)
    prefix = model.loss([context]) * (n - 1)
    total = sum(math.exp(prefix - n * model.loss([(*context, word)])) for word in range(7))
    assert total == pytest.approx(1, rel=1e-9)


def test_interpolation_by_hand():
    model = InterpolatedTrigram([[0, 1, 0, 1]] * 10, 3)
    model.weights = [0.1, 0.2, 0.3, 0.4]
    # p(0 | 0, 1): uniform 1/3, one word 10/30, two words 10/10, three words 10/10
    expected = 0.1 / 3 + 0.2 / 3 + 0.3 + 0.4
    first = 0.1 / 3 + 0.2 * 2 / 3 + 0.3 + 0.4  # p(1 | begin, 0)
    assert 2 * model.loss([[0, 1, 0]]) == pytest.approx(-math.log(expected) - math.log(first))
    unseen = (0.1 / 3 + 0.2 / 3 + 0.3 * 0) / 0.6  # the context (1, 0) is known, (2, 0) is not
    model_loss = 2 * model.loss([[2, 0, 0]])
    start = (0.1 / 3 + 0.2 / 3) / 0.3  # no context ending in 2 is known
    assert model_loss == pytest.approx(-math.log(start) - math.log(unseen))


def test_kneser_ney_by_hand():
    model = KneserNeyTrigram([[0, 1, 2], [0, 1, 1]] * 10, 3)
    d3, d2, d1 = model.discounts
    assert d1 == 0.6
    # Trigrams: (-1, 0, 1) 20 times, (0, 1, 2) and (0, 1, 1) 10 times each.
    one = {w: (max(n - d1, 0) + 2 * d1 / 3) / 3 for w, n in {0: 0, 1: 2, 2: 1}.items()}
    two = (max(1 - d2, 0) + 2 * d2 * one[2]) / 2  # (1, 2): one word before; (1, .) has two
    three = (10 - d3 + 2 * d3 * two) / 20
    total = 2 * model.loss([[0, 1, 2]]) - model.loss([[0, 1]])
    assert total == pytest.approx(-math.log(three))


@pytest.mark.parametrize("kind", [InterpolatedTrigram, KneserNeyTrigram])
def test_order_matters(kind, rng):
    data = sentences(rng, 300)
    model = kind(data[:250], 5)
    shuffled = [[0, *rng.permutation(row[1:]).tolist()] for row in data[250:]]
    assert model.loss(data[250:]) < model.loss(shuffled)
    assert kind(data[:250], 5).loss([]) == 0


def test_the_tuned_mixture_is_better_than_equal_weights(rng):
    data = sentences(rng, 300)
    model = InterpolatedTrigram(data[:250], 5)
    tuned, weights = model.loss(data[250:]), model.weights
    model.weights = [0.25] * 4
    assert tuned < model.loss(data[250:])
    assert sum(weights) == pytest.approx(1) and min(weights) >= 0


def test_every_tenth_sentence_is_for_tuning():
    kept, held_out = _split(list(range(25)))
    assert held_out == [3, 13, 23] and kept == [n for n in range(25) if n not in held_out]


def test_expectation_maximization_finds_the_best_weights(rng):
    rows = [[0.1, *rng.random(3)] for _ in range(200)]
    rows += [[0.1, float(rng.random()), None, None] for _ in range(50)]

    def log_likelihood(weights):
        joint = [[w * (p or 0) for w, p in zip(weights, row, strict=True)] for row in rows]
        return sum(math.log(sum(row)) for row in joint)

    weights = np.array(_fit_mixture(rows, rounds=2000))
    assert weights.sum() == pytest.approx(1)
    best = log_likelihood(weights)
    for _ in range(50):
        other = np.abs(weights + 0.02 * rng.normal(size=4))
        assert log_likelihood(other / other.sum()) <= best + 1e-6


def test_the_default_rounds_come_close(rng):
    rows = [[0.1, *rng.random(3)] for _ in range(200)]
    np.testing.assert_allclose(_fit_mixture(rows), _fit_mixture(rows, 3000), atol=0.03)


@pytest.mark.parametrize("kind", [InterpolatedTrigram, KneserNeyTrigram])
def test_the_tuning_sentences_are_counted_at_the_end(kind):
    data = [[0, 1, 0]] * 3 + [[0, 2, 0]] + [[0, 1, 0]] * 6
    assert kind(data, 5).counts[-1, 0, 2] == 1 and kind(data, 5).counts[-1, 0, 1] == 9


def test_the_discounts_are_the_best_on_the_tuning_sentences(rng):
    data = sentences(rng, 150)
    model = KneserNeyTrigram(data, 5)
    kept, held_out = _split(data)
    model._count(kept)
    chosen = model._loss(held_out, model.discounts)
    for first in (0.6, 0.7, 0.8, 0.9):
        for second in (0.6, 0.7, 0.8, 0.9):
            assert chosen <= model._loss(held_out, (first, second, 0.6))
    assert all(0.6 <= discount <= 0.9 for discount in model.discounts)
