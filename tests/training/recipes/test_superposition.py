"""Superposition recipe: sparse features, the choice of the best model, the count of features."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.training.recipes import load_recipe
from minitorch_attn.training.recipes.superposition import REFERENCE, SparseFeatures, represented


def test_features_have_their_density_and_are_uniform():
    density = np.array([1.0, 0.3, 0.01])
    (x,) = next(SparseFeatures([(density, 11)], 5000, seed=3))
    x = x.numpy()
    assert x.shape == (5000, 3, 11) and x.dtype == np.float32
    assert 0 <= x.min() and x.max() < 1
    np.testing.assert_allclose((x > 0).mean((0, 2)), density, rtol=0.08)
    for k in range(3):
        present = x[:, k][x[:, k] > 0]
        assert present.mean() == pytest.approx(0.5, abs=0.03)
        assert present.var() == pytest.approx(1 / 12, rel=0.1)
    assert abs(np.corrcoef(x[:, 1, 0], x[:, 1, 1])[0, 1]) < 0.05  # features are independent


def test_a_batch_depends_on_seed_and_position():
    groups = [(np.array([0.5]), 3), (np.array([0.1, 1.0]), 2)]
    one, two = SparseFeatures(groups, 7, seed=1), SparseFeatures(groups, 7, seed=1)
    next(one)
    two.load_state_dict(one.state_dict())
    for a, b in zip(next(one), next(two), strict=True):
        assert (a == b).all()
    other = SparseFeatures(groups, 7, seed=2)
    assert (next(other)[0] != next(SparseFeatures(groups, 7, seed=1))[0]).any()


def test_the_loss_is_the_sum_of_all_models():
    recipe = load_recipe("superposition")({"batch": 7, "restarts": 1, "dtype": "float64"})
    batch = next(recipe.batches())
    total = 0.0
    for group, x, importance in zip(recipe.model, batch, recipe.importances, strict=True):
        W, b, x = group.W.detach().numpy(), group.b.detach().numpy(), x.numpy()
        for k in range(len(W)):
            output = x[:, k] @ W[k].T @ W[k] + b[k]
            output = output.clip(0) if group.relu else output
            total += (importance * (x[:, k] - output) ** 2).sum(1).mean()
    assert recipe.loss(recipe.model, batch).item() == pytest.approx(total, rel=1e-12)


def test_the_best_of_several_models_is_kept():
    recipe = load_recipe("superposition")({"batch": 7, "restarts": 2})
    group = recipe.model[0]
    W = np.zeros(group.W.shape, dtype="float32")
    good = np.eye(5, 20)
    for k in range(len(W)):  # the good model is first at even sparsities, second at odd ones
        W[k] = good if k % 2 == k // 2 % 2 else -3 * good
    group.W.data = mt.tensor(W)
    kept = recipe.best()[0]
    assert kept.shape == (7, 5, 20) and (kept == good).all()


def test_counts_of_represented_features():
    W = np.array([[[1.0, 0.6, 0.7], [0.0, 0.6, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.8]]])
    assert represented(W).tolist() == [2, 1]
    assert sorted(REFERENCE) == [0.0, 0.7, 0.9, 0.97, 0.99]


def test_the_difference_is_the_largest_one(monkeypatch):
    recipe = load_recipe("superposition")({"batch": 7, "restarts": 1})
    matrices = recipe.best()
    counts = [5, 8, 9, 8, 11, 20, 0]
    for k, count in enumerate(counts):
        matrices[0][k] = np.eye(5, 20, dtype="float32")[:, :1] * (np.arange(20) < count)
    monkeypatch.setattr(recipe, "best", lambda: matrices)
    measured = recipe.measure([])
    assert measured["largest difference"] == 3.0
    assert measured["features at sparsity 0.7"] == 8 and measured["features at sparsity 0.999"] == 0


def test_the_validation_loss_is_the_sum_over_all_test_features():
    recipe = load_recipe("superposition")({"batch": 7, "restarts": 1})
    losses = recipe.test_losses(recipe.model)
    generators = [np.random.default_rng([0, 1, number]) for number in range(4)]
    expected = [0.0] * 4
    for generator in generators:
        batch = [mt.tensor(x) for x in recipe.test.draw(generator)]
        for place, found in enumerate(recipe.losses(recipe.model, batch)):
            expected[place] = expected[place] + found.detach().numpy() / 4
    for found, mean in zip(losses, expected, strict=True):
        np.testing.assert_allclose(found, mean, rtol=1e-5)
    total = sum(float(part.sum()) for part in expected)
    assert recipe.evaluate(recipe.model) == pytest.approx(total, rel=1e-5)
