"""Figures of Swin's windows: partition, shift, masks, and the position bias of token pairs."""

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..ops.windows import relative_position_index, shifted_window_mask, window_regions
from .style import COLOURS, new_figure

__all__ = ["relative_index_figure", "windows_figure"]

_MOST_TOKENS = 10_000


@names_arguments
def windows_figure(height=8, width=8, window=4, shift=2, title="Windows before and after a shift"):
    """Plot how a feature map is shifted and partitioned into windows, with regions and masks.

    Parameters
    ----------
    height, width : int
        Size of the feature map in tokens. Both must be multiples of `window`.
    window, shift : int
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    Liu et al. 2021, arXiv:2103.14030v2, Figures 2 and 4.
    """
    if not 0 < height * width <= _MOST_TOKENS or not 0 < window <= max(height, width):
        raise ArgumentError(
            "windows_figure: height, width or window is too small or too large to draw",
            got=f"height={height}, width={width} and window={window}",
            expected=f"from 1 to {_MOST_TOKENS:,} tokens, and a window not larger than the map",
        )
    sizes, shifts = (window, window), (shift, shift)
    rows, columns = np.indices((height, width))
    before = rows // window * (width // window) + columns // window
    places = rows * width + columns  # each token carries its original position
    rolled = np.roll(places, (-shift, -shift), (0, 1))
    regions = window_regions(height, width, sizes, shifts).numpy()
    mask = shifted_window_mask(height, width, sizes, shifts).numpy()
    figure = new_figure(13.2, 4.4)
    first, second, third, fourth = figure.subfigures(1, 4, width_ratios=(1, 1, 1, 1.05))
    plain = first.subplots()
    _draw_map(plain, before, places, window, "1. windows of the previous block")
    _draw_map(second.subplots(), before.reshape(-1)[rolled], rolled, window,
              f"2. the map rolled by {shift}; same colors")  # fmt: skip
    _draw_map(third.subplots(), regions, rolled, window, "3. regions: neighbors before the roll")
    _draw_masks(fourth, mask, (height // window, width // window))
    figure.suptitle(title, fontsize=13)
    return figure


def _draw_map(panel, colors, numbers, window, title):
    """Plot a map of colored and numbered tokens, with thick lines between windows."""
    from matplotlib.colors import ListedColormap

    palette = ListedColormap([*COLOURS, "#F0E442", "#999999", "#DDDDDD"])
    _, index = np.unique(colors, return_inverse=True)
    shown = index.reshape(colors.shape) % palette.N
    panel.imshow(shown, cmap=palette, vmin=-0.5, vmax=palette.N - 0.5, alpha=0.55)
    height, width = colors.shape
    for edge in range(0, height + 1, window):
        panel.axhline(edge - 0.5, color="black", linewidth=1.8)
    for edge in range(0, width + 1, window):
        panel.axvline(edge - 0.5, color="black", linewidth=1.8)
    if height * width <= 256:
        for (row, column), number in np.ndenumerate(numbers):
            panel.text(column, row, number, ha="center", va="center", fontsize=6.5)
    panel.set(xticks=[], yticks=[])
    panel.set_title(title, fontsize=9.5)


def _draw_masks(figure, mask, windows):
    panels = figure.subplots(*windows, squeeze=False)
    for number, (panel, attend) in enumerate(zip(panels.flat, mask, strict=True)):
        panel.imshow(attend, cmap="Blues", vmin=0, vmax=1.3)
        panel.set(xticks=[], yticks=[])
        panel.set_title(f"window {number}", fontsize=8)
    figure.suptitle("4. pairs that may attend (blue)", fontsize=9.5)


@names_arguments
def relative_index_figure(window=3, title="Relative positions share biases"):
    """Plot the position-bias index for each pair of tokens in a window.

    Parameters
    ----------
    window : int
        Side length of the window in tokens.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    Liu et al. 2021, arXiv:2103.14030v2, section 3.2, "Relative position bias": a window of M x M
    tokens has M^4 pairs and (2M - 1)^2 offsets.
    """
    index = relative_position_index((window, window)).numpy()
    tokens, entries = window**2, (2 * window - 1) ** 2
    figure = new_figure(11.5, 5.4)
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.8, 1.3, 1))
    scale = dict(cmap="viridis", vmin=0, vmax=entries - 1)
    _numbered(left, np.arange(tokens).reshape(window, window), dict(cmap="Greys", vmin=0, vmax=99))
    left.set(xticks=[], yticks=[])
    left.set_title("tokens of a window", fontsize=10)
    _numbered(middle, index, scale)
    middle.set(xlabel="key", ylabel="query")
    middle.set_title("table entry of each pair", fontsize=10)
    _numbered(right, np.arange(entries).reshape(2 * window - 1, -1), scale)
    offsets = range(-window + 1, window)
    right.set_xticks(range(len(offsets)), offsets)
    right.set_yticks(range(len(offsets)), offsets)
    right.set(xlabel="columns from key to query", ylabel="rows from key to query")
    right.set_title("the table: one bias per offset and head", fontsize=10)
    figure.suptitle(title, fontsize=13)
    return figure


def _numbered(panel, numbers, scale):
    panel.imshow(numbers, **scale)
    panel.tick_params(length=0, labelsize=8)
    panel.set_xticks(range(numbers.shape[1]))
    panel.set_yticks(range(numbers.shape[0]))
    panel.spines[:].set_visible(False)
    if numbers.size <= 400:
        middle = (scale["vmin"] + scale["vmax"]) / 2
        for (row, column), number in np.ndenumerate(numbers):
            dark = scale["cmap"] == "viridis" and number < middle
            color = "white" if dark else "black"
            panel.text(column, row, number, ha="center", va="center", fontsize=7.5, color=color)
