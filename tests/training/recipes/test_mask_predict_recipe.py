"""Mask-Predict recipe: both models on the same batches, and what the picture shows."""

import numpy as np
import pytest

from minitorch_attn.training.recipes import load_recipe


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")


@pytest.fixture(scope="module")
def recipe():
    return load_recipe("mask-predict")(
        {"layers": 1, "heads": 2, "dim": 8, "batch": 3, "held_out": 5}
    )


def test_each_model_has_its_own_loss(recipe):
    """The gradient of the sum at one model does not depend on the other model."""
    batch = next(recipe.batches())

    def gradients(model):
        recipe.model.zero_grad()
        recipe.loss(recipe.model, batch).backward()
        return [p.grad.numpy().copy() for p in model.parameters()]

    models = (recipe.model.one_by_one, recipe.model.at_once)
    for model, other in (models, models[::-1]):
        before, kept = gradients(model), [p.numpy().copy() for p in other.parameters()]
        for p in other.parameters():
            p.data = p.data * 0.5
        for a, b in zip(gradients(model), before, strict=True):
            np.testing.assert_array_equal(a, b)
        for p, value in zip(other.parameters(), kept, strict=True):
            p.data = p.data * 0 + value


def test_a_batch_depends_on_seed_and_position(recipe):
    stream, other = recipe.batches(), recipe.batches()
    first, second = next(stream), next(stream)
    other.load_state_dict({"position": 1})
    for a, b, c in zip(second, next(other), first, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert a.shape != c.shape or (a.numpy() != c.numpy()).any()


def test_the_passes_end_with_the_answer(recipe):
    source = recipe.held_out[0][0]
    for count in (1, 4):
        passes = recipe.passes(source, count)
        n = len(passes[0][0])
        masked = [int(mask.sum()) for _, mask, _ in passes]
        assert masked == [k for k in (n * (count - t) // count for t in range(count)) if k]
        text = "".join(passes[-1][0]).split("_")[0]
        assert recipe.parallel([source], count)[0].startswith(text)
        for (_, mask, new), (_, _, old) in zip(passes[1:], passes, strict=False):
            assert (new[~mask] == old[~mask]).all() and mask[old.argmin()]
