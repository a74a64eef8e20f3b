"""The recipe `uniter`: its phases, its tasks, and what it measures."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.data.scene_questions import CLS, MASK, PAD, SEP, WORDS, draw_captions
from minitorch_attn.models.uniter import region_kl_loss, region_regression_loss
from minitorch_attn.training.recipes.uniter import Uniter
from minitorch_attn.training.recipes.uniter_stream import IGNORED, locations, mask_words


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")
    pytest.importorskip("sklearn")


def make(**options):
    small = {"dim": 8, "layers": 1, "heads": 2, "batch": 5, "scenes": 23, "labels": 30}
    return Uniter({**small, "steps": 20, "warmup": 2, **options})


def batch_of(recipe, name):
    return next(batch for batch in recipe.batches() if name in batch)


def test_phases():
    recipe = make(steps=100, questions=0.1)
    assert recipe.phase(0) == recipe.phase(69) == ("pretraining", 0, 70)
    assert [recipe.phase(n) for n in (70, 89, 99, 100)] == [
        ("full", 70, 80), ("tenth", 80, 90), ("scratch", 90, 100), ("scratch", 90, 100),
    ]  # fmt: skip


def test_locations():
    """UNITER's seven numbers, and codes that depend on the middle only."""
    found = locations(np.array([[4.0, 8.0, 12.0, 24.0], [6.0, 12.0, 10.0, 20.0]]))
    np.testing.assert_allclose(found[0, :7], [0.125, 0.25, 0.375, 0.75, 0.25, 0.5, 0.125])
    np.testing.assert_allclose(found[0, 7:], found[1, 7:])
    x, y = np.pi * np.arange(1, 4) / 4, np.pi * np.arange(1, 4) / 2
    codes = [np.sin(x), np.cos(x), np.sin(y), np.cos(y)]
    np.testing.assert_allclose(found[0, 7:], np.concatenate(codes), atol=1e-12)


def test_masked_words():
    """One word of each half of a sentence; never the comma, the ends or padding."""
    recipe = make(scenes=400)
    masked, labels = mask_words(recipe.captions, np.random.default_rng(3))
    chosen = labels != IGNORED
    np.testing.assert_array_equal(np.where(chosen, labels, masked), recipe.captions)
    assert (labels[chosen] > MASK).all()
    hidden = masked == MASK
    assert (hidden <= chosen).all() and 0.7 < hidden.sum() / chosen.sum() < 0.9
    assert WORDS.index(",") not in labels
    two = (recipe.captions == WORDS.index(",")).any(1)
    np.testing.assert_array_equal(chosen.sum(1), 1 + two)
    assert set(np.nonzero(chosen)[1]) == {1, 2, 3, 5, 6, 7}


def test_the_detector_reads_digits():
    recipe = make()
    scenes = recipe.test.scenes
    features, classes = recipe.detector(scenes.crops)
    real = scenes.digits >= 0
    assert (classes.argmax(-1) == scenes.digits)[real].mean() > 0.85
    assert features.shape[-1] == 32 and abs(features[real].std() - 1) < 0.5


def test_words_come_first_then_every_task():
    recipe = make(steps=200, words=0.5)
    kinds = [batch.keys() for _, batch in zip(range(134), recipe.batches(), strict=False)]
    assert all("labels" in kind for kind in kinds[:67])
    for name in ("labels", "hidden", "matches"):
        assert any(name in kind for kind in kinds[67:])


def test_losses_of_regions_and_matching():
    recipe = make(steps=200, words=0.0, dtype="float64", alignment=0.3, regression=0.7)
    model = recipe.model.pretraining
    batch = batch_of(recipe, "hidden")
    hidden, chosen = batch["hidden"], batch["predicted"]
    assert chosen.sum(1).numpy().min() >= 1 and not (chosen & batch["absent"]).any()
    assert not (hidden & ~chosen).any()
    found = model(batch["ids"], batch["features"], batch["boxes"], batch["ids"] == PAD,
                  batch["absent"], hidden)  # fmt: skip
    logits = model.word_head(found.hidden[:, 9:])[..., 4:14]  # the words "zero" to "nine"
    assert WORDS[4:14:9] == ("zero", "nine")
    expected = region_kl_loss(logits, batch["classes"], chosen)
    expected = expected + 0.7 * region_regression_loss(found.features, batch["features"], chosen)
    assert abs(recipe.loss(recipe.model, batch).item() - expected.item()) < 1e-12
    batch = batch_of(recipe, "matches")
    found = model(batch["ids"], batch["features"], batch["boxes"], batch["ids"] == PAD,
                  batch["absent"])  # fmt: skip
    matches, p = batch["matches"].numpy(), 1 / (1 + np.exp(-found.score.numpy()))
    distance, _ = mt.models.uniter.word_region_alignment(
        found.hidden[:, :9], found.hidden[:, 9:], batch["ids"] <= MASK, batch["absent"]
    )
    expected = -np.log(np.where(matches, p, 1 - p)).mean()
    expected += 0.3 * (distance.numpy() * matches).mean()
    assert abs(recipe.loss(recipe.model, batch).item() - expected) < 1e-10


