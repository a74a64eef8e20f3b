"""Detection figures: the boxes that each query predicts, and images with the detected objects."""

import numpy as np

from ..named_errors import names_arguments
from .captions import caption_figure
from .style import COLOURS, check_axes, host, new_figure

__all__ = ["detections_figure", "query_boxes_figure"]

_SHAPES = {"narrow": COLOURS[0], "about square": COLOURS[1], "wide": COLOURS[2]}


@names_arguments
def query_boxes_figure(boxes, title="The boxes of each query", columns=5):
    """Plot the centers of the boxes that each query predicts in many images, one panel per query.

    Parameters
    ----------
    boxes : Tensor or array of shape (image, query, 4)
        Boxes in center format: x, y, width and height, relative to the size of the image.
    title : str
    columns : int, default 5
        Number of panels in a row.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    The figure follows Figure 7 of Carion et al. 2020, arXiv:2005.12872v3. The color of a point
    shows whether the box's width is less than 2/3 of its height, more than 1.5 times its height, or
    in between. Larger boxes have larger points.
    """
    from matplotlib.lines import Line2D

    check_axes(boxes, 3, "query_boxes_figure", "boxes", "(image, query, 4)")
    boxes = host(boxes)
    rows = max(-(-boxes.shape[1] // columns), 1)
    figure = new_figure(1.5 * columns, 1.6 * rows + 0.9)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()
    for n, axes in enumerate(grid[: boxes.shape[1]]):
        x, y, width, height = boxes[:, n].T
        ratio = width / np.maximum(height, 1e-9)
        shape = (ratio >= 2 / 3).astype(int) + (ratio > 1.5)
        axes.set_axis_on()
        axes.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[], aspect="equal")
        axes.set_title(f"query {n}", fontsize=9)
        for kind, colour in enumerate(_SHAPES.values()):
            here = shape == kind
            axes.scatter(
                x[here], y[here], s=2 + 60 * (width * height)[here], color=colour,
                alpha=0.5, linewidths=0,
            )  # fmt: skip
    handles = [
        Line2D([], [], ls="", marker="o", color=c, label=name) for name, c in _SHAPES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)
    figure.suptitle(title, fontsize=12)
    return figure


@names_arguments
def detections_figure(scenes, title="Detections"):
    """Plot each image with all its boxes, and for each box the attention of its query.

    Parameters
    ----------
    scenes : sequence of (image, boxes, names, weights)
        Image of shape (height, width) with values from 0 (paper) to 1 (ink); boxes of shape
        (box, 4), as left, top, right and bottom in pixels; list of names of the boxes; and
        attention weights of shape (box, row, column) on a grid that covers the image.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    for _, boxes, _, _ in scenes:
        check_axes(boxes, 2, "detections_figure", "scenes", "(box, 4)")
    figure = caption_figure([(image, names, weights) for image, _, names, weights in scenes], title)
    if not scenes:
        return figure
    grid = np.reshape(figure.axes, (len(scenes), -1))
    for row, (_, boxes, _, _) in zip(grid, scenes, strict=True):
        for n, box in enumerate(host(boxes)):
            for axes in (row[0], row[n + 1]):
                _frame(axes, box, COLOURS[n % len(COLOURS)])
    return figure


def _frame(axes, box, colour):
    """Draw a box."""
    from matplotlib.patches import Rectangle

    left, top, right, bottom = map(float, box)
    axes.add_patch(
        Rectangle((left, top), right - left, bottom - top, fill=False, color=colour, linewidth=1.5)
    )
