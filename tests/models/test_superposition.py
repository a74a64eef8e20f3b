"""Toy models of superposition: loops, known geometries, sampled losses, and what training finds."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck, gradcheck_module
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models import ToyModel, ToyModels
from minitorch_attn.models.superposition import (
    dimensions_per_feature,
    feature_dimensionality,
    importance_loss,
    interference,
    phase,
    phase_losses,
    polygon,
    sample_features,
)


def randomised(model, rng, device="cpu"):
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.normal(size=parameter.shape))
    return model.double().to(device)


def toy(W, b=None):
    """The model with given weights, in float64."""
    W = np.asarray(W, dtype="float64")
    model = ToyModel(W.shape[1], W.shape[0]).double()
    model.W.data = mt.tensor(W)
    if b is not None:
        model.b.data = mt.tensor(b, dtype=mt.float64)
    return model


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("shape", [(3,), (2,), (1,), (0,), (), (2, 3)])
def test_model_equals_the_loop(relu, shape, make, rng, device):
    model = randomised(ToyModel(5, 2, relu), rng, device)
    x = make(*shape, 5)
    got = model(x).detach().numpy()
    W, b = model.W.detach().numpy(), model.b.detach().numpy()
    for place in np.ndindex(shape):
        expected = W.T @ (W @ x.detach().numpy()[place]) + b
        expected = expected.clip(0) if relu else expected
        np.testing.assert_allclose(got[place], expected, rtol=1e-12, atol=1e-14)
    assert got.shape == (*shape, 5)
    assert gradcheck_module(model, x)


def test_importance_loss_equals_the_loop(make, device):
    output, x, importance = make(2, 3, 5), make(2, 3, 5), make(5, low=0.0)
    a, b, weight = (t.detach().numpy() for t in (output, x, importance))
    total = sum(
        weight[k] * (a[i, j, k] - b[i, j, k]) ** 2
        for i, j, k in np.ndindex(2, 3, 5)
    )  # fmt: skip
    got = importance_loss(output, x, importance)
    np.testing.assert_allclose(got.item(), total / 6, rtol=1e-12)
    assert gradcheck(importance_loss, (output, x, importance))


@pytest.mark.parametrize("shape", [(2, 5), (3, 2), (1, 1), (7, 3)])
def test_geometry_equals_the_loop(shape, make):
    W = make(*shape)
    columns = W.detach().numpy().T
    unit = [w / np.linalg.norm(w) for w in columns]
    dimension, other = [], []
    for i, u in enumerate(unit):
        overlaps = [(u @ w) ** 2 for w in columns]
        dimension.append(columns[i] @ columns[i] / sum(overlaps))
        other.append(sum(overlaps) - overlaps[i])
    np.testing.assert_allclose(
        feature_dimensionality(W).detach().numpy(), dimension, rtol=1e-11, atol=0
    )
    np.testing.assert_allclose(interference(W).detach().numpy(), other, rtol=1e-11, atol=1e-14)
    per_feature = shape[0] / (columns**2).sum()
    np.testing.assert_allclose(dimensions_per_feature(W).item(), per_feature, rtol=1e-12)
    for function in (feature_dimensionality, dimensions_per_feature, interference):
        assert gradcheck(function, (W,))


@pytest.mark.parametrize("corners", [2, 3, 5, 7])
def test_polygons_share_two_dimensions(corners, device):
    """Digon 1/2 (of its one dimension), triangle 2/3, pentagon 2/5, as in section 4."""
    W = polygon(corners).to(device).double()
    expected = 1 / 2 if corners == 2 else 2 / corners
    got = feature_dimensionality(W).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_allclose((W.square().sum(0)).numpy(), 1, rtol=1e-6)
    np.testing.assert_allclose(dimensions_per_feature(W).item(), 2 / corners, rtol=1e-6)


def test_polytopes_of_section_4():
    """Tetrahedron 3/4, square antiprism 3/8, and two groups that are orthogonal to each other."""
    tetrahedron = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).T / np.sqrt(3)
    got = feature_dimensionality(mt.tensor(tetrahedron)).numpy()
    np.testing.assert_allclose(got, 3 / 4, rtol=1e-12)
    angle, height = np.arange(8) * np.pi / 4, np.tile([1.0, -1.0], 4) / np.sqrt(2)
    antiprism = np.stack([np.cos(angle), np.sin(angle), height]) / np.sqrt(1.5)
    got = feature_dimensionality(mt.tensor(antiprism)).numpy()
    np.testing.assert_allclose(got, 3 / 8, rtol=1e-12)
    both = np.zeros((3, 5))
    both[:2, :3], both[2, 3:] = polygon(3).numpy(), [2, -2]
    got = feature_dimensionality(mt.tensor(both)).numpy()
    np.testing.assert_allclose(got, [2 / 3, 2 / 3, 2 / 3, 1 / 2, 1 / 2], rtol=1e-6)


def test_a_feature_that_is_not_learned_has_no_dimension(device):
    W = mt.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], device=device, requires_grad=True)
    got = feature_dimensionality(W)
    assert got.tolist() == [1.0, 1.0, 0.0]
    (got.sum() + interference(W).sum()).backward()
    assert np.isfinite(W.grad.numpy()).all()


def test_sampled_features(device):
    mt.manual_seed(5)
    x = sample_features(20000, 3, 0.3, dtype=mt.float64, device=device).numpy()
    assert x.dtype == np.float64 and x.shape == (20000, 3)
    assert ((x >= 0) & (x < 1)).all()
    np.testing.assert_allclose((x > 0).mean(0), 0.3, atol=5 * 0.46 / np.sqrt(20000))
    np.testing.assert_allclose(x.mean(0), 0.15, atol=5 * 0.28 / np.sqrt(20000))
    present = x > 0
    both = (present[:, 0] & present[:, 1]).mean()  # each feature is drawn on its own
    np.testing.assert_allclose(both, 0.09, atol=5 * 0.29 / np.sqrt(20000))
    assert sample_features(2, 3, 1.0).dtype == mt.float32


@pytest.mark.parametrize(("density", "importance"), [(1.0, 0.5), (0.3, 1.7), (0.1, 0.9)])
def test_phase_losses_equal_the_expectation(density, importance):
    """The integral over the uniform features by Gauss-Legendre, for each set of present ones."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    u, w = (nodes + 1) / 2, weights / 2
    first, second = np.meshgrid(u, u, indexing="ij")
    area, mean = np.outer(w, w), density / 2
    # The antipodal solution has a kink at x_1 = x_2, which the map (a, a b) leaves at the edge.
    ordered = [(first, first * second), (first * second, first)]
    solutions = [toy([[1, 0]], [0, mean]), toy([[1, -1]]), toy([[0, 1]], [mean, 0])]
    weight = mt.tensor([1.0, importance], dtype=mt.float64)
    expected = []
    for model in solutions:

        def error(a, b, model=model):
            x = mt.tensor(np.stack([a, b], -1))
            return ((model(x) - x).square() * weight).sum(-1).detach().numpy()

        both = sum((error(a, b) * first * area).sum() for a, b in ordered)
        one = (error(first, 0 * first) * area).sum() + (error(0 * first, first) * area).sum()
        none = error(np.zeros(()), np.zeros(()))
        p = density
        expected.append(p * p * both + p * (1 - p) * one + (1 - p) ** 2 * none)
    got = phase_losses(mt.tensor(density).double(), mt.tensor(importance).double()).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_phase_diagram(device):
    """At equal importance, superposition wins below p = 4/7; otherwise the less important drops."""
    density = mt.tensor([0.05, 0.57, 0.58, 1.0], device=device).unsqueeze(1)
    got = phase(density, mt.tensor([0.01, 0.99999, 1.00001, 100.0], device=device))
    assert got.tolist() == [[0, 1, 1, 2], [0, 1, 1, 2], [0, 0, 2, 2], [0, 0, 2, 2]]


