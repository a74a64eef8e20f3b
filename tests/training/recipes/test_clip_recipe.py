"""The recipe `clip`: what it draws, and what it measures."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.data.digit_scenes import cell_of
from minitorch_attn.data.digit_sentences import WORDS
from minitorch_attn.training.recipes.clip import Clip, SentenceBatches, pixels_of, ranked_first


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")
    pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def recipe():
    return Clip({"layers": 1, "heads": 2, "dim": 8, "batch": 5, "scenes": 700, "galleries": 2,
                 "places_steps": 3, "dtype": "float64"})  # fmt: skip


@pytest.mark.parametrize("places", [False, True])
def test_batches(recipe, places):
    stream = SentenceBatches(recipe, places)
    images, ids = next(stream)
    assert images.shape == (5, 1, 30, 30) and ids.shape == (5, 12)
    assert images.dtype == mt.float64 and (ids[:, 0] == 1).all()
    named = [[WORDS[i] for i in row if 17 <= i < 26] for row in ids.tolist()]
    assert all(bool(words) == places for words in named)
    digits = [[i for i in row if 2 <= i < 12] for row in ids.tolist()]
    assert all(len(row) in (2, 3) for row in digits)
    again = SentenceBatches(recipe, places)
    again.load_state_dict(stream.state_dict())
    for one, two in zip(next(stream), next(again), strict=True):
        assert (one == two).all()
    assert (next(recipe.batches())[1].numpy() < 17).any(1).all()  # digits without places


def test_each_cell_is_one_patch(recipe):
    pixels = pixels_of(recipe.test)[:, 0].reshape(-1, 3, 10, 3, 10)
    ink = pixels.any((2, 4))
    for scene in range(50):
        cells = {cell_of(c) for c in recipe.test.corners[scene] if c[0] >= 0}
        assert cells == set(map(tuple, np.argwhere(ink[scene])))


def test_galleries(recipe):
    assert recipe.chosen.shape == (2, 100)
    for chosen in recipe.chosen:
        kinds = {tuple(sorted(recipe.test.digits[i])) for i in chosen}
        assert len(kinds) == 100
    assert (recipe.chosen[0] != recipe.chosen[1]).any()


def test_ranked_first():
    logits = np.array([[3.0, 1.0, 0.0], [4.0, 2.0, 0.0], [0.0, 1.0, 5.0]])
    assert ranked_first(logits) == pytest.approx((2 / 3, 2 / 3))
    assert ranked_first(logits[:, [1, 0, 2]]) == pytest.approx((2 / 3, 2 / 3))
    assert ranked_first(np.array([[1.0, 2.0], [0.0, 3.0]])) == pytest.approx((0.5, 1.0))


def test_measures_of_a_perfect_and_of_a_blind_model(recipe, monkeypatch):
    counts = np.zeros((len(recipe.test.digits), 10))
    for scene, digits in enumerate(recipe.test.digits):
        np.add.at(counts[scene], digits[digits >= 0], 1)
    same = np.exp(-((counts[:, None] - counts[None]) ** 2).sum(-1))
    monkeypatch.setattr(
        recipe, "gallery_logits", lambda model, chosen, places=False: same[np.ix_(chosen, chosen)]
    )
    assert recipe.retrieval(None) == {"image_to_text": 1.0, "text_to_image": 1.0}
    monkeypatch.setattr(
        recipe, "gallery_logits", lambda model, chosen, places=False: np.zeros((100, 100))
    )
    assert recipe.retrieval(None) == pytest.approx({"image_to_text": 0.01, "text_to_image": 0.01})
    monkeypatch.setattr(recipe, "zero_shot", lambda model, places: recipe.single.digits[:, 0])
    assert recipe._read(None) == 1.0


def test_layout_alone(recipe):
    """Counted scene by scene."""
    layouts = [tuple(map(tuple, np.where(c >= 0, (c - 1) // 10, -1))) for c in recipe.test.corners]
    shares = []
    for chosen in recipe.chosen:
        own = [layouts[i] for i in chosen]
        shares += [1 / own.count(layout) for layout in own]
    assert recipe.layout_alone() == pytest.approx(np.mean(shares))
    assert 0.4 < recipe.layout_alone() < 0.8


def test_the_temperature_is_limited(recipe):
    mt.nn.init.constant_(recipe.model.logit_scale, 9.0)
    recipe.after_step(1)
    assert recipe.model.logit_scale.exp().item() == pytest.approx(100)
    mt.nn.init.constant_(recipe.model.logit_scale, 2.0)


def test_training_with_places_leaves_everything_as_it_was(recipe):
    before = {k: p.numpy().copy() for k, p in recipe.model.state_dict().items()}
    mt.manual_seed(5)
    expected = mt.rand(3).tolist()
    mt.manual_seed(5)
    other = recipe.train_with_places()
    assert mt.rand(3).tolist() == expected
    for key, value in recipe.model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])
    assert (other.text.head.weight != recipe.model.text.head.weight).any() and not other.training


def test_relevance_and_focus(recipe):
    maps = recipe.relevance(7)
    assert maps.shape == (7, 3, 3, 3)
    np.testing.assert_allclose(maps.sum((2, 3)), 1)
    expected = [
        maps[scene, place][cell_of(recipe.test.corners[scene, place])]
        for scene, place in np.argwhere(recipe.test.digits[:7] >= 0)
    ]
    assert recipe.focus(7) == pytest.approx(9 * np.mean(expected))


def test_baselines(recipe):
    """The loss of logits that are large exactly for the same digits."""
    keys = [tuple(sorted(digits)) for digits in recipe.test.digits[:5]]
    logits = 1e3 * np.array([[float(a == b) for b in keys] for a in keys])
    loss = mt.models.contrastive_loss(mt.tensor(logits)).item()
    found = recipe.baselines()
    assert found == pytest.approx({"guessing": np.log(5), "all digits read": loss})
