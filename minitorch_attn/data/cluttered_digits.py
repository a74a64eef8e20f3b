"""Cluttered digits: images of a handwritten digit among fragments of other digits."""

from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .multi_crop import crop_and_resize

__all__ = ["ClutteredDigits", "draw_cluttered"]


class ClutteredDigits(NamedTuple):
    """Images of one digit among clutter, with the digit's label and position.

    Attributes
    ----------
    images : float32 array of shape (image, 1, side, side)
        0 is the background, 1 is ink.
    labels : int64 array of shape (image,)
    corners : int64 array of shape (image, 2)
        Row and column of the digit's first pixel.
    size : int
        Height and width of a digit in pixels.
    """

    images: np.ndarray
    labels: np.ndarray
    corners: np.ndarray
    size: int

    def masks(self):
        """Return masks (image, side, side) that are True inside the digit's box."""
        place = np.arange(self.images.shape[-1])
        inside = [
            (place >= first[:, None]) & (place < first[:, None] + self.size)
            for first in self.corners.T
        ]
        return inside[0][:, :, None] & inside[1][:, None, :]


@names_arguments
def draw_cluttered(count, images, labels, generator, side=32, size=12, margin=6, pieces=6):
    """Draw images of a digit at a random position among fragments of other digits.

    Parameters
    ----------
    count : int
        Number of images.
    images : array of shape (digit, 1, height, width)
        Handwritten digits, as from `digits_split`.
    labels : int array of shape (digit,)
    generator : numpy.random.Generator
    side : int, default 32
        Height and width of an image.
    size : int, default 12
        Height and width to which a digit is resized.
    margin : int, default 6
        Smallest distance of a digit from the edges.
    pieces : int, default 6
        Number of fragments, each 3 to 5 pixels wide. The digit is drawn over them.

    Returns
    -------
    ClutteredDigits

    Examples
    --------
    >>> digits = np.ones((5, 1, 8, 8), np.float32)
    >>> found = draw_cluttered(3, digits, np.arange(5), np.random.default_rng(1))
    >>> found.images.shape, found.masks().sum((1, 2)).tolist()
    ((3, 1, 32, 32), [144, 144, 144])
    """
    free = side - size - 2 * margin
    if len(images) == 0 or len(images) != len(labels) or free < 0 or size < 5:
        raise ArgumentError(
            "draw_cluttered: the digits, their labels or their sizes are invalid",
            got=f"{len(images)} digits, {len(labels)} labels, side={side}, size={size}, "
            f"margin={margin}",
            expected="at least 1 digit, one label per digit, and size from 5 to side - 2 * margin",
        )
    chosen = generator.integers(len(images), size=count)
    whole = np.tile([0, 0, *images.shape[2:]], (count, 1))
    digits = crop_and_resize(images[chosen].astype(np.float32), whole, size)
    corners = generator.integers(free + 1, size=(count, 2)) + margin
    canvas = np.zeros((count, 1, side, side), np.float32)
    widths = generator.integers(3, 6, (count, pieces))
    source = generator.integers(count, size=(count, pieces))
    places = generator.random((count, pieces, 4))
    for i, piece in np.ndindex(count, pieces):
        width = widths[i, piece]
        ends = np.array([side, side, size, size]) - width + 1
        y, x, row, column = (places[i, piece] * ends).astype(int)
        part = digits[source[i, piece], :, row : row + width, column : column + width]
        target = canvas[i, :, y : y + width, x : x + width]
        np.maximum(target, part, out=target)
    for i, (y, x) in enumerate(corners):
        canvas[i, :, y : y + size, x : x + size] = digits[i]
    return ClutteredDigits(canvas, labels[chosen].astype(np.int64), corners, size)
