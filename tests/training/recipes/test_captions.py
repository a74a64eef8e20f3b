"""The recipe `captions`: its phases, its ids, and what it measures."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.data.digit_scenes import draw_scenes
from minitorch_attn.training.recipes.caption_stream import (
    as_ids,
    as_text,
    as_words,
    position_codes,
    words_at_positions,
)
from minitorch_attn.training.recipes.captions import Captions


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")
    pytest.importorskip("sklearn")


def make(**options):
    return Captions({"dim": 8, "batch": 3, "scenes": 13, "steps": 20, "warmup": 2, **options})


def test_ids_and_words():
    captions = [["one", "above", "two", ",", "left of", "six"], ["nine"], []]
    ids = as_ids(captions)
    assert ids.shape == (3, 9) and ids[:, 0].tolist() == [1, 1, 1]
    assert [as_words(row) for row in ids] == captions
    assert as_words(ids[0, :4]) == ["one", "above", "two"]  # without an end
    assert as_text(captions[0]) == "one above two, left of six"


def test_the_word_at_each_position(rng):
    digits = np.ones((10, 1, 8, 8), np.float32)
    scenes = draw_scenes(40, digits, np.arange(10), rng, most=9)
    found = words_at_positions(scenes).reshape(40, 8, 8)
    for n, row, column in np.ndindex(40, 8, 8):
        inside = [
            digit
            for digit, (top, left) in zip(scenes.digits[n], scenes.corners[n], strict=True)
            if digit >= 0 and 0 <= 4 * row + 1 - top < 8 and 0 <= 4 * column + 1 - left < 8
        ]
        assert found[n, row, column] == (3 + inside[0] if inside else 0)
    assert ((found > 0).sum((1, 2)) == 4 * (scenes.digits >= 0).sum(1)).all()


def test_pretraining_trains_the_words_of_the_decoder():
    """The loss is the weighted cross-entropy of L_o L_z a, and reaches only what it computes."""
    recipe = make(pretraining=0.5, dtype="float64")
    batch = next(recipe.batches())
    decoder, words = recipe.model.soft, batch["cells"].numpy()
    loss = recipe.loss(recipe.model.train(), batch)
    loss.backward()
    got = {name for name, p in decoder.named_parameters() if p.grad is not None}
    assert got == {"L_z.weight", "L_o.weight"}
    a = recipe.model.encoder(batch["images"]).detach().numpy()
    logits = a @ decoder.L_z.weight.numpy().T @ decoder.L_o.weight.numpy().T
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    each = np.take_along_axis(log_p, words[..., None], -1)[..., 0]
    weight = np.where(words == 0, 0.3, 1.0)
    np.testing.assert_allclose(loss.item(), -(weight * each).sum() / weight.sum(), rtol=1e-10)


def test_position_codes():
    codes = position_codes(8).reshape(8, 8, 8)
    np.testing.assert_array_equal(codes[3, 0, :4], codes[3, 5, :4])  # the row, then the column
    np.testing.assert_array_equal(codes[1, 6, 4:], codes[4, 6, 4:])
    np.testing.assert_array_equal(codes[2, 7, :4], codes[7, 2, 4:])
    angle = 3 * np.pi / np.array([8, 1])
    np.testing.assert_allclose(codes[3, 0, :4], [*np.sin(angle) / 2, *np.cos(angle) / 2])
    flat = codes.reshape(64, 8)
    assert len(np.unique(flat.round(6), axis=0)) == 64
    assert position_codes(5).shape == (64, 5)
    learned = make().model.encoder.positions.numpy()
    np.testing.assert_allclose(learned, flat, rtol=1e-6, atol=1e-7)


def test_phases():
    recipe = make(pretraining=0.2, hard=0.3)
    names = [recipe.phase(step)[0] for step in range(20)]
    assert names == ["pretraining"] * 4 + ["soft"] * 10 + ["hard"] * 6
    assert recipe.phase(4) == ("soft", 4, 14) and recipe.phase(20) == ("hard", 14, 20)
    batches = recipe.batches()
    keys = [{*next(batches)} for _ in range(20)]
    assert keys[3] == {"images", "cells"} and keys[4] == {"images", "words"}
    assert keys[13] == keys[4] and keys[14] == {"images", "words", "noise"}
    assert make(pretraining=0.0, hard=0.0).phase(0)[0] == "soft"


def test_hard_attention_starts_from_soft_attention():
    recipe = make(pretraining=0.2, hard=0.3)
    loop = recipe.loop()
    loop.train(14)
    states = [decoder.state_dict() for decoder in (recipe.model.soft, recipe.model.hard)]
    for name, value in states[0].items():
        np.testing.assert_array_equal(value.numpy(), states[1][name].numpy(), err_msg=name)
    assert not recipe.model.baseline.numpy().any()
    soft = {n: v.numpy().copy() for n, v in recipe.model.soft.state_dict().items()}
    encoder = {n: v.numpy().copy() for n, v in recipe.model.encoder.state_dict().items()}
    loop.train(20)
    for before, module in ((soft, recipe.model.soft), (encoder, recipe.model.encoder)):
        for name, value in module.state_dict().items():
            np.testing.assert_array_equal(value.numpy(), before[name], err_msg=name)
    hard = recipe.model.hard.state_dict()
    assert any((hard[name].numpy() != value).any() for name, value in soft.items())


def test_the_baselines_are_moving_averages_of_the_rewards():
    recipe = make()
    rewards = [np.array([[-6.0, -2, 0], [-4, 0, 0]]), np.array([[-7.0, -4, 0], [-7, -2, 0]])]
    real = np.array([[1.0, 1, 0], [1, 0, 0]]), np.array([[1.0, 1, 0], [1, 1, 0]])
    recipe.model.baseline = mt.zeros(3)
    for reward, mask in zip(rewards, real, strict=True):
        recipe._rewards.append((mt.tensor(reward), mt.tensor(mask)))
        recipe.after_step(1)
    np.testing.assert_allclose(
        recipe.model.baseline.numpy(), [0.9 * -5 - 0.1 * 7, 0.9 * -2 - 0.1 * 3, 0], rtol=1e-6
    )
    assert recipe._rewards == []


def test_the_reward_of_a_look_is_the_log_probability_of_what_follows():
    recipe = make(pretraining=0.0, hard=0.9, dtype="float64", reward=0.7, entropy=0.2)
    batches = recipe.batches()
    batches.position = 10
    batch = next(batches)
    recipe.model.baseline = mt.tensor(np.linspace(-3, -1, 8))
    loss = recipe.loss(recipe.model.train(), batch)
    annotations = recipe.model.encoder(batch["images"])
    words = batch["words"]
    noise = batch["noise"].unsqueeze(0)
    found = recipe.model.hard.sample(annotations, words[:, :-1], noise=noise)
    logits, log_p_s = found.logits[0].detach().numpy(), found.log_p_s[0].detach().numpy()
    entropy, total, count = found.entropy[0].detach().numpy(), 0.0, 0
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for n, target in enumerate(words[:, 1:].numpy()):
        length = list(target).index(2) + 1
        each = [log_p[n, t, target[t]] for t in range(length)]
        for t in range(length):
            gain = sum(each[t:]) - np.linspace(-3, -1, 8)[t]
            total += each[t] + 0.7 * gain * log_p_s[n, t] + 0.2 * entropy[n, t]
            count += 1
    np.testing.assert_allclose(loss.item(), -total / count, rtol=1e-10)


def test_focus():
    """Uniform attention has a focus of 1; attention on the digit has 16 at best."""
    recipe = make()
    uniform = np.full((13, 8, 8, 8), 1 / 64)
    recipe.attention = lambda which, captions: uniform
    assert recipe.focus("soft") == pytest.approx(1.0)
    corners = recipe.test.corners
    named = np.zeros((13, 8, 8, 8))
    for n, caption in enumerate(recipe.captions):
        places = [t for t, word in enumerate(caption) if word not in ("above", "left of", ",")]
        for t, (row, column) in zip(places, corners[n], strict=False):
            named[n, t, (row + 4) // 4, (column + 4) // 4] = 1
    recipe.attention = lambda which, captions: named
    assert 12 < recipe.focus("soft") <= 16
