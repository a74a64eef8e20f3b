"""Every recipe: options, the loop, equal runs from equal seeds, exact resuming."""

import json

import numpy as np
import pytest
from marks import slow_except

from minitorch_attn.cli.recipe_output import Page
from minitorch_attn.errors import ArgumentError, DataError
from minitorch_attn.training import RunFolder
from minitorch_attn.training.recipes import RECIPES, Recipe, Target, defaults, load_recipe

SMALL = {
    "gpt": {"layers": 1, "heads": 2, "dim": 8, "context": 8, "batch": 3},
    "dates": {"layers": 1, "heads": 2, "dim": 8, "batch": 3, "held_out": 23},
    "t5": {"layers": 1, "heads": 2, "dim": 8, "batch": 3, "dropout": 0.1},
    "bert": {"layers": 1, "heads": 2, "dim": 8, "batch": 3, "finetune": 4, "labels": 2},
    "vit": {"layers": 1, "heads": 2, "dim": 8, "batch": 5},
    "swin": {"layers": 1, "heads": 1, "dim": 8, "batch": 3},
    "mae": {"layers": 1, "heads": 2, "dim": 8, "batch": 5, "decoder_dim": 8},
    "seq2seq": {"layers": 1, "dim": 8, "batch": 3, "held_out": 23},
    "mask-predict": {"layers": 1, "heads": 2, "dim": 8, "batch": 3, "held_out": 23},
    "nonlocal": {"dim": 8, "batch": 3, "scenes": 11},
    "superposition": {"batch": 7, "restarts": 1},
    "words": {"dim": 6, "cells": 7, "batch": 3, "pairs": 5, "fewest": 30},
    "captions": {"dim": 8, "batch": 3, "scenes": 11},
    "clip": {
        "layers": 1,
        "heads": 2,
        "dim": 8,
        "batch": 3,
        "scenes": 600,
        "galleries": 1,
        "places_steps": 2,
    },
    "detr": {"layers": 1, "heads": 2, "dim": 8, "batch": 3, "queries": 5, "scenes": 11},
    "dino": {"layers": 1, "heads": 2, "dim": 8, "batch": 3, "scenes": 1, "collapse_steps": 11},
    "igpt": {"layers": 1, "heads": 2, "dim": 8, "batch": 5},
    "mvit": {"dim": 4, "layers": 1, "batch": 3, "clips": 23},
    "speech": {
        "layers": 1,
        "heads": 2,
        "dim": 8,
        "batch": 3,
        "channels": 2,
        "kernel": 3,
        "utterances": 13,
        "test": 5,
    },
    "uniter": {"layers": 1, "heads": 2, "dim": 8, "batch": 5, "scenes": 23, "labels": 30},
    "vatt": {
        "layers": 1,
        "audio_layers": 1,
        "heads": 2,
        "dim": 8,
        "batch": 3,
        "clips": 23,
        "galleries": 2,
        "speakers": 1,
    },
}
NEEDS_DIGITS = {
    "vit", "swin", "mae", "captions", "clip", "detr", "dino", "igpt", "mvit", "uniter", "vatt",
}  # fmt: skip
# With batch normalization or a loss over all pairs, a batch cannot be split.
BATCH_STATISTICS = {"captions", "clip", "detr", "dino", "nonlocal", "speech", "vatt"}


@pytest.fixture(autouse=True)
def once(request):
    """Recipes choose their device by an option."""
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")


# For tests that train for a while: with the other recipes, they are slow.
FOR_A_WHILE = pytest.mark.parametrize(
    "name", slow_except(("gpt", "dates", "vit", "nonlocal"), RECIPES), indirect=True
)


@pytest.fixture(params=RECIPES)
def name(request):
    if request.param in NEEDS_DIGITS:
        pytest.importorskip("sklearn")
    return request.param


def make(name, **options):
    options = {**SMALL[name], "steps": 9, "eval_every": 3, "warmup": 2, **options}
    return load_recipe(name)(options)


def stop_at(loop, last):
    def after(step):
        loop.stop_requested = step == last

    return after


class Silent:
    """A console that keeps what is printed."""

    def __init__(self):
        self.text = ""

    def print(self, text="", **style):
        self.text += f"{text}\n"


def test_every_recipe_is_small_here():
    assert set(SMALL) == set(RECIPES)


def test_what_a_recipe_says_of_itself(name):
    recipe_class = load_recipe(name)
    assert issubclass(recipe_class, Recipe) and recipe_class.name == name
    assert recipe_class.summary and recipe_class.headline.endswith(".")
    assert recipe_class.__doc__.startswith("Train ")
    names = [option.name for option in recipe_class.OPTIONS]
    assert len(set(names)) == len(names)
    assert {"steps", "seed", "device", "batch", "lr", "eval_every"} <= set(names)
    assert set(recipe_class.changeable) <= set(names)


