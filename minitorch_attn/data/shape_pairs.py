"""Shape pairs: images of two distant shapes, which are either the same or different."""

from typing import NamedTuple

import numpy as np

from ..named_errors import names_arguments

__all__ = ["ShapePairs", "draw_shape_pairs"]

_ROWS = """
.###.  #####  #...#  ..#..  #####  #.#.#
#...#  ..#..  .#.#.  ..#..  #....  #.#.#
#...#  ..#..  ..#..  #####  #....  #.#.#
#...#  ..#..  .#.#.  ..#..  #....  #.#.#
.###.  ..#..  #...#  ..#..  #####  #.#.#
"""
_LINES = [line.split() for line in _ROWS.split("\n") if line]
_SHAPES = np.array(
    [[[pixel == "#" for pixel in row[i]] for row in _LINES] for i in range(6)], np.float32
)
SIDE, SHAPE, GAP = 24, 5, 9  # in pixels: sides of image and shape, smallest distance of shapes


class ShapePairs(NamedTuple):
    """Images with two shapes each.

    For each image, `same` tells whether the shapes are the same, and `corners` where they are.

    Attributes
    ----------
    images : float32 array of shape (image, 1, 24, 24)
    same : int64 array of shape (image,)
        1 if both shapes are the same, otherwise 0.
    corners : int64 array of shape (image, 2, 2)
        Row and column of the top left pixel of each shape. A shape has 5 x 5 pixels.
    """

    images: np.ndarray
    same: np.ndarray
    corners: np.ndarray


@names_arguments
def draw_shape_pairs(count, generator, noise=0.1):
    """Draw images of two shapes, which are the same shape in about half of the images.

    The shapes are at least 9 pixels apart on at least one axis.

    Parameters
    ----------
    count : int
        Number of images.
    generator : numpy.random.Generator
    noise : float, default 0.1
        Standard deviation of Gaussian noise on all pixels.

    Returns
    -------
    ShapePairs

    Examples
    --------
    >>> pairs = draw_shape_pairs(3, np.random.default_rng(1))
    >>> pairs.images.shape, pairs.same.tolist()
    ((3, 1, 24, 24), [1, 1, 0])
    """
    images = generator.normal(0, noise, (count, 1, SIDE, SIDE)).astype(np.float32)
    same = generator.integers(0, 2, count)
    first = generator.integers(len(_SHAPES), size=count)
    other = (first + generator.integers(1, len(_SHAPES), count)) % len(_SHAPES)
    shapes = np.stack([first, np.where(same, first, other)], 1)
    corners = generator.integers(SIDE - SHAPE + 1, size=(count, 2, 2))
    close = _are_close(corners)
    while close.any():
        corners[close] = generator.integers(SIDE - SHAPE + 1, size=(close.sum(), 2, 2))
        close = _are_close(corners)
    for image, which in np.ndindex(count, 2):
        row, column = corners[image, which]
        place = images[image, 0, row : row + SHAPE, column : column + SHAPE]
        place += _SHAPES[shapes[image, which]]
    return ShapePairs(images, same, corners)


def _are_close(corners):
    """Return True for images whose two shapes are less than 9 pixels apart on both axes."""
    return np.abs(corners[:, 0] - corners[:, 1]).max(1) < SHAPE + GAP
