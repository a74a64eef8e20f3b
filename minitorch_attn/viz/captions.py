"""Caption figures: the attention of an image-captioning model to the image, for each word."""

import numpy as np

from ..errors import ShapeError
from ..named_errors import names_arguments
from .style import check_axes, host, new_figure

__all__ = ["caption_figure"]

_GLOW = [(0.95, 0.62, 0.0, 0.0), (0.90, 0.42, 0.0, 0.6), (0.80, 0.20, 0.05, 0.75)]  # RGBA


@names_arguments
def caption_figure(scenes, title="Captions", labels=None, smooth=True):
    """Plot each image, and for each word of its caption the image with the attention weights.

    Parameters
    ----------
    scenes : sequence of (image, words, weights)
        Image of shape (height, width) with values from 0 (paper) to 1 (ink), list of words, and
        attention weights of shape (word, row, column) on a grid that covers the image. For a
        captioning model, use the weights with which it predicts the word. Larger weights have a
        stronger color; the largest weight in a row of the figure has the full color.
    title : str
    labels : sequence of str, optional
        Labels to the left of the rows.
    smooth : bool or sequence of bool, default True
        Whether to interpolate smoothly between the weights in a row of the figure. If False, each
        position of the grid is drawn as a square.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ShapeError
        If an array has the wrong number of axes, or a scene does not have one map per word.
    """
    for image, words, weights in scenes:
        check_axes(image, 2, "caption_figure", "scenes", "(height, width)")
        check_axes(weights, 3, "caption_figure", "scenes", "(word, row, column)")
        if len(words) != len(weights):
            raise ShapeError(
                "caption_figure: each scene must have one attention map per word",
                got=f"{len(words)} words and {len(weights)} maps",
            )
    columns = 1 + max((len(words) for _, words, _ in scenes), default=0)
    figure = new_figure(1.15 * columns + 0.5 + (labels is not None), 1.35 * len(scenes) + 0.5)
    grid = figure.subplots(max(len(scenes), 1), columns, squeeze=False)
    for axes in grid.ravel():
        axes.set_axis_off()
    smooth = [smooth] * len(scenes) if isinstance(smooth, bool) else smooth
    for r, (row, (image, words, weights)) in enumerate(zip(grid, scenes, strict=False)):
        top = host(weights).max(initial=0) or 1
        for axes, word, glow in zip(row, ["", *words], [None, *host(weights)], strict=False):
            _draw(axes, host(image), word, glow, top, smooth[r])
        if labels is not None:
            row[0].set_ylabel(
                labels[r], rotation=0, ha="right", va="center", fontsize=10, labelpad=8
            )
    figure.suptitle(title, fontsize=12)
    return figure


def _draw(axes, image, word, glow, top, smooth):
    """Draw the image in gray, with the attention weights (`glow`) over it."""
    from matplotlib.colors import LinearSegmentedColormap

    height, width = image.shape
    extent = (0, width, height, 0)
    axes.set_axis_on()
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color("0.75")
    shade = 1.0 if glow is None else 0.75  # lighter ink under the weights
    axes.imshow(shade * np.clip(image, 0, 1), cmap="gray_r", vmin=0, vmax=1, extent=extent)
    if glow is not None:
        colours = LinearSegmentedColormap.from_list("glow", _GLOW)
        interpolation = "bicubic" if smooth else "nearest"
        axes.imshow(
            glow, cmap=colours, vmin=0, vmax=top, extent=extent, interpolation=interpolation
        )
    axes.set_xlabel(word, fontsize=10, labelpad=3)
