"""The recipes `dino` and `igpt`: what they draw, and what they measure."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.data.digits import digits_split
from minitorch_attn.training.recipes.dino import DINODigits, standardized
from minitorch_attn.training.recipes.dino_collapse import collapse_runs, entropies
from minitorch_attn.training.recipes.image_gpt import IGPT, as_levels


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")
    pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def recipe():
    return DINODigits({"layers": 1, "heads": 2, "dim": 8, "batch": 5, "scenes": 1, "steps": 4,
                       "collapse_steps": 11})  # fmt: skip


def test_views(recipe):
    views = next(recipe.batches())
    assert [view.shape for view in views] == [(5, 1, 24, 24)] * 2 + [(5, 1, 12, 12)] * 3
    stream = recipe.batches()
    next(stream)
    again = recipe.batches()
    again.load_state_dict(stream.state_dict())
    for one, two in zip(next(stream), next(again), strict=True):
        assert (one == two).all()


def test_the_teacher_follows_the_student(recipe):
    loop = recipe.loop()
    before = recipe.model.teacher[1].mlp[0].weight.numpy().copy()
    recipe.model.train()
    loop.training_step(next(loop.batches))
    student = recipe.model.student[1].mlp[0].weight.detach().numpy()
    np.testing.assert_array_equal(recipe.model.teacher[1].mlp[0].weight.numpy(), before)
    recipe.after_step(1)
    moved = recipe.model.teacher[1].mlp[0].weight.numpy()
    np.testing.assert_allclose(moved, 0.98 * before + 0.02 * student, rtol=1e-5, atol=1e-7)
    expected = 0.1 * recipe.model.outputs.numpy().mean((0, 1))
    np.testing.assert_allclose(recipe.model.center.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_only_the_student_is_optimized(recipe):
    parameters = [p for group in recipe.parameter_groups() for p in group["params"]]
    students = [p for p in recipe.model.student.parameters() if p.requires_grad]
    assert {id(p) for p in parameters} == {id(p) for p in students}


def test_uniform_attention_has_a_focus_of_one(recipe, monkeypatch):
    uniform = np.full((240, 2, 64), 1 / 64)
    monkeypatch.setattr(recipe, "attention", lambda: uniform)
    np.testing.assert_allclose(recipe.focus(), 1)
    masks = recipe.test.masks()[:240].reshape(240, 8, 4, 8, 4).mean((2, 4)).reshape(240, 64)
    inside = (masks == 1) / (masks == 1).sum(1, keepdims=True)
    attention = np.stack([inside, uniform[:, 0]], 1)
    monkeypatch.setattr(recipe, "attention", lambda: attention)
    np.testing.assert_allclose(recipe.focus(), [1 / masks.mean(), 1])


def test_attention_sums_to_one(recipe):
    weights = recipe.attention(7)
    assert weights.shape == (7, 2, 64)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_entropies():
    peaks = mt.tensor([[90.0, 0, 0, 0], [0, 90.0, 0, 0]])
    np.testing.assert_allclose(entropies(peaks), (0, np.log(2)), atol=1e-6)
    np.testing.assert_allclose(entropies(mt.zeros(2, 3, 4)), (np.log(4), np.log(4)), atol=1e-6)


@pytest.mark.slow
def test_both_collapses():
    state = mt.get_rng_state()
    runs = collapse_runs(digits_split()[0], steps=101)
    assert np.all(mt.get_rng_state() == state)
    assert all(run.shape == (11, 2) for run in runs.values())
    assert runs["no centering"][-1, 1] < 0.1
    assert runs["no sharpening"][-1, 0] > 0.9 * np.log(32)
    assert runs["both"][-1, 1] - runs["both"][-1, 0] > 0.3


def test_pixels_are_standardized(recipe):
    np.testing.assert_allclose(standardized(np.array([0.1, 0.35])), [0, 1], atol=1e-6)
    pixels = standardized(recipe.known.images)
    assert abs(pixels.mean()) < 0.2 and abs(pixels.std() - 1) < 0.2


@pytest.mark.slow
def test_levels_and_completions():
    assert as_levels(np.array([[[0.0, 1.0]], [[0.5, 0.0334]]])).tolist() == [[0, 15], [8, 1]]
    recipe = IGPT({"layers": 1, "heads": 2, "dim": 8, "batch": 5, "steps": 3})
    drawn = recipe.complete(recipe.ids[1][0], 3)
    assert drawn.shape == (8, 8) and drawn.min() >= 0 and drawn.max() <= 1
    np.testing.assert_allclose(drawn[:3].reshape(-1) * 15, recipe.ids[1][0][:24])
    measured = recipe.measure([])
    np.testing.assert_allclose(measured["bits"], 4.0, rtol=1e-3)  # a new model knows nothing
    assert measured["probe"] == measured["probe, layer 1"]  # layer 0 has not compared pixels