def test_exchanged_sentences_belong_to_the_scene_before():
    recipe = make(steps=200, words=0.0, batch=64)
    batch = batch_of(recipe, "matches")
    assert 0.25 < batch["matches"].numpy().mean() < 0.75


@pytest.mark.parametrize("which", ["full", "tenth", "scratch"])
def test_questions_train_one_model(which):
    recipe = make(dtype="float64")
    batch = batch_of(recipe, which)
    recipe.loss(recipe.model, batch).backward()
    got = {name.split(".")[0] for name, p in recipe.model.named_parameters() if p.grad is not None}
    assert got == {which}


def test_copies_start_from_the_pretrained_network():
    recipe = make(steps=10, questions=0.1)
    names = ("pretraining", "full", "tenth", "scratch")

    def weights():
        return [
            getattr(recipe.model, n).uniter.layers[0].norm1.weight.numpy().copy() for n in names
        ]

    assert all((w == weights()[0]).all() for w in weights())
    heads = [getattr(recipe.model, n).head.weight.numpy() for n in names[1:]]
    assert (heads[0] == heads[1]).all() and (heads[0] == heads[2]).all()
    recipe.loop().train(10)
    first, full, tenth, scratch = weights()
    assert not (first == scratch).all() and abs(full - first).max() < abs(scratch - first).max()
    assert not (full == tenth).all()


def test_labels():
    recipe = make(labels=300)
    sets = recipe.labeled
    assert (
        sets["tenth"] is sets["scratch"] and len(sets["tenth"].ids) == len(sets["full"].ids) // 10
    )
    np.testing.assert_array_equal(sets["tenth"].ids, sets["full"].ids[: len(sets["tenth"].ids)])
    assert (sets["full"].scenes.digits >= 0).sum(1).min() >= 3


def test_measures(monkeypatch):
    recipe = make(scenes=60)
    monkeypatch.setattr(Uniter, "alignment", lambda self: np.stack([
        np.eye(4)[np.maximum(row, 0)] for row in self.named]))  # fmt: skip
    assert recipe.aligned() == 1
    right = {"full": recipe.test.answers, "tenth": recipe.test.answers * 0,
             "scratch": recipe.test.answers - 1}  # fmt: skip
    monkeypatch.setattr(Uniter, "answers", lambda self, which, questions: right[which])
    measured = recipe.measure([])
    assert measured["full"] == 1 and measured["scratch"] == 0
    assert measured["gain"] == measured["tenth"] == (recipe.test.answers == 0).mean()


def test_the_prompt_is_a_caption(monkeypatch):
    recipe, seen = make(scenes=60), []
    forward = recipe.model.pretraining.forward

    def spy(ids, *inputs, **masks):
        seen.append(ids.numpy())
        return forward(ids, *inputs, **masks)

    recipe.model.pretraining.forward = spy
    recipe.prompted()
    asked = recipe.test.ids[recipe.test.kind == 1]
    for row, question in zip(np.concatenate(seen), asked, strict=True):
        assert row.tolist() == [CLS, MASK, question[3], question[5], SEP]


def test_plans():
    recipe = make(scenes=12)
    plans = recipe.alignment(5)
    words, real = recipe.captions[:5] > MASK, recipe.captioned.digits[:5] >= 0
    assert plans.shape == (5, 9, 4)
    np.testing.assert_allclose(plans.sum((1, 2)), 1, rtol=1e-3)
    assert not plans[~words].any() and not plans.swapaxes(1, 2)[~real].any()
    ids, regions = draw_captions(recipe.captioned, np.random.default_rng(1))
    assert ids.shape == regions.shape
