"""Attention maps: who looks at whom, for every head of every layer."""

from contextlib import ExitStack

import numpy as np

from ..autograd import no_grad
from ..backend import to_host
from ..errors import ShapeError
from ..nn import MultiheadAttention, evaluating, watch_attention
from .style import new_figure

__all__ = ["attention_figure", "attention_maps"]


def attention_maps(model, *inputs):
    """The attention weights of every attention in a model, for one forward pass.

    Hooks ask each layer for its weights; the model's own code knows nothing of it.

    Parameters
    ----------
    model : Module
        Run in eval mode, without a graph.
    *inputs
        Given to the model; a batch of one.

    Returns
    -------
    list of array of shape (heads, query, key)
        In the order in which the layers ran.
    """
    maps = []

    def ask(module, args, kwargs):
        return args, {**kwargs, "need_weights": True, "average_attn_weights": False}

    def keep(module, args, output):
        keep_weights(module, output[1])

    def keep_weights(attention, weights):
        maps.append(to_host(weights.array)[0])

    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, MultiheadAttention):
                stack.enter_context(module.register_forward_pre_hook(ask, with_kwargs=True))
                stack.enter_context(module.register_forward_hook(keep))
        with watch_attention(model, keep_weights), evaluating(model), no_grad():
            model(*inputs)
    return maps


def attention_figure(maps, labels, title="Attention weights"):
    """A grid of maps, a row for each layer and a column for each head, on one shared scale.

    Parameters
    ----------
    maps : list of array of shape (heads, query, key)
        One for each layer.
    labels : list of str
        The tokens; as many as the maps have keys. Spaces and line ends are made visible.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    heads, queries, keys = maps[0].shape
    if any(m.shape != maps[0].shape for m in maps) or not len(labels) == keys == queries:
        raise ShapeError(
            "attention_figure(maps, labels): these do not belong together.",
            got=f"maps {[m.shape for m in maps]} and {len(labels)} labels",
            expected="maps (heads, token, token), all of one shape, and a label for each token",
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
                axes.set_title(f"head {head + 1}", fontsize=13)
            if head == 0:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=13)
    shown = [visible(label) for label in labels]
    grid[0, 0].set_xticks(range(keys), shown)  # one set for all: the axes are shared
    grid[0, 0].set_yticks(range(keys), shown)
    bar = figure.colorbar(image, ax=grid, shrink=0.6, aspect=30, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("weight (row: who looks, column: at whom)", fontsize=13)
    figure.suptitle(title, fontsize=15)
    return figure


def visible(label):
    return label.replace(" ", "\u2423").replace("\n", "\u21b5").replace("\t", "\u21e5")
