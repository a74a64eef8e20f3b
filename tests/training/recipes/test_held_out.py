"""No test example of a recipe occurs in its training data."""

import numpy as np
import pytest

from minitorch_attn.backend import to_host
from minitorch_attn.training.recipes import load_recipe


def drawn(recipe, count):
    """The sources of some training batches, as text."""
    batches = recipe.batches()
    rows = [row for _ in range(count) for row in to_host(next(batches)[0].array)]
    return {recipe.tokenizer.decode(row) for row in rows}


def test_no_held_out_date_is_trained_on_in_any_form():
    recipe = load_recipe("dates")({"dim": 8, "layers": 1, "batch": 500})
    batches = recipe.batches()
    answers = set()
    for _ in range(4):
        answers |= {recipe.tokenizer.decode(row) for row in to_host(next(batches)[1].array)}
    assert len(answers) > 1800
    assert not answers & {target for _, target in recipe.held_out}
    assert len(recipe.held_out) == len(set(recipe.held_out)) == 2000


def test_no_held_out_date_is_written_in_words_in_training():
    recipe = load_recipe("mask-predict")({"dim": 8, "layers": 1, "batch": 500})
    sources, held_out = drawn(recipe, 4), {source for source, _ in recipe.held_out}
    assert len(sources) > 1800 and len(held_out) == 1000 and not sources & held_out


def test_no_held_out_text_is_trained_on():
    recipe = load_recipe("t5")({"dim": 8, "layers": 1, "batch": 500, "shortest": 3, "longest": 4})
    sources, held_out = drawn(recipe, 4), {source for source, _ in recipe.held_out}
    assert len(sources) > 1500 and not sources & held_out
    sums = {s.removeprefix("add: ") for s in held_out if s.startswith("add")}
    turned = {" + ".join(reversed(s.split(" + "))) for s in sums}
    assert not {f"add: {s}" for s in turned} & sources


def test_bert_reads_no_test_passage():
    recipe = load_recipe("bert")({"dim": 8, "layers": 1})
    reading = " | ".join(" ".join(map(str, run)) for run in recipe.reading)
    passages = recipe.test[0][:, 1:-1]
    assert len(passages) > 100
    assert not [passage for passage in passages if " ".join(map(str, passage)) in reading]
    labelled = {tuple(row) for row in recipe.labelled[0]}
    assert not labelled & {tuple(row) for row in recipe.test[0]}
    assert (np.bincount(recipe.labelled[1]) == recipe.options["labels"]).all()


@pytest.mark.parametrize("name", ["vit", "mae"])
def test_digits_are_split_by_digit(name):
    pytest.importorskip("sklearn")
    recipe = load_recipe(name)({"dim": 8, "layers": 1})
    (images, labels), (test_images, test_labels) = recipe.training, recipe.test
    assert len(images) == 1437 and len(test_images) == 360
    shares = [np.bincount(part) / len(part) for part in (labels, test_labels)]
    assert np.abs(shares[0] - shares[1]).max() < 0.002
    seen = {image.tobytes() for image in images}
    assert not [image for image in test_images if image.tobytes() in seen]
