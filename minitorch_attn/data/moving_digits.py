"""Moving digits: short clips of a handwritten digit that moves in one of eight directions."""

from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .linear_resize import linear_weights

__all__ = ["DIRECTIONS", "Clips", "draw_clips", "enlarged_digits"]

# For each direction, the step in rows (positive is down) and in columns (positive is right).
DIRECTIONS = {
    "up": (-1, 0), "up right": (-1, 1), "right": (0, 1), "down right": (1, 1), "down": (1, 0),
    "down left": (1, -1), "left": (0, -1), "up left": (-1, -1),
}  # fmt: skip


class Clips(NamedTuple):
    """Clips of moving digits.

    Attributes
    ----------
    frames : float32 array of shape (clip, 1, frame, side, side)
        0 is the background, 1 is ink.
    digits, directions : int64 array of shape (clip,)
        The digit, and the index of its direction in `DIRECTIONS`.
    """

    frames: np.ndarray
    digits: np.ndarray
    directions: np.ndarray


def enlarged_digits(images, sizes=(12, 14, 16)):
    """Enlarge square images to each of `sizes`, with linear interpolation.

    Parameters
    ----------
    images : array of shape (image, 1, side, side)
        Handwritten digits, such as those from `digits_split`.
    sizes : sequence of int
        Heights and widths of the enlarged images in pixels.

    Returns
    -------
    list of float32 array
        One array of shape (image, size, size) for each size.

    Examples
    --------
    >>> [x.shape for x in enlarged_digits(np.ones((2, 1, 8, 8)), (12, 16))]
    [(2, 12, 12), (2, 16, 16)]
    """
    side = images.shape[-1]
    enlarged = []
    for size in sizes:
        mix = linear_weights(0, side, size, side)  # (size, side)
        enlarged.append((mix @ images[:, 0] @ mix.T).astype(np.float32))
    return enlarged


@names_arguments
def draw_clips(
    count, enlarged, labels, generator, side=24, frames=4, noise=0.0, spread=1.0, speeds=(1, 2)
):
    """Draw clips in which one digit moves at constant speed and stays inside the image.

    Parameters
    ----------
    count : int
        Number of clips.
    enlarged : list of array
        Digits in several sizes, from `enlarged_digits`.
    labels : int array of shape (digit,)
    generator : numpy.random.Generator
    side, frames : int
        Height and width of a frame in pixels, and number of frames.
    noise : float, default 0
        Standard deviation of Gaussian noise on all pixels.
    spread : float from 0 to 1, default 1
        Fraction of the free space that the paths may use. If 0, all paths are centered.
    speeds : sequence of int, default (1, 2)
        Possible speeds in pixels per frame. One of them is drawn for each clip.

    Returns
    -------
    Clips
        Digits move in each direction with equal probability.

    Examples
    --------
    >>> digits = enlarged_digits(np.ones((5, 1, 8, 8)))
    >>> clips = draw_clips(3, digits, np.arange(5), np.random.default_rng(0))
    >>> clips.frames.shape, clips.digits, [list(DIRECTIONS)[d] for d in clips.directions]
    ((3, 1, 4, 24, 24), array([4, 3, 2]), ['right', 'right', 'up'])
    """
    largest = max(x.shape[-1] for x in enlarged)
    longest = max(speeds) * (frames - 1)
    if largest + longest > side:
        raise ArgumentError(
            "draw_clips: the moving digits do not fit into the image",
            got=f"digits of {largest} pixels, {frames} frames of {side} pixels",
            expected=f"side to be at least {largest + longest}",
        )
    if not 0 <= spread <= 1:
        raise ArgumentError("draw_clips: spread must be between 0 and 1", got=f"spread={spread}")
    chosen = generator.integers(len(labels), size=count)
    directions = generator.integers(len(DIRECTIONS), size=count)
    sizes = generator.integers(len(enlarged), size=count)
    speeds = np.array(speeds)[generator.integers(len(speeds), size=count)]
    steps = np.array(list(DIRECTIONS.values()))[directions] * speeds[:, None]  # (clip, 2)
    places = generator.random((count, 2))  # in the first frame, as a fraction of the free space
    if spread != 1:
        places = 0.5 + spread * (places - 0.5)
    canvas = np.zeros((count, 1, frames, side, side), np.float32)
    for clip in range(count):
        digit = enlarged[sizes[clip]][chosen[clip]]
        size, way = len(digit), (frames - 1) * steps[clip]
        low, high = np.maximum(-way, 0), side - size - np.maximum(way, 0)
        start = low + (places[clip] * (high - low + 1)).astype(int)
        for frame in range(frames):
            row, column = start + frame * steps[clip]
            canvas[clip, 0, frame, row : row + size, column : column + size] = digit
    if noise:
        canvas += generator.normal(0, noise, canvas.shape).astype(np.float32)
    return Clips(canvas, labels[chosen], directions)
