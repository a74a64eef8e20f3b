"""Attention maps for every head in every layer."""

import numpy as np

from ..autograd import no_grad
from ..backend import to_host
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..nn import evaluating, watch_attention
from .style import host, new_figure

__all__ = ["attention_figure", "attention_maps"]


@names_arguments
def attention_maps(model, *inputs):
    """Run a model once, and return the attention weights of every attention layer.

    Hooks request the weights from each layer, so the model's code does not have to change.

    Parameters
    ----------
    model : Module
        Model to run. It runs in eval mode and without a graph.
    *inputs
        Inputs for the model, with a batch size of 1.

    Returns
    -------
    list of array of shape (heads, query, key)
        Attention maps in the order in which the layers ran.
    """
    maps = []

    def keep_weights(attention, weights):
        maps.append(to_host(weights.array)[0])

    with watch_attention(model, keep_weights), evaluating(model), no_grad():
        model(*inputs)
    return maps


@names_arguments
def attention_figure(maps, labels, title="Attention weights", first=0):
    """Plot a grid of attention maps, with a row for each layer and a column for each head.

    Parameters
    ----------
    maps : list of Tensor or array of shape (heads, query, key)
        Attention maps, one for each layer. If the maps have a batch axis, the figure shows the
        first item. For a model with one layer, this may be a single Tensor or array.
    labels : str or list of str
        Tokens, one for each key in the maps. Spaces and newlines are made visible.
    title : str
    first : int, default 0
        Number of the first layer. Layers and heads are counted from 0, as in the names of modules.

    Returns
    -------
    matplotlib.figure.Figure
    """
    maps = [host(weights) for weights in ([maps] if hasattr(maps, "ndim") else maps)]
    maps = [weights[0] if weights.ndim == 4 else weights for weights in maps]
    if not maps or maps[0].ndim != 3:
        raise ShapeError(
            "attention_figure: the maps must have a head, a query and a key axis",
            got=f"{[weights.shape for weights in maps]}",
            expected="(heads, query, key), or (batch, heads, query, key), for each layer",
        )
    heads, queries, keys = maps[0].shape
    if any(m.shape != maps[0].shape for m in maps) or not len(labels) == keys == queries:
        raise ShapeError(
            "attention_figure: the maps have different shapes or do not match the labels",
            got=f"maps {[m.shape for m in maps]} and {len(labels)} labels",
            expected="maps of one shape (heads, token, token), and one label for each token",
        )
    side = max(2.4, 0.085 * keys)
    figure = new_figure(heads * side + 1.3, len(maps) * side + 1.0)
    grid = figure.subplots(len(maps), heads, squeeze=False, sharex=True, sharey=True)
    top = max(float(np.nanmax(m)) for m in maps)
    for layer, weights in enumerate(maps):
        for head in range(heads):
            axes = grid[layer, head]
            image = axes.imshow(weights[head], cmap="Blues", vmin=0, vmax=top, aspect="equal")
            axes.tick_params(length=0, labelsize=6.5, pad=1.5)
            axes.spines[:].set_color("0.7")
            if layer == 0:
                axes.set_title(f"head {head}", fontsize=13)
            if head == 0:
                axes.set_ylabel(f"layer {first + layer}", fontsize=13)
    shown = [visible(label) for label in labels]
    grid[0, 0].set_xticks(range(keys), shown)  # the axes are shared, so one set of ticks suffices
    grid[0, 0].set_yticks(range(keys), shown)
    bar = figure.colorbar(image, ax=grid, shrink=0.6, aspect=30, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("weight (row: query, column: key)", fontsize=13)
    figure.suptitle(title, fontsize=15)
    return figure


def visible(label):
    return label.replace(" ", "\u2423").replace("\n", "\u21b5").replace("\t", "\u21e5")
