"""Digit scenes: images of one to three handwritten digits on a grid, with captions."""

from typing import NamedTuple

import numpy as np

from ..named_errors import names_arguments
from .digits import check_digits

__all__ = ["DIGIT_WORDS", "Scenes", "caption_of", "cell_of", "draw_scenes", "scene_words"]

DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_CELL, _MARGIN, _SIDE = 10, 1, 32  # nine cells of 10 x 10 pixels, and a margin around them


class Scenes(NamedTuple):
    """Images of digits, with the digits' labels and positions.

    Attributes
    ----------
    images : float32 array of shape (scene, 1, 32, 32)
        0 is the background, 1 is ink.
    digits : int64 array of shape (scene, 3)
        Digits in reading order; -1 where a scene has fewer than three digits.
    corners : int64 array of shape (scene, 3, 2)
        Row and column of the top left pixel of each digit; -1 where a scene has fewer than three
        digits. A digit has 8 x 8 pixels.
    """

    images: np.ndarray
    digits: np.ndarray
    corners: np.ndarray

    def captions(self):
        """Return the caption of each scene as a list of words."""
        return [caption_of(*scene) for scene in zip(self.digits, self.corners, strict=True)]


def scene_words():
    """Return the words of the captions: ten digits, two relations and the comma.

    Examples
    --------
    >>> scene_words()[7:]
    ('seven', 'eight', 'nine', 'above', 'left of', ',')
    """
    return (*DIGIT_WORDS, "above", "left of", ",")


def caption_of(digits, corners):
    """Describe a scene: the first digit in reading order, and its position relative to the others.

    Parameters
    ----------
    digits : sequence of int
    corners : sequence of (row, column)
        Top left pixel of each digit, as in `Scenes`. A digit of -1 is absent.

    Returns
    -------
    list of str
        Words of the caption. The first digit is "above" each digit in a lower row, and "left of"
        each digit in its own row.

    Examples
    --------
    >>> caption_of([7, 4, 2], [(1, 1), (2, 12), (22, 3)])
    ['seven', 'left of', 'four', ',', 'above', 'two']
    >>> caption_of([5, -1, -1], [(12, 12), (-1, -1), (-1, -1)])
    ['five']
    """
    first, *others = [(d, c) for d, c in zip(digits, corners, strict=True) if d >= 0]
    row = _row(first[1])
    words = [DIGIT_WORDS[first[0]]]
    for digit, corner in others:
        comma = [","] if len(words) > 1 else []
        words += [*comma, "left of" if _row(corner) == row else "above", DIGIT_WORDS[digit]]
    return words


def _row(corner):
    return cell_of(corner)[0]


def cell_of(corner):
    """Return the row and the column (0, 1 or 2) of the cell that contains the pixel `corner`.

    Examples
    --------
    >>> cell_of((3, 22))
    (0, 2)
    """
    return (corner[0] - _MARGIN) // _CELL, (corner[1] - _MARGIN) // _CELL


@names_arguments
def draw_scenes(count, images, labels, generator, noise=0.0, most=3, least=1):
    """Draw scenes of `least` to `most` digits in different cells of a 3 x 3 grid.

    Each digit is shifted at random within its cell.

    Parameters
    ----------
    count : int
        Number of scenes.
    images : array of shape (digit, 1, 8, 8)
        Handwritten digits, as from `digits_split`.
    labels : int array of shape (digit,)
    generator : numpy.random.Generator
    noise : float, default 0
        Standard deviation of Gaussian noise on all pixels.
    most : int, default 3
        Largest number of digits in a scene, at most 9. Each number is equally likely.
    least : int, default 1
        Smallest number of digits in a scene.

    Returns
    -------
    Scenes

    Examples
    --------
    >>> digits, labels = np.ones((5, 1, 8, 8)), np.arange(5)
    >>> scenes = draw_scenes(3, digits, labels, np.random.default_rng(1))
    >>> scenes.images.shape, scenes.captions()[0]
    ((3, 1, 32, 32), ['zero', 'above', 'one', ',', 'above', 'four'])
    """
    check_digits("draw_scenes", images, labels)
    size = images.shape[-1]
    canvas = np.zeros((count, 1, _SIDE, _SIDE), np.float32)
    digits = np.full((count, most), -1)
    corners = np.full((count, most, 2), -1)
    cells = np.sort(generator.random((count, 9)).argsort(1)[:, :most], 1)  # in reading order
    number = generator.integers(least, most + 1, count)
    chosen = generator.integers(len(images), size=(count, most))
    shift = generator.integers(_CELL - size + 1, size=(count, most, 2))
    for scene, place in np.ndindex(count, most):
        if place < number[scene]:
            cell = np.array(divmod(cells[scene, place], 3))
            row, column = corners[scene, place] = _MARGIN + _CELL * cell + shift[scene, place]
            which = chosen[scene, place]
            digits[scene, place] = labels[which]
            canvas[scene, :, row : row + size, column : column + size] = images[which]
    canvas += generator.normal(0, noise, canvas.shape).astype(np.float32)
    return Scenes(canvas, digits, corners)