@FOR_A_WHILE
def test_a_run_from_beginning_to_end(name, tmp_path):
    """Every figure is measured, every page printed, every picture drawn."""
    recipe = make(name)
    run = RunFolder.create(tmp_path / "run", {"options": recipe.options})
    page = Page(run, recipe.baselines(), Silent())
    recipe.preface(page)
    assert recipe.loop(run).train(9)
    measured = recipe.measure(run.metrics())
    assert recipe.target.metric in measured
    assert all(np.isfinite(value) for value in measured.values())
    assert recipe.show(page, measured) is True
    page.write_result(recipe, measured)
    result = json.loads((run.path / "result.json").read_text())
    assert result["recipe"] == name and result["measured"] == measured
    assert result["reached"] is recipe.target.reached(result["value"])
    pictures = [file for file in page.files if file.endswith(".png")]
    assert "loss.png" in pictures and len(pictures) >= (1 if name == "t5" else 2)
    for file in page.files:
        if file not in ("config.json", "metrics.jsonl"):
            assert (run.path / file).exists(), file
    assert recipe.last_words(run.path) and recipe.facts()


@pytest.mark.slow
def test_a_resumed_run_equals_an_unbroken_one(name, tmp_path):
    whole = RunFolder.create(tmp_path / "whole", {})
    recipe = make(name, dropout=0.1)
    recipe.loop(whole).train(9)
    for stop in (2, 5, 7):
        run = RunFolder.create(tmp_path / f"run-{stop}", {})
        first = make(name, dropout=0.1).loop(run)
        first.on_step.append(stop_at(first, stop))
        assert not first.train(9)
        second = make(name, dropout=0.1, seed=recipe.options["seed"])
        loop = second.loop(run)
        assert loop.resume() == stop
        loop.train(9)
        assert (run.path / "metrics.jsonl").read_bytes() == (
            whole.path / "metrics.jsonl"
        ).read_bytes()
        pairs = zip(recipe.model.parameters(), second.model.parameters(), strict=True)
        assert all((a.numpy() == b.numpy()).all() for a, b in pairs)


@FOR_A_WHILE
def test_the_seed_decides(name):
    losses = []
    for seed in (1, 1, 2):
        loop = make(name, seed=seed).loop()
        losses.append([loop.training_step(next(loop.batches))[0].item() for _ in range(3)])
    assert losses[0] == losses[1] != losses[2]


@FOR_A_WHILE
@pytest.mark.parametrize("parts", ["threads", "processes"])
def test_two_parts_give_the_gradient_of_one(name, parts):
    """A batch that is shared out has the loss and the gradients of the whole."""
    if name in BATCH_STATISTICS:
        with pytest.raises(ArgumentError, match=f"{parts} must be 1, because"):
            make(name, **{parts: 2}).loop()
        return
    losses, gradients = [], []
    for count in (1, 2):
        recipe = make(name, **{parts: count}, dtype="float64", batch=6, dropout=0.0)
        loop = recipe.loop()
        losses.append(loop.backward(next(loop.batches)).item())
        gradients.append([p.grad.numpy() for p in recipe.model.parameters() if p.grad is not None])
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    for one, two in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-13)


def test_the_options_that_matter_change_the_data(name):
    recipe = make(name)
    recipe.check_data(dict(recipe.data))
    with pytest.raises(DataError, match="this run was started with"):
        recipe.check_data({**recipe.data, "sha256": "0" * 64})


@FOR_A_WHILE
def test_steps_in_a_time_leave_the_run_as_it_was(name):
    still = {"dropout": 0.0, **({"drop_rate": 0.0} if name == "vatt" else {})}  # nothing is drawn
    recipe = make(name, **still)
    before = [p.numpy().copy() for p in recipe.model.parameters()]
    assert recipe.steps_in(0.5) >= 1
    after = [p.numpy() for p in recipe.model.parameters()]
    assert all((a == b).all() for a, b in zip(after, before, strict=True))
    other = make(name, **still)
    recipe.loop().train(2)
    other.loop().train(2)
    pairs = zip(recipe.model.parameters(), other.model.parameters(), strict=True)
    assert all((a.numpy() == b.numpy()).all() for a, b in pairs)


def test_the_learning_rate_rises_and_falls(name):
    recipe = make(name, steps=400, warmup=20, **({"finetune": 100} if name == "bert" else {}))
    factors = [recipe.learning_rate_factor(step) for step in range(401)]
    assert max(factors) <= 1 and factors[0] < 0.1 and factors[20] > 0.97
    assert factors[-1] <= recipe.lowest_rate + 1e-3


def test_targets():
    loss = Target("loss", 1.5, "loss", higher_is_better=False, percent=False)
    assert str(loss) == "loss: at most 1.500"
    assert loss.reached(1.5) and not loss.reached(1.6)
    accuracy = Target("accuracy", 0.99, "accuracy")
    assert accuracy.reached(0.99) and not accuracy.reached(0.9899)


def test_defaults():
    assert defaults(load_recipe("gpt").OPTIONS)["dim"] == 128
