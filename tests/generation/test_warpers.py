"""Logits warpers equal their definitions in plain NumPy, row by row."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import generation as g
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError

ROWS, VOCABULARY = 5, 13


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def entropy(p):
    return -sum(q * np.log(q) for q in p if q > 0)


def kept(warper, scores, device):
    """Which tokens a warper keeps; it changes no score and does not touch what it was given."""
    tensor = mt.tensor(scores, device=device)
    with forbid_sync():
        after = warper(None, tensor)
    after = after.numpy()
    np.testing.assert_array_equal(tensor.numpy(), scores)
    keep = after > -np.inf
    np.testing.assert_array_equal(after[keep], scores[keep])
    return keep


@pytest.fixture
def scores(rng):
    scores = rng.normal(size=(ROWS, VOCABULARY), scale=2.0)
    scores[1, 4] = -np.inf
    return scores


@pytest.mark.parametrize("k", [1, 3, 40])
def test_top_k(scores, device, k):
    keep = kept(g.TopKLogitsWarper(k), scores, device)
    for row, found in zip(scores, keep, strict=True):
        best = np.argsort(row)[-k:]
        assert set(np.flatnonzero(found)) == {i for i in best if row[i] > -np.inf}
    equal = np.array([[1.0, 2.0, 2.0, 0.0]])
    assert kept(g.TopKLogitsWarper(1), equal, device).tolist() == [[False, True, True, False]]
    assert kept(g.TopKLogitsWarper(1, min_tokens_to_keep=3), equal, device).sum() == 3


@pytest.mark.parametrize("p", [0.0, 0.3, 0.8, 1.0])
def test_top_p(scores, device, p):
    """The fewest tokens whose probabilities reach p."""
    keep = kept(g.TopPLogitsWarper(p), scores, device)
    for row, found in zip(scores, keep, strict=True):
        weights, count = np.sort(softmax(row))[::-1], 1
        while count < VOCABULARY and weights[:count].sum() < p - 1e-12:
            count += 1
        best = np.argsort(row)[::-1][:count]
        assert set(np.flatnonzero(found)) == {i for i in best if row[i] > -np.inf}


@pytest.mark.parametrize("least", [1, 4])
def test_min_p(scores, device, least):
    keep = kept(g.MinPLogitsWarper(0.2, min_tokens_to_keep=least), scores, device)
    for row, found in zip(scores, keep, strict=True):
        weights = softmax(row)
        wanted = set(np.flatnonzero(weights >= 0.2 * weights.max())) | set(np.argsort(row)[-least:])
        assert set(np.flatnonzero(found)) == wanted
    equal = np.zeros((1, 4))
    assert kept(g.MinPLogitsWarper(1.0), equal, device).all()


@pytest.mark.parametrize("mass", [0.2, 0.9])
def test_typical(scores, device, mass):
    """The fewest tokens of surprise nearest to the entropy whose probabilities reach the mass."""
    keep = kept(g.TypicalLogitsWarper(mass), scores, device)
    for row, found in zip(scores, keep, strict=True):
        weights = softmax(row)
        with np.errstate(divide="ignore"):
            order = np.argsort(np.abs(-np.log(weights) - entropy(weights)))
        count = int((np.cumsum(weights[order]) < mass).sum()) + 1
        assert set(np.flatnonzero(found)) == set(order[:count])


def test_cutoffs(scores, device):
    epsilon = kept(g.EpsilonLogitsWarper(0.08), scores, device)
    eta = kept(g.EtaLogitsWarper(0.08), scores, device)
    assert eta.sum() > epsilon.sum()
    for row, by_epsilon, by_eta in zip(scores, epsilon, eta, strict=True):
        weights = softmax(row)
        threshold = min(0.08, np.sqrt(0.08) * np.exp(-entropy(weights)))
        np.testing.assert_array_equal(by_epsilon, weights >= 0.08)
        np.testing.assert_array_equal(by_eta, weights >= threshold)
    flat = np.zeros((1, 30))
    assert kept(g.EpsilonLogitsWarper(0.5), flat, device).all()  # all are the best


def test_top_h(scores, device):
    keep = kept(g.TopHLogitsWarper(0.6), scores, device)
    for row, found in zip(scores, keep, strict=True):
        order = np.argsort(row)[::-1]
        weights = softmax(row)[order]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.nan_to_num(-weights * np.log(weights))
        wanted = {order[0]} | set(order[np.cumsum(terms) <= 0.6 * entropy(weights)])
        assert set(np.flatnonzero(found)) == {i for i in wanted if row[i] > -np.inf}


def test_temperature_and_normalization(scores, device):
    tensor = mt.tensor(scores, device=device)
    np.testing.assert_allclose(g.TemperatureLogitsWarper(0.4)(None, tensor).numpy(), scores / 0.4)
    logs = g.LogitNormalization()(None, tensor).numpy()
    np.testing.assert_allclose(np.exp(logs), [softmax(row) for row in scores])


def test_wrong_settings():
    for make in (
        lambda: g.TemperatureLogitsWarper(0.0),
        lambda: g.TopKLogitsWarper(0),
        lambda: g.TopKLogitsWarper(2.5),
        lambda: g.TopPLogitsWarper(1.1),
        lambda: g.TopPLogitsWarper(0.5, min_tokens_to_keep=0),
        lambda: g.MinPLogitsWarper(-0.1),
        lambda: g.TypicalLogitsWarper(1.0),
        lambda: g.EpsilonLogitsWarper(0.0),
        lambda: g.EtaLogitsWarper(1.0),
        lambda: g.TopHLogitsWarper(0.0),
    ):
        with pytest.raises(ArgumentError):
            make()
