"""Scenes of digits as regions: what is drawn, true relations, captions and questions."""

import numpy as np
import pytest

from minitorch_attn.data import scene_questions as scenes_of
from minitorch_attn.data.scene_questions import (
    ANSWERS,
    CLS,
    PAD,
    RELATIONS,
    SEP,
    WORDS,
    RegionScenes,
    draw_captions,
    draw_questions,
    draw_region_scenes,
    true_relations,
)
from minitorch_attn.errors import ArgumentError

IMAGES = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32)
LABELS = np.random.default_rng(1).permutation(np.arange(40) % 10)
STEP = {"left of": (0, -1), "right of": (0, 1), "above": (-1, 0), "below": (1, 0)}


def drawn(count=50, seed=2, **options):
    return draw_region_scenes(count, IMAGES, LABELS, np.random.default_rng(seed), **options)


def text(ids):
    return " ".join(WORDS[i] for i in ids if i not in (CLS, SEP, PAD))


def holds(scenes, n, a, relation, b):
    """Whether a is the next digit from b in the direction of the relation."""
    where = {tuple(c): d for c, d in zip(scenes.cells[n], scenes.digits[n], strict=True) if d >= 0}
    place = next(c for c, d in where.items() if d == b)
    for _ in range(3):
        place = tuple(np.add(place, STEP[relation]))
        if place in where:
            return where[place] == a
    return False


@pytest.mark.parametrize("grid, most", [(2, 4), (3, 5), (3, 9)])
def test_scenes(grid, most):
    scenes = drawn(grid=grid, most=most)
    images = scenes.images()
    number = (scenes.digits >= 0).sum(1)
    assert set(number) <= set(range(1, most + 1)) and len(set(number)) > 1
    for n in range(50):
        real = scenes.digits[n] >= 0
        assert len(set(scenes.digits[n, real])) == real.sum()  # different digits
        cells = scenes.cells[n, real]
        assert len({tuple(c) for c in cells}) == real.sum() and cells.max() < grid
        for i in np.flatnonzero(real):
            left, top, right, bottom = scenes.boxes[n, i].astype(int)
            assert (right - left, bottom - top) == (8, 8)
            cell = (np.array([top, left]) - 1) // (30 // grid)
            np.testing.assert_array_equal(cell, scenes.cells[n, i])
            crop = scenes.crops[n, i].reshape(8, 8)
            np.testing.assert_array_equal(images[n, top:bottom, left:right], crop)
            kind = LABELS[[np.array_equal(crop, image[0]) for image in IMAGES]]
            assert kind == scenes.digits[n, i]
        assert not scenes.crops[n, ~real].any() and (scenes.cells[n, ~real] == -1).all()
        assert np.count_nonzero(images[n]) <= 64 * real.sum()


def test_take():
    scenes = drawn()
    some = scenes.take(np.array([3, 1]))
    assert isinstance(some, RegionScenes)
    np.testing.assert_array_equal(some.digits, scenes.digits[[3, 1]])


def test_noise_is_on_digits_only():
    quiet, noisy = drawn(), drawn(noise=0.5)
    difference = noisy.crops - quiet.crops
    assert abs(difference[quiet.digits >= 0].std() - 0.5) < 0.03
    assert not difference[quiet.digits < 0].any()


@pytest.mark.parametrize("grid", [2, 3])
def test_relations(grid):
    scenes = drawn(grid=grid, most=4)
    found = true_relations(scenes)
    for n, a, b, r in np.ndindex(*found.shape):
        if scenes.digits[n, a] < 0 or scenes.digits[n, b] < 0:
            assert not found[n, a, b, r]
        else:
            digits = scenes.digits[n, [a, b]]
            assert found[n, a, b, r] == holds(scenes, n, digits[0], RELATIONS[r], digits[1])


def test_captions_are_true_and_name_their_regions():
    scenes = drawn(400, grid=2, most=4)
    ids, regions = draw_captions(scenes, np.random.default_rng(3))
    kinds = set()
    for n, row in enumerate(ids):
        assert row[0] == CLS and (row == SEP).sum() == 1
        parts = [part.split() for part in text(row).replace("left of", "left_of")
                 .replace("right of", "right_of").split(" , ")]  # fmt: skip
        kinds.add((len(parts), len(text(row).split())))
        for part in parts:
            if part[1].replace("_", " ") in RELATIONS:
                a, b = (WORDS.index(part[i]) - WORDS.index("zero") for i in (0, 2))
                assert holds(scenes, n, a, part[1].replace("_", " "), b)
            else:
                where = (scenes_of.ROWS.index(part[1]), scenes_of.COLUMNS.index(part[2]))
                digit = WORDS.index(part[0]) - WORDS.index("zero")
                assert tuple(scenes.cells[n, scenes.digits[n] == digit][0]) == where
        for k in np.flatnonzero(regions[n] >= 0):
            digit = scenes.digits[n, regions[n, k]]
            assert row[k] in (WORDS.index("zero") + digit, *range(18, 22))
    assert {number for number, _ in kinds} == {1, 2}


def test_questions_have_true_answers():
    scenes = drawn(400, fewest=2, grid=2, most=4)
    ids, answers, scene, kind = draw_questions(scenes, np.random.default_rng(4))
    assert set(kind) == {0, 1, 2} and (np.diff(scene) > 0).all()
    number = {word: i for i, word in enumerate(WORDS[4:14])}
    for row, answer, n, k in zip(ids, answers, scene, kind, strict=True):
        words = [WORDS[i] for i in row if i not in (CLS, SEP, PAD)]
        said = ANSWERS[answer]
        if k == 0:
            cell = (scenes_of.ROWS.index(words[2]), scenes_of.COLUMNS.index(words[3]))
            digit = scenes.digits[n][(scenes.cells[n] == cell).all(1)]
            assert words[:2] == ["what", "is"] and number[said] == digit
        elif k == 1:
            assert holds(scenes, n, number[said], words[2], number[words[4]])
        else:
            assert words[::2] == ["where", "the", "from", words[6]] or words[0] == "where"
            assert holds(scenes, n, number[words[3]], said, number[words[6]])


def test_a_scene_without_neighbors_has_no_question():
    scenes = drawn(60, most=1)
    assert [len(x) for x in draw_questions(scenes, np.random.default_rng(5))] == [0] * 4
    ids, _ = draw_captions(scenes, np.random.default_rng(5))
    assert (ids[:, 4] == SEP).all()


@pytest.mark.parametrize(
    "options", [{"fewest": 0}, {"fewest": 3, "most": 2}, {"most": 5, "grid": 2}]
)
def test_arguments(options):
    with pytest.raises(ArgumentError, match="do not fit"):
        drawn(**options)
