"""Detection scenes: boxes around the ink, no overlap, sizes, clutter, and the seed."""

import numpy as np
import pytest

from minitorch_attn.data.detection_scenes import draw_detection_scenes
from minitorch_attn.errors import ArgumentError

FULL = np.ones((3, 1, 8, 8), np.float32)


def draw(count, seed=0, images=FULL, **changes):
    return draw_detection_scenes(
        count, images, np.arange(len(images)), np.random.default_rng(seed), **changes
    )


def test_boxes_are_the_ink():
    scenes = draw(20, clutter=0)
    for image, boxes, labels in zip(scenes.images[:, 0], scenes.boxes, scenes.labels, strict=True):
        expected = np.zeros((64, 64))
        for left, top, right, bottom in boxes.astype(int):
            expected[top:bottom, left:right] = 1
        np.testing.assert_array_equal(image, expected)
        assert len(labels) == len(boxes) and labels.dtype == np.int64
    sizes = np.concatenate([b[:, 3] - b[:, 1] for b in scenes.boxes])
    assert sizes.min() >= 12 and sizes.max() <= 24


def test_boxes_do_not_overlap():
    for boxes in draw(50, most=6).boxes:
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                assert (a[:2] > b[2:]).any() or (b[:2] > a[2:]).any()


def test_a_digit_is_cut_and_resized():
    image = np.zeros((1, 1, 8, 8), np.float32)
    image[0, 0, 1:5, 3:5] = [[0, 1], [1, 0], [0, 1], [1, 0]]
    scenes = draw(1, images=image, smallest=16, largest=16, most=1, clutter=0)
    ((left, top, right, bottom),) = scenes.boxes[0].astype(int)
    ink = scenes.images[0, 0, top:bottom, left:right]
    assert ink.shape[0] == 16 and 6 <= ink.shape[1] <= 10
    np.testing.assert_allclose(ink[:2, 0], 0) and np.testing.assert_allclose(ink[:2, -1], 1)
    assert scenes.images.sum() == pytest.approx(ink.sum())


def test_clutter_and_numbers():
    scenes = draw(200, clutter=3, most=2)
    counts = np.array([len(boxes) for boxes in scenes.boxes])
    assert set(counts) == {1, 2} and 70 < (counts == 1).sum() < 130
    area = [((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])).sum() for b in scenes.boxes]
    extra = scenes.images.sum((1, 2, 3)) - area
    assert 0 <= extra.min() and 9 <= extra.max() <= 75


def test_seed():
    a, b, c = draw(3), draw(3), draw(3, seed=1)
    np.testing.assert_array_equal(a.images, b.images)
    assert abs(a.images - c.images).max() > 0


def test_errors():
    with pytest.raises(ArgumentError, match="same length"):
        draw_detection_scenes(1, FULL, [1], np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="do not fit"):
        draw(1, largest=64)
