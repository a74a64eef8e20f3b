"""Cross-attention maps from the tokens of one text to the tokens of another text."""

from ..named_errors import names_arguments
from .attention import visible
from .style import check_axes, host, new_figure

__all__ = ["cross_attention_figure"]


@names_arguments
def cross_attention_figure(maps, title="Cross-attention", names=None):
    """Plot a cross-attention map for each pair of texts: targets are rows, sources are columns.

    Parameters
    ----------
    maps : list of (Tensor or array of shape (target, source), source labels, target labels)
        Weights with rows that sum to at most 1, and the labels of their columns and rows. All maps
        use the same color scale, from 0 to 1.
    title : str
    names : list of str, optional
        Title of each map, such as the name of the model that wrote the target text.

    Returns
    -------
    matplotlib.figure.Figure
    """
    for weights, _, _ in maps:
        check_axes(weights, 2, "cross_attention_figure", "maps", "(target, source)")
    longest = max(len(source) for _, source, _ in maps)
    heights = [len(target) for _, _, target in maps]
    figure = new_figure(0.27 * longest + 2.2, 0.24 * sum(heights) + 0.75 * len(maps) + 0.8)
    grid = figure.subplots(len(maps), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (weights, source, target), name in zip(
        grid, maps, names or [""] * len(maps), strict=True
    ):
        image = axes.imshow(host(weights), cmap="Blues", vmin=0, vmax=1, aspect="equal")
        axes.set_xlim(-0.5, longest - 0.5)  # same cell size and left edge for all maps
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(source)), [visible(label) for label in source])
        axes.set_yticks(range(len(target)), [visible(label) for label in target])
        axes.set_title(name, loc="left")
        axes.tick_params(length=0, labelsize=9, pad=2)
        axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=list(grid), shrink=0.5, aspect=25, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("weight (row: target token, column: source token)")
    figure.suptitle(title)
    return figure
