"""Scenes of digits: every digit is where its corner says, and the captions are true."""

import itertools

import numpy as np
import pytest

from minitorch_attn.data.digit_scenes import caption_of, draw_scenes, scene_words
from minitorch_attn.errors import ArgumentError

DIGITS = np.random.default_rng(3).uniform(0.1, 1, (20, 1, 8, 8)).astype(np.float32)
LABELS = np.arange(20) % 10


@pytest.mark.parametrize("most", [1, 3, 9])
def test_digits_are_where_their_corners_say(rng, most):
    scenes = draw_scenes(150, DIGITS, LABELS, rng, most=most)
    assert scenes.images.shape == (150, 1, 32, 32) and scenes.images.dtype == np.float32
    counts = (scenes.digits >= 0).sum(1)
    assert {*counts} == {*range(1, most + 1)}
    for image, digits, corners in zip(*scenes, strict=True):
        rest, cells = image[0].copy(), []
        for digit, (row, column) in zip(digits, corners, strict=True):
            if digit < 0:
                assert row == column == -1
                continue
            piece = image[0, row : row + 8, column : column + 8]
            which = [i for i in range(20) if (DIGITS[i, 0] == piece).all()]
            assert [LABELS[i] for i in which] == [digit]
            rest[row : row + 8, column : column + 8] = 0
            cells.append(((row - 1) // 10, (column - 1) // 10))
            assert 0 <= (row - 1) % 10 <= 2 and 0 <= (column - 1) % 10 <= 2
        assert not rest.any() and cells == sorted(set(cells))


def test_captions_are_true(rng):
    scenes = draw_scenes(200, DIGITS, LABELS, rng)
    words = scene_words()
    for caption, digits, corners in zip(
        scenes.captions(), scenes.digits, scenes.corners, strict=True
    ):
        said = [words.index(word) for word in caption if words.index(word) < 10]
        assert said == [d for d in digits if d >= 0]
        relations = [word for word in caption if word in ("above", "left of")]
        for relation, (row, column) in zip(relations, corners[1:], strict=False):
            down, right = row - corners[0][0], column - corners[0][1]
            assert down >= 8 if relation == "above" else (abs(down) <= 2 and right >= 8)
        assert caption.count(",") == (len(said) == 3)


def test_every_cell_and_every_shift_is_drawn(rng):
    scenes = draw_scenes(2000, DIGITS, LABELS, rng)
    corners = scenes.corners[scenes.digits >= 0] - 1
    assert {*map(tuple, corners // 10)} == {*itertools.product(range(3), repeat=2)}
    assert {*map(tuple, corners % 10)} == {*itertools.product(range(3), repeat=2)}


def test_noise_and_seed():
    drawn = [
        draw_scenes(50, DIGITS, LABELS, np.random.default_rng(1), noise=noise)
        for noise in (0.0, 0.2, 0.2)
    ]
    difference = drawn[1].images - drawn[0].images
    assert abs(difference.std() - 0.2) < 0.01 and abs(difference.mean()) < 0.01
    np.testing.assert_array_equal(drawn[1].images, drawn[2].images)
    assert drawn[0].captions() == drawn[1].captions()


def test_relations():
    assert caption_of([3, 1, 8], [(1, 20), (11, 1), (21, 21)]) == [
        "three", "above", "one", ",", "above", "eight",
    ]  # fmt: skip
    assert caption_of([0, 0, -1], [(3, 1), (1, 11), (-1, -1)]) == ["zero", "left of", "zero"]


def test_no_scenes_and_wrong_arguments(rng):
    assert draw_scenes(0, DIGITS, LABELS, rng).captions() == []
    for images, labels in ((DIGITS, LABELS[1:]), (DIGITS[:0], LABELS[:0])):
        with pytest.raises(ArgumentError, match="same length, at least 1"):
            draw_scenes(2, images, labels, rng)
