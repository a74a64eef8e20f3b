"""Detection scenes: handwritten digits of different sizes among clutter, with their boxes."""

from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .digits import check_digits
from .linear_resize import linear_weights

__all__ = ["DetectionScenes", "draw_detection_scenes"]

_TRIES = 20  # places tried for a digit


class DetectionScenes(NamedTuple):
    """Images of digits, with their labels and bounding boxes.

    Attributes
    ----------
    images : float32 array of shape (scene, 1, side, side)
        0 is the background, 1 is ink.
    labels : list of int64 array of shape (digit,)
        The digits of each scene, in random order.
    boxes : list of float32 array of shape (digit, 4)
        Left, top, right and bottom of each digit in pixels.
    """

    images: np.ndarray
    labels: list
    boxes: list


@names_arguments
def draw_detection_scenes(
    count, images, labels, generator, *, side=64, smallest=12, largest=24, most=4, clutter=8
):
    """Draw scenes of one to `most` digits that do not overlap, among fragments of other digits.

    Parameters
    ----------
    count : int
        Number of scenes.
    images : array of shape (digit, 1, 8, 8)
        Handwritten digits, as from `digits_split`.
    labels : int array of shape (digit,)
    generator : numpy.random.Generator
    side : int, default 64
        Height and width of a scene in pixels.
    smallest, largest : int, default 12 and 24
        Range of the height of a digit in pixels. The width follows in proportion, varied at random
        by up to 20 %.
    most : int, default 4
        Largest number of digits in a scene. Each number from 1 to `most` is drawn with equal
        probability, but a digit for which no free position is found is left out.
    clutter : int, default 8
        Number of fragments: squares of 3 to 5 pixels, cut from the middle of other digits.

    Returns
    -------
    DetectionScenes

    Examples
    --------
    >>> digits, labels = np.ones((5, 1, 8, 8)), np.arange(5)
    >>> scenes = draw_detection_scenes(3, digits, labels, np.random.default_rng(1))
    >>> scenes.images.shape, [len(boxes) for boxes in scenes.boxes]
    ((3, 1, 64, 64), [3, 3, 1])
    """
    check_digits("draw_detection_scenes", images, labels)
    if not 1 <= smallest <= largest < side:
        raise ArgumentError(
            "draw_detection_scenes: the sizes do not fit the scene",
            got=f"smallest={smallest}, largest={largest}, side={side}",
            expected="1 <= smallest <= largest < side",
        )
    canvas = np.zeros((count, 1, side, side), np.float32)
    all_labels, all_boxes = [], []
    for scene in canvas[:, 0]:
        for which in generator.integers(len(images), size=clutter):
            _scatter(scene, images[which, 0], generator)
        found, boxes = [], np.zeros((0, 4), np.int64)
        for which in generator.integers(len(images), size=generator.integers(1, most + 1)):
            height = generator.integers(smallest, largest + 1)
            digit = _resized(images[which, 0], height, generator.uniform(0.8, 1.2), largest)
            box = _free_place(boxes, digit.shape, side, generator)
            if box is not None:
                left, top, right, bottom = box
                part = scene[top:bottom, left:right]
                np.maximum(part, digit, out=part)
                found.append(labels[which])
                boxes = np.concatenate([boxes, [box]])
        all_labels.append(np.array(found, np.int64))
        all_boxes.append(boxes.astype(np.float32))
    return DetectionScenes(canvas, all_labels, all_boxes)


def _resized(digit, height, stretch, largest):
    """Crop a digit to its ink and resize it bilinearly to the given height."""
    rows, columns = (np.flatnonzero(digit.any(axis)) for axis in (1, 0))
    ink = digit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    width = int(np.clip(round(height * stretch * ink.shape[1] / ink.shape[0]), 3, largest))
    rows = linear_weights(0, ink.shape[0], height, ink.shape[0], ink.dtype)
    columns = linear_weights(0, ink.shape[1], width, ink.shape[1], ink.dtype)
    return rows @ ink @ columns.T


def _free_place(boxes, shape, side, generator):
    """Return a random box of `shape` (height, width) that does not touch `boxes`, or None."""
    height, width = shape
    for _ in range(_TRIES):
        top, left = generator.integers([side - height + 1, side - width + 1])
        box = np.array([left, top, left + width, top + height])
        apart = (box[:2] > boxes[:, 2:]) | (box[2:] < boxes[:, :2])
        if apart.any(1).all():
            return box
    return None


def _scatter(scene, digit, generator):
    """Put a fragment of a digit at a random position."""
    size = generator.integers(3, 6)
    row, column = generator.integers(8 - size + 1, size=2)
    top, left = generator.integers(len(scene) - size + 1, size=2)
    part = scene[top : top + size, left : left + size]
    np.maximum(part, digit[row : row + size, column : column + size], out=part)
