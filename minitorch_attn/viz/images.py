"""Image figures: a grid of grayscale images with a label for each row."""

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .style import COLOURS, check_axes, host, new_figure

__all__ = ["image_rows_figure"]


@names_arguments
def image_rows_figure(rows, labels, title="Images", captions=None, points=None):
    """Plot a grid of images, with a label to the left of each row.

    Parameters
    ----------
    rows : sequence of sequences of Tensor or array of shape (height, width)
        Images with values from 0 (white) to 1 (black). NaN stands for a missing pixel, which is
        drawn in gray-blue. Rows may have different lengths.
    labels : sequence of str
        Labels, one for each row.
    title : str
    captions : sequence of sequences of str, optional
        Captions, one under each image.
    points : sequence of (row, column), optional
        For each image in the first row, the pixel to mark with an orange dot.

    Returns
    -------
    matplotlib.figure.Figure
    """
    columns = max(map(len, rows), default=0)
    if not columns:
        raise ArgumentError("image_rows_figure: rows must contain at least one image")
    for image in (image for row in rows for image in row):
        check_axes(image, 2, "image_rows_figure", "rows", "(height, width)")
    height = 1.0 if captions is None else 1.3
    figure = new_figure(0.95 * columns + 1.6, height * len(rows) + 0.7)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for r, row in enumerate(rows):
        for c in range(columns):
            axes = grid[r, c]
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_color("0.8")
            if c >= len(row):
                axes.set_axis_off()
                continue
            axes.set_facecolor("#c9d6e2")  # visible where a pixel is NaN
            axes.imshow(np.ma.masked_invalid(host(row[c])), cmap="gray_r", vmin=0, vmax=1)
            if points is not None and r == 0:
                axes.plot(*points[c][::-1], "o", markersize=4, color=COLOURS[1])
            if captions is not None:
                axes.set_xlabel(captions[r][c], fontsize=9, labelpad=2)
        if labels[r]:
            grid[r, 0].set_ylabel(
                labels[r], rotation=0, ha="right", va="center", fontsize=10, labelpad=6
            )
    figure.suptitle(title, fontsize=12)
    return figure
