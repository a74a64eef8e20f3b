"""Optimal transport by IPOT: against loops, against linear programs, padding, and the gradient."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.models.transport import cosine_cost, transport_plan, word_region_alignment


def ipot_by_loops(cost, beta, iterations, inner):
    """Algorithm 1 of arXiv:1802.04307, one entry at a time."""
    m, n = cost.shape
    plan, sigma = np.ones((m, n)), np.full(m, 1 / m)
    for _ in range(iterations):
        q = np.exp(-cost / beta) * plan
        for _ in range(inner):
            delta = [1 / (n * sum(q[i, j] * sigma[i] for i in range(m))) for j in range(n)]
            sigma = [1 / (m * sum(q[i, j] * delta[j] for j in range(n))) for i in range(m)]
        plan = np.array([[sigma[i] * q[i, j] * delta[j] for j in range(n)] for i in range(m)])
    return plan


@pytest.mark.parametrize("iterations, inner", [(1, 1), (7, 1), (5, 3)])
def test_equals_loops(iterations, inner):
    cost = np.random.default_rng(0).random((2, 3, 5))
    plan = transport_plan(mt.tensor(cost), beta=0.3, iterations=iterations, inner=inner).numpy()
    for found, one in zip(plan, cost, strict=True):
        np.testing.assert_allclose(found, ipot_by_loops(one, 0.3, iterations, inner), rtol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1), (3, 7), (6, 4)])
def test_the_plan_is_optimal(shape):
    """Against a linear program; rows sum to 1/m and columns to 1/n."""
    optimize = pytest.importorskip("scipy.optimize")
    cost = np.random.default_rng(1).random(shape)
    m, n = shape
    plan = transport_plan(mt.tensor(cost[None]), beta=0.1, iterations=3000).numpy()[0]
    np.testing.assert_allclose(plan.sum(1), 1 / m, rtol=1e-6)
    np.testing.assert_allclose(plan.sum(0), 1 / n, rtol=1e-6)
    rows = np.kron(np.eye(m), np.ones(n))
    columns = np.kron(np.ones(m), np.eye(n))
    best = optimize.linprog(
        cost.ravel(), A_eq=np.concatenate([rows, columns]),
        b_eq=np.r_[np.full(m, 1 / m), np.full(n, 1 / n)],
    )  # fmt: skip
    assert abs((plan * cost).sum() - best.fun) < 1e-6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_padding_does_not_matter(dtype):
    """Neither the number of padding vectors nor what they contain changes a row."""
    rng = np.random.default_rng(2)
    words, regions = (rng.normal(size=(3, n, 5)).astype(dtype) for n in (4, 6))
    lengths = [(4, 6), (2, 1), (3, 4)]
    word_pad = np.arange(4) >= np.array(lengths)[:, :1]
    region_pad = np.arange(6) >= np.array(lengths)[:, 1:]
    words[word_pad], regions[region_pad] = 1e3, 0.0
    distance, plan = word_region_alignment(
        mt.tensor(words), mt.tensor(regions), mt.tensor(word_pad), mt.tensor(region_pad)
    )
    assert distance.dtype == plan.dtype == np.dtype(dtype)
    for i, (m, n) in enumerate(lengths):
        alone, small = word_region_alignment(
            mt.tensor(words[i : i + 1, :m]), mt.tensor(regions[i : i + 1, :n])
        )
        np.testing.assert_allclose(distance.numpy()[i], alone.item(), rtol=2e-5)
        np.testing.assert_allclose(plan.numpy()[i, :m, :n], small.numpy()[0], rtol=2e-4, atol=1e-7)
        assert plan.numpy()[i, m:].sum() == plan.numpy()[i, :, n:].sum() == 0


@pytest.mark.parametrize("words, regions", [(0, 3), (3, 0), (2, 2)])
def test_rows_without_words_or_regions(words, regions):
    word_pad = mt.ones(1, words, dtype="bool")
    distance, plan = word_region_alignment(
        mt.ones(1, words, 5), mt.ones(1, regions, 5), word_padding_mask=word_pad
    )
    assert distance.item() == 0 and plan.shape == (1, words, regions) and not plan.numpy().any()


def test_the_gradient_has_the_plan_as_a_constant():
    rng = np.random.default_rng(3)
    words, regions = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 4, 5))
    _, plan = word_region_alignment(mt.tensor(words), mt.tensor(regions), iterations=4)
    assert not plan.requires_grad
    ours = [mt.tensor(x, requires_grad=True) for x in (words, regions)]
    word_region_alignment(*ours, iterations=4)[0].sum().backward()
    plain = [mt.tensor(x, requires_grad=True) for x in (words, regions)]
    (plan * cosine_cost(*plain)).sum().backward()
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)


def test_the_gradient_is_exact_at_the_optimum():
    """The envelope theorem: differences of the distance itself."""
    rng = np.random.default_rng(4)
    words, regions = (mt.tensor(rng.normal(size=(1, n, 5)), requires_grad=True) for n in (3, 4))
    options = dict(beta=0.05, iterations=600)
    assert gradcheck(
        lambda a, b: word_region_alignment(a, b, **options)[0], (words, regions),
        eps=1e-4, tol=1e-4, fast=True,
    )  # fmt: skip


def test_cosine_cost():
    rng = np.random.default_rng(5)
    words, regions = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 4, 5))
    words[0, 1] = 0
    cost = cosine_cost(mt.tensor(words), mt.tensor(regions)).numpy()
    for b, i, j in np.ndindex(cost.shape):
        size = np.linalg.norm(words[b, i]) * np.linalg.norm(regions[b, j])
        cosine = words[b, i] @ regions[b, j] / size if size else 0
        np.testing.assert_allclose(cost[b, i, j], 1 - cosine, rtol=1e-12)


@pytest.mark.parametrize("option", [{"beta": 0.0}, {"iterations": 0}, {"inner": 0}])
def test_settings_must_be_positive(option):
    with pytest.raises(ArgumentError, match="positive"):
        transport_plan(mt.ones(1, 2, 3), **option)


def test_shapes_must_match():
    with pytest.raises(ShapeError, match="words and regions"):
        word_region_alignment(mt.ones(2, 3, 5), mt.ones(2, 3, 7))
    with pytest.raises(ShapeError, match="region_padding_mask"):
        transport_plan(mt.ones(1, 2, 3), region_padding_mask=mt.tensor([[True, False]]))
    with pytest.raises(ShapeError, match="word_padding_mask"):
        transport_plan(mt.ones(1, 2, 3), word_padding_mask=mt.ones(1, 2))
