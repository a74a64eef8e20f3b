"""Recipes whose batches several workers may share: the gradients of the parts add up."""

import numpy as np
import pytest

from minitorch_attn.backend import get_rng_state, set_rng_state
from minitorch_attn.backend.batch_part import batch_part
from minitorch_attn.errors import MiniTorchError
from minitorch_attn.nn.batch_parts import batch_sizes, split_batch
from minitorch_attn.training.recipes import RECIPES, load_recipe

BATCH, PARTS, STEPS = 8, 3, 20
LOOKED_AT = (0, 10, 19)  # recipes in three phases have one step in each


def recipe_of(name):
    recipe_class = load_recipe(name)
    known = {option.name for option in recipe_class.OPTIONS}
    wanted = {"dtype": "float64", "steps": STEPS, "batch": BATCH, "dropout": 0.2}
    return recipe_class({key: value for key, value in wanted.items() if key in known})


def gradients(model):
    return {n: None if p.grad is None else p.grad.numpy().copy()
            for n, p in model.named_parameters()}  # fmt: skip


def largest_difference(recipe, batch):
    """Return the difference of loss and gradients, relative to the largest gradient."""
    model, state = recipe.model, get_rng_state()
    model.zero_grad()
    loss = recipe.loss(model, batch)
    loss.backward()
    whole = gradients(model)
    model.zero_grad()
    set_rng_state(state)
    parts = split_batch(batch, PARTS)
    rows, counts = [batch_sizes(p)[0] for p in parts], [recipe.count(p) for p in parts]
    total = 0.0
    for k, part in enumerate(parts):
        set_rng_state(state)
        with batch_part(sum(rows[:k]), rows[k], sum(rows)):
            part_loss = recipe.loss(model, part) * (counts[k] / sum(counts))
        part_loss.backward()
        total += part_loss.item()
    got = gradients(model)
    assert {n for n, g in got.items() if g is None} == {n for n, g in whole.items() if g is None}
    pairs = [(got[name], grad) for name, grad in whole.items() if grad is not None]
    scale = max(np.abs(grad).max() for _, grad in pairs)
    return max([abs(total - loss.item()), *[np.abs(a - b).max() / scale for a, b in pairs]])


def worst(name):
    recipe = recipe_of(name)
    recipe.model.train()
    stream = recipe.batches()
    batches = [next(stream) for _ in range(STEPS)]
    return max(largest_difference(recipe, batches[step]) for step in LOOKED_AT)


@pytest.mark.parametrize("name", [name for name in RECIPES if not load_recipe(name).one_process])
@pytest.mark.slow
def test_parts_add_up_to_the_batch(name):
    assert worst(name) < 1e-12


@pytest.mark.parametrize("name", ["captions", "clip", "detr", "nonlocal"])
@pytest.mark.slow
def test_recipes_that_need_one_process_do_differ(name):
    try:
        assert worst(name) > 1e-3
    except MiniTorchError:
        pass  # the batch cannot be split at all
