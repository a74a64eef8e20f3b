"""Mask-Predict figure: the masked tokens, predictions and probabilities of each pass."""

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .attention import visible
from .style import COLOURS, host, new_figure

__all__ = ["passes_figure"]


@names_arguments
def passes_figure(examples, title="Positions by pass"):
    """Plot how parallel decoding fills in a text: one row per pass, one cell per position.

    Parameters
    ----------
    examples : list of (str, list of (tokens, bool array, float array))
        For each example, a heading and its passes. A pass consists of three sequences: the tokens
        after the pass; whether each token was masked before the pass and therefore predicted in it;
        and the probability that each token had when it was predicted.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
        The color of a cell shows the probability. A frame marks a token that the pass predicts.
    """
    longest, heights = 0, []
    for heading, passes in examples:
        for tokens, masked, chances in passes:
            if not len(tokens) == len(host(masked)) == len(host(chances)):
                raise ArgumentError(
                    "passes_figure: tokens, masks and probabilities must have the same length",
                    got=f"{len(tokens)}, {len(host(masked))} and {len(host(chances))} "
                    f"in {heading!r}",
                )
            longest = max(longest, len(tokens))
        heights.append(len(passes))
    if not all(heights) or not heights:
        raise ArgumentError(
            "passes_figure: there must be at least one example, each with at least one pass",
            got=f"{len(heights)} examples with {heights} passes",
        )
    figure = new_figure(0.25 * longest + 2.4, 0.31 * sum(heights) + 0.6 * len(examples) + 0.9)
    grid = figure.subplots(len(examples), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (heading, passes) in zip(grid, examples, strict=True):
        image = _draw(axes, passes, longest)
        axes.set_title(heading, loc="left", fontsize=10)
    bar = figure.colorbar(image, ax=list(grid), shrink=0.6, aspect=25, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("probability of the token")
    figure.suptitle(f"{title}\n(framed: masked before the pass, and predicted in it)", fontsize=11)
    return figure


def _draw(axes, passes, longest):
    """Draw the passes of one example, and return the matplotlib image."""
    colors = np.full((len(passes), longest), np.nan)
    for row, (tokens, masked, chances) in enumerate(passes):
        colors[row, : len(tokens)] = host(chances)
        for column, (token, is_new) in enumerate(zip(tokens, host(masked), strict=True)):
            dark = colors[row, column] > 0.6
            axes.text(
                column, row, visible(token), ha="center", va="center", fontsize=9,
                family="monospace", color="white" if dark else "black",
            )  # fmt: skip
            if is_new:
                _frame(axes, column, row)
    image = axes.imshow(colors, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_yticks(range(len(passes)), [f"pass {i + 1}" for i in range(len(passes))])
    axes.set_xticks([])
    axes.tick_params(length=0, labelsize=9)
    axes.spines[:].set_visible(False)
    return image


def _frame(axes, column, row):
    left, right, top, bottom = column - 0.42, column + 0.42, row - 0.4, row + 0.4
    x, y = [left, right, right, left, left], [top, top, bottom, bottom, top]
    axes.plot(x, y, color=COLOURS[1], linewidth=1.5)
