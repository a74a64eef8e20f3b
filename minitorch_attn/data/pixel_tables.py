"""Pixel tables: predict a pixel from its neighbors by counting."""

import math

import numpy as np

__all__ = ["NEIGHBORHOODS", "pixel_table_bits"]

# Row and column offsets of neighbors that come before a pixel in raster order, from few neighbors
# to many.
NEIGHBORHOODS = {
    "left": [(0, -1)],
    "above": [(-1, 0)],
    "left, above": [(0, -1), (-1, 0)],
    "left, above, above left": [(0, -1), (-1, 0), (-1, -1)],
    "left, above, above left, above right": [(0, -1), (-1, 0), (-1, -1), (-1, 1)],
}
_STRENGTHS = (0.5, 1, 2, 4, 8, 16)


def pixel_table_bits(training, test, levels, offsets, position=False):
    """Return the bits per pixel when a table of counts predicts each pixel from its neighbors.

    The table counts how often each level x occurs in each context, which is a combination of the
    neighbors' levels. Many contexts are rare, so the probabilities are smoothed with those of a
    table without the last neighbor. That table is smoothed in the same way, and the table without
    neighbors is smoothed with the uniform distribution. With the strength s of the smoothing,
    p(x | context) = (count(context, x) + s p(x | shorter context)) / (count(context) + s).

    Parameters
    ----------
    training, test : int array of shape (image, height, width)
        Levels of the pixels.
    levels : int
        Number of levels.
    offsets : list of (int, int)
        Row and column offsets of the neighbors. A neighbor outside the image has a special
        level.
    position : bool, default False
        Whether each position has its own table, smoothed with the table for all positions.

    Returns
    -------
    float
        Bits per pixel of the test images, with the smoothing strength s that gives the fewest bits.
        Because s is chosen on the test images, the result is slightly optimistic.

    Examples
    --------
    >>> rows = np.tile([0, 1, 2, 3], (50, 4, 1))  # the left neighbor tells the level
    >>> pixel_table_bits(rows, rows, 4, [(0, -1)]) < 0.01 < pixel_table_bits(rows, rows, 4, [])
    True
    """
    known, wanted = (_contexts(images, levels, offsets, position) for images in (training, test))
    counts = [_counts(a, training, b, levels) for a, b in zip(known, wanted, strict=True)]
    correct = np.arange(test.size), test.reshape(-1)
    found = []
    for strength in _STRENGTHS:
        p = np.full((test.size, levels), 1 / levels)
        for count in counts:  # (pixel, level), for 0, 1, 2, ... neighbors
            p = (count + strength * p) / (count.sum(1, keepdims=True) + strength)
        found.append(-np.log(p[correct]).mean())
    return float(min(found) / math.log(2))


def _contexts(images, levels, offsets, position):
    """Return a list of int arrays (image * pixel,) that give each pixel's context as a number.

    The context in array n consists of the levels of the first n neighbors. If `position` is true,
    the list ends with one more array, whose contexts consist of the levels of all neighbors and the
    position of the pixel.
    """
    count, height, width = images.shape
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=levels)
    found = [np.zeros(images.size, np.int64)]
    for row, column in offsets:
        part = padded[:, 1 + row : 1 + row + height, 1 + column : 1 + column + width]
        found.append(found[-1] * (levels + 1) + part.reshape(-1))
    if position:
        pixel = np.tile(np.arange(height * width), count)
        found.append(found[-1] * (height * width) + pixel)
    return found


def _counts(contexts, training, wanted, levels):
    """For each context in `wanted`, count how often each level occurs in it in `training`.

    `contexts` contains the context of each pixel in `training`, and `wanted` the context of each
    test pixel. The counts have shape (test pixel, level).
    """
    _, numbers = np.unique(np.concatenate([contexts, wanted]), return_inverse=True)
    known, wanted = numbers[: len(contexts)], numbers[len(contexts) :]
    cells = known * levels + training.reshape(-1)
    table = np.bincount(cells, minlength=(numbers.max() + 1) * levels)
    return table.reshape(-1, levels)[wanted]