def test_training_finds_the_phases():
    """One dimension, two features: one is dropped if they are dense, both are kept if sparse."""
    for density, learned in ((1.0, 1), (0.05, 2)):
        mt.manual_seed(3)
        model = ToyModel(2, 1)
        model.W.data = mt.tensor([[0.5, -0.4]])
        optimizer = mt.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(400):
            x = sample_features(256, 2, density)
            loss = importance_loss(model(x), x, mt.tensor([1.0, 0.8]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        W = model.W.detach().numpy()[0]
        assert (abs(W) > 0.5).sum() == learned
        assert learned == 1 or W[0] * W[1] < 0


def test_initial_weights():
    mt.manual_seed(2)
    model = ToyModel(400, 100)
    W = model.W.detach().numpy()
    assert abs(W.std() - np.sqrt(2 / 500)) < 0.001
    assert abs(W).max() > np.sqrt(6 / 500)  # normal: a uniform draw ends here
    assert not model.b.detach().numpy().any()


def test_errors():
    with pytest.raises(ShapeError, match="wrong number of features"):
        ToyModel(5, 2)(mt.zeros(3, 2))
    with pytest.raises(ShapeError, match="same shape"):
        importance_loss(mt.zeros(3, 2), mt.zeros(2), mt.zeros(2))
    with pytest.raises(ArgumentError, match="hidden_dim"):
        ToyModel(5, 0.5)


@pytest.mark.parametrize("relu", [True, False])
def test_several_models_equal_each_one(relu, make, rng, device):
    models = randomised(ToyModels(3, 5, 2, relu), rng, device)
    x = make(7, 3, 5)
    got = models(x)
    for k in range(3):
        one = ToyModel(5, 2, relu).double().to(device)
        one.W.data, one.b.data = models.W.data[k], models.b.data[k]
        expected = one(x[:, k]).detach().numpy()
        np.testing.assert_allclose(got[:, k].detach().numpy(), expected, rtol=1e-12, atol=1e-14)
    assert gradcheck_module(models, x)
    assert repr(models) == f"ToyModels(3, 5, 2, relu={relu})"


@pytest.mark.parametrize("sizes", [(0, 3, 5), (1, 0, 2), (2, 5, 0), (1, 1, 1)])
def test_several_models_of_any_size(sizes):
    count, features, hidden = sizes
    models = ToyModels(count, features, hidden)
    assert models(mt.zeros(7, count, features)).shape == (7, count, features)


def test_several_models_start_as_one_does():
    """Glorot's standard deviation sqrt(2 / (hidden + feature)) of each model, not of the stack."""
    mt.manual_seed(3)
    W = ToyModels(400, 11, 7).W.detach().numpy()
    assert W.std() == pytest.approx((2 / 18) ** 0.5, rel=0.02) and abs(W.mean()) < 0.01


@pytest.mark.parametrize("shape", [(7, 5), (7, 2, 5), (7, 3, 4), (3, 5), (1, 7, 3, 5)])
def test_several_models_refuse_other_shapes(shape):
    with pytest.raises(ShapeError, match="x has the wrong shape"):
        ToyModels(3, 5, 2)(mt.zeros(*shape))


def test_names_and_sizes_in_messages():
    assert repr(ToyModel(5, 2, relu=False)) == "ToyModel(5, 2, relu=False)"
    with pytest.raises(ArgumentError, match="num_models must be a non-negative integer"):
        ToyModels(-1, 5, 2)
    with pytest.raises(ArgumentError, match="num_features must be a non-negative integer"):
        polygon(-1)


def test_polygons_start_on_the_first_axis():
    np.testing.assert_allclose(polygon(4).numpy(), [[1, 0, -1, 0], [0, 1, 0, -1]], atol=1e-7)


def test_a_feature_is_present_below_its_density_only(monkeypatch):
    monkeypatch.setattr(mt.ops, "rand", lambda *shape, **options: mt.full(shape, 0.5))
    assert (sample_features(2, 3, 0.5) == 0).all() and (sample_features(2, 3, 0.51) == 0.5).all()
