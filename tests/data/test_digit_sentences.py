"""Sentences about scenes: they name the digits, and the places only if asked."""

import numpy as np
import pytest

from minitorch_attn.data.digit_scenes import DIGIT_WORDS, cell_of, draw_scenes
from minitorch_attn.data.digit_sentences import (
    END,
    LONGEST,
    OPENINGS,
    WORDS,
    as_ids,
    draw_sentences,
    prompts,
    sentence_of,
)

DIGITS = np.random.default_rng(3).uniform(0.1, 1, (20, 1, 8, 8)).astype(np.float32)
LABELS = np.arange(20) % 10
PLACES = np.array(WORDS[17:26]).reshape(3, 3)


@pytest.mark.parametrize("places", [False, True])
def test_sentences_are_true(places, rng):
    scenes = draw_scenes(300, DIGITS, LABELS, rng)
    sentences = draw_sentences(scenes, rng, places)
    for words, digits, corners in zip(sentences, scenes.digits, scenes.corners, strict=True):
        opening = next(o for o in OPENINGS[::-1] if tuple(words[: len(o)]) == o)
        said = " ".join(words[len(opening) :]).split(" and ")
        expected = [
            DIGIT_WORDS[d] + (f" {PLACES[cell_of(c)]}" if places else "")
            for d, c in zip(digits, corners, strict=True)
            if d >= 0
        ]
        assert sorted(said) == sorted(expected)


def test_openings_and_orders_vary(rng):
    scenes = draw_scenes(900, DIGITS, LABELS, rng, most=3, least=3)
    sentences = draw_sentences(scenes, rng)
    found = [tuple(words[:2]) for words in sentences]
    for opening in OPENINGS[1:]:
        assert 250 < found.count(opening) < 350
    first = [
        [DIGIT_WORDS.index(word) for word in words if word in DIGIT_WORDS][0] for words in sentences
    ]
    share = (np.array(first)[:, None] == scenes.digits).mean(0)  # a repeated digit counts twice
    assert (abs(share - (1 + 2 / 10) / 3) < 0.06).all()
    again = draw_sentences(scenes, np.random.default_rng(1))
    assert again == draw_sentences(scenes, np.random.default_rng(1)) != sentences


def test_absent_digits_and_places():
    corners = [(1, 21), (-1, -1), (23, 2)]
    assert sentence_of([4, -1, 0], corners) == ["four", "and", "zero"]
    assert sentence_of([4, -1, 0], corners, ("image", "of"), True) == [
        "image", "of", "four", "top-right", "and", "zero", "bottom-left",
    ]  # fmt: skip
    assert sentence_of([-1], [(-1, -1)]) == []


def test_ids():
    longest = sentence_of([7, 7, 7], [(1, 1), (12, 12), (22, 22)], ("there", "is"), True)
    ids = as_ids([longest, ["nine"]])
    assert ids.shape == (2, LONGEST) and ids.dtype == np.int64
    assert [WORDS[i] for i in ids[0]] == ["<start>", *longest, "<end>"]
    assert ids[1].tolist() == [1, 11, END] + [0] * (LONGEST - 3)
    assert (ids.argmax(1) == [11, 2]).all()  # the end token has the largest id
    assert as_ids([]).shape == (0, LONGEST)


def test_prompts():
    assert [len(each) for each in prompts()] == [3] * 10
    assert [len(each) for each in prompts(True)] == [27] * 10
    for places in (False, True):
        for digit, sentences in enumerate(prompts(places)):
            for words in sentences:
                assert [w for w in words if w in DIGIT_WORDS] == [DIGIT_WORDS[digit]]
                assert sum(w in PLACES for w in words) == places
    assert {words[-1] for words in prompts(True)[3]} == set(PLACES.ravel())


def test_fewest_digits(rng):
    counts = (draw_scenes(200, DIGITS, LABELS, rng, most=4, least=2).digits >= 0).sum(1)
    assert set(counts) == {2, 3, 4}
