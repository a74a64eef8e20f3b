"""The recipe `vatt`: what it draws, and what it measures."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.data.moving_digits import DIRECTIONS
from minitorch_attn.data.spoken_digits import DIGIT_WORDS
from minitorch_attn.models.vatt_losses import mil_nce_loss, nce_loss
from minitorch_attn.training.recipes import vatt
from minitorch_attn.training.recipes.vatt import Vatt
from minitorch_attn.training.recipes.vatt_stream import (
    KEYS,
    LONGEST,
    NAMES,
    SOUND,
    WORDS,
    Voices,
    draw_examples,
    galleries,
    sentence_of,
    words_of,
)

PAIRS = ("video_to_audio", "audio_to_video", "video_to_text", "text_to_video")


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")
    pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def recipe():
    return Vatt({"layers": 1, "audio_layers": 1, "heads": 2, "dim": 8, "batch": 5, "clips": 300,
                 "galleries": 3, "speakers": 2, "dtype": "float64"})  # fmt: skip


@pytest.fixture(scope="module")
def voices():
    return Voices(2, 3, np.random.default_rng(0))


def content(ids):
    """The digit and the direction that a sentence names, from its words."""
    words = words_of(ids).split()
    (digit,) = [i for i, word in enumerate(DIGIT_WORDS) if word in words]
    way = " ".join(word for word in words if word in ("up", "down", "left", "right"))
    return digit, NAMES.index(way)


def test_sentences_name_the_content_in_several_ways():
    generator, found = np.random.default_rng(0), set()
    for _ in range(200):
        digit, direction = generator.integers(10), generator.integers(8)
        words = sentence_of(digit, direction, generator)
        assert len(words) <= LONGEST
        ids = [WORDS.index(word) for word in words]
        assert words_of([*ids, 0, 0]) == " ".join(words)
        assert content(ids) == (digit, direction)
        found.add(tuple(w for w in words if w not in DIGIT_WORDS + tuple(" ".join(NAMES).split())))
    assert len(found) == 6  # three openings, two verbs


def test_keys_of_a_keypad():
    """The place of a key relative to the 5, in rows and columns."""
    rows, columns = (9 - KEYS) // 3 - 1, (KEYS - 1) % 3 - 1
    assert list(zip(rows, columns, strict=True)) == list(DIRECTIONS.values())


def test_an_utterance_is_made_of_words_of_one_speaker(voices):
    digits = np.array([[7, 4], [0, 9], [3, 3]])
    found = voices.say(digits, np.random.default_rng(1))
    assert found.shape == (3, SOUND, 24) and found.dtype == np.float32
    for frames, row in zip(found, digits, strict=True):
        places = [[_places(frames, words[digit]) for digit in row] for words in voices.words]
        (one,) = [speaker for speaker in places if all(speaker)]
        (first, first_end), (second, second_end) = one[0][0], one[1][-1]
        assert 0 < first < first_end < second < second_end <= SOUND
        assert frames[second_end:].mean() < frames[first:first_end].mean() - 0.5  # silence


def _places(frames, takes):
    """First frame and end of each place where one of the takes occurs."""
    return [
        (start, start + len(take)) for take in takes for start in range(SOUND - len(take) + 1)
        if (frames[start : start + len(take)] == take).all()
    ]  # fmt: skip


def test_what_is_too_long_is_cut_off(voices):
    found = voices.say(np.full((1, 9), 7), np.random.default_rng(0))
    assert found.shape == (1, SOUND, 24) and np.isfinite(found).all()
    assert voices.say(np.zeros((0, 2), int), np.random.default_rng(0)).shape == (0, SOUND, 24)


@pytest.mark.parametrize("others", [0.0, 0.5, 1.0])
def test_the_second_sentence_may_be_about_something_else(recipe, voices, others):
    digits, _ = recipe.training
    drawn = draw_examples(400, digits, voices, np.random.default_rng(2), others=others)
    truth = list(zip(drawn.digits, drawn.directions, strict=True))
    assert [content(ids) for ids in drawn.text[:, 0]] == truth
    same = np.mean([content(ids) == x for ids, x in zip(drawn.text[:, 1], truth, strict=True)])
    assert same == pytest.approx(1 - others * 79 / 80, abs=0.06)
    one = draw_examples(3, digits, voices, np.random.default_rng(2))
    assert one.text.shape == (3, 1, LONGEST)


def test_video_sound_and_sentence_of_a_clip_say_the_same(recipe, voices):
    """The digit by its pixels, the direction by its center, and both by the recorded words."""
    (enlarged, labels), _ = recipe.training
    drawn = draw_examples(12, (enlarged, labels), voices, np.random.default_rng(3))
    for i in range(12):
        frames = drawn.video[i, 0]
        centers = [
            (frame.sum(k) * np.arange(len(frame))).sum() / frame.sum()
            for frame in frames[[0, -1]] for k in (1, 0)
        ]  # fmt: skip
        step = np.sign(np.round(np.subtract(centers[2:], centers[:2]), 3)).astype(int)
        key = int(5 - 3 * step[0] + step[1])
        assert key == KEYS[drawn.directions[i]]
        assert content(drawn.text[i, 0]) == (drawn.digits[i], drawn.directions[i])
        spoken = [
            digit for digit in range(10)
            if any(_places(drawn.audio[i], words[digit]) for words in voices.words)
        ]  # fmt: skip
        assert set(spoken) == {drawn.digits[i], key}


def test_batches(recipe):
    stream = recipe.batches()
    video, audio, text = next(stream)
    assert video.shape == (5, 1, vatt.FRAMES, 24, 24) and audio.shape == (5, 80, 24)
    assert text.shape == (5, 2, 6)
    assert video.dtype == audio.dtype == mt.float64 and text.dtype == mt.int64
    again = recipe.batches()
    again.load_state_dict(stream.state_dict())
    for one, two, old in zip(next(stream), next(again), (video, audio, text), strict=True):
        assert (one == two).all() and (one != old).any()


def test_the_test_has_new_handwriting_and_new_speakers(recipe):
    (enlarged, _), voices = recipe.training
    known = {image.tobytes() for images in enlarged for image in images}
    for clip in recipe.test.video[:40, 0]:
        rows, columns = (np.flatnonzero(clip[0].any(k)) for k in (1, 0))
        ink = clip[0, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert not any(ink.tobytes() == _ink(np.frombuffer(x, np.float32)) for x in known)
    words = [word for speaker in voices.words for takes in speaker for word in takes]
    for audio in recipe.test.audio[:3]:
        assert not any(_places(audio, [word]) for word in words)


def _ink(pixels):
    side = int(len(pixels) ** 0.5)
    image = pixels.reshape(side, side)
    rows, columns = (np.flatnonzero(image.any(k)) for k in (1, 0))
    return image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].tobytes()


def test_galleries(recipe):
    assert recipe.chosen.shape == (3, 50)
    for chosen in recipe.chosen:
        contents = zip(recipe.test.digits[chosen], recipe.test.directions[chosen], strict=True)
        assert len(set(contents)) == 50
    assert (recipe.chosen[0] != recipe.chosen[1]).any()
    few = galleries(np.array([4, 1, 4, 4, 2]), 30, np.random.default_rng(0))
    assert few.shape == (30, 3) and set(few.ravel()) == {0, 1, 2, 3, 4}
    assert all(len({(4, 1, 4, 4, 2)[i] for i in row}) == 3 for row in few)


def test_both_models_start_alike_and_share_nothing(recipe):
    model = recipe.model
    assert (model.dropping.drop_rate, model.whole.drop_rate) == (0.5, 0.0)
    pairs = zip(model.dropping.parameters(), model.whole.parameters(), strict=True)
    assert all(a is not b and (a == b).all() for a, b in pairs)


def test_the_loss_is_that_of_both_models(recipe):
    batch = next(recipe.batches())
    model = recipe.model.eval()  # all tokens
    video, audio, text = batch
    e = model.whole(video, audio, text, text == 0)
    expected = nce_loss(e.video_audio, e.audio, 0.07, symmetric=True)
    expected = (expected + mil_nce_loss(e.video_text, e.text, 0.07)).item()
    assert recipe.loss_of(model.whole, batch).item() == pytest.approx(expected, rel=1e-12)
    assert recipe.loss(model, batch).item() == pytest.approx(2 * expected, rel=1e-12)
    model.train()
    losses = [[recipe.loss_of(m, batch).item() for _ in range(2)] for m in model.children()]
    assert losses[0][0] != losses[0][1] and losses[1][0] == losses[1][1]  # random tokens or all
    assert recipe.baselines() == {"guessing": pytest.approx(4 * np.log(5))}


def test_retrieval(recipe, monkeypatch):
    kinds = 8 * recipe.test.digits + recipe.test.directions

    def scores(model, chosen):
        same = (kinds[chosen, None] == kinds[chosen]).astype(float)
        loud = same + 5 * (np.arange(len(chosen)) == 0)[:, None]  # the first clip fits everything
        return {"good": (same, same), "loud": (loud, loud.T), "blind": (0 * same, -same)}[model]

    monkeypatch.setattr(recipe, "similarities", scores)
    assert recipe.retrieval("good") == dict.fromkeys(PAIRS, 1.0)
    expected = {"video_to_audio": 1, "audio_to_video": 1 / 50, "video_to_text": 1 / 50}
    assert recipe.retrieval("loud", 1) == pytest.approx({**expected, "text_to_video": 1})
    expected = dict(zip(PAIRS, [1 / 50, 1 / 50, 0, 0], strict=True))
    assert recipe.retrieval("blind") == pytest.approx(expected)


def test_similarities_are_cosines_of_clips_and_candidates(recipe):
    chosen = recipe.chosen[0][:7]
    by_sound, by_text = recipe.similarities(recipe.model.whole.eval(), chosen)
    assert by_sound.shape == by_text.shape == (7, 7)
    video, audio, text = (mt.tensor(part[chosen]) for part in recipe.test[:3])
    with mt.no_grad():
        e = recipe.model.whole(video.to(mt.float64), audio.to(mt.float64), text, text == 0)
    np.testing.assert_allclose(by_sound[2, 5], (e.video_audio[2] @ e.audio[5]).item())
    np.testing.assert_allclose(by_text[2, 5], (e.video_text[2] @ e.text[5, 0]).item())
    assert np.abs(by_sound).max() <= 1 + 1e-9


def test_answers_are_the_first_ranked_candidates(recipe):
    clips, heard, read = recipe.answers()
    assert (clips.reshape(3, 50) == recipe.chosen).all()
    found = recipe.retrieval(recipe.model.dropping)
    assert (heard == clips).mean() == pytest.approx(found["video_to_audio"])
    assert (read == clips).mean() == pytest.approx(found["video_to_text"])
    assert all(set(heard.reshape(3, 50)[i]) <= set(recipe.chosen[i]) for i in range(3))


def test_measures(recipe, monkeypatch):
    """Points lost count for the worse of the two searches, and a gain is negative."""
    monkeypatch.setattr(recipe, "step_times", lambda: {"dropping": 3.0, "whole": 5.0})
    found = {recipe.model.dropping: (0.7, 0.1, 0.9, 0.2), recipe.model.whole: (0.8, 0.9, 0.85, 0.9)}
    monkeypatch.setattr(
        recipe, "retrieval", lambda model, count=None: dict(zip(PAIRS, found[model], strict=True))
    )
    measured = recipe.measure([])
    assert measured["lost"] == pytest.approx(0.1) and measured["saved"] == pytest.approx(0.4)
    assert measured["video_to_audio"] == 0.7 and measured["video_to_text with all tokens"] == 0.85
    found[recipe.model.whole] = (0.6, 1.0, 0.85, 1.0)
    assert recipe.measure([])["lost"] == pytest.approx(-0.05)


def test_cues_alone(recipe):
    """Counted clip by clip."""
    for values in (recipe.test.directions, recipe.test.digits):
        shares = []
        for chosen in recipe.chosen:
            own = list(values[chosen])
            shares += [1 / own.count(value) for value in own]
        assert recipe.cue_alone(values) == pytest.approx(np.mean(shares))
        assert 0.12 < recipe.cue_alone(values) < 0.23  # about 8 or 10 of 50


def test_measuring_the_time_leaves_everything_as_it_was(recipe):
    before = {name: x.numpy().copy() for name, x in recipe.model.state_dict().items()}
    mt.manual_seed(5)
    expected = mt.rand(3).tolist()
    mt.manual_seed(5)
    times = recipe.step_times()
    assert mt.rand(3).tolist() == expected
    assert set(times) == {"dropping", "whole"} and all(0 < x < 60 for x in times.values())
    for name, value in recipe.model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])


def test_each_time_is_that_of_its_own_model(recipe, monkeypatch):
    seen = []
    monkeypatch.setattr(
        Vatt, "loss_of", lambda self, model, batch: seen.append(model.drop_rate) or
        model.projections["audio"].bias.sum()
    )  # fmt: skip
    clock = iter([0.0, 1.0, 1.0, 3.0] * vatt._TIMED)
    monkeypatch.setattr(vatt.time, "process_time", lambda: next(clock))
    assert recipe.step_times() == {"dropping": 1.0, "whole": 2.0}
    assert seen == [0.5, 0.0] * vatt._TIMED
