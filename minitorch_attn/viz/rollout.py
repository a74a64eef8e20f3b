"""Attention rollout through all layers, and the class token's attention to an image."""

import numpy as np

from ..errors import ShapeError
from ..named_errors import names_arguments
from .style import host, new_figure

__all__ = ["attention_rollout", "class_attention_figure"]


@names_arguments
def attention_rollout(maps, residual=0.5):
    r"""Compute how much each input token contributes to each output token through attention.

    A_l = residual I + (1 - residual) (mean of layer l's weights over heads), normalized by row
    rollout = A_L ... A_2 A_1 for L layers.

    Parameters
    ----------
    maps : sequence of Tensor or array of shape (heads, token, token)
        Attention maps, one for each layer, from the first to the last.
    residual : float, default 0.5
        Weight of the residual connection, which bypasses attention.

    Returns
    -------
    array of shape (token, token)
        Rollout, whose rows sum to 1.

    Notes
    -----
    Abnar and Zuidema 2020, arXiv:2005.00928v2, section 3, "Attention rollout".

    Examples
    --------
    >>> looks_back = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    >>> attention_rollout([looks_back, looks_back])
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
    rollout = None
    for weights in maps:
        weights = host(weights)
        if weights.ndim != 3 or weights.shape[1] != weights.shape[2]:
            raise ShapeError(
                "attention_rollout: maps must have three axes and be square in the last two",
                got=f"{weights.shape}", expected="(heads, token, token) for each layer",
            )  # fmt: skip
        layer = residual * np.eye(weights.shape[1]) + (1 - residual) * weights.mean(0)
        layer /= layer.sum(-1, keepdims=True)
        rollout = layer if rollout is None else layer @ rollout
    return rollout


@names_arguments
def class_attention_figure(image, maps, grid, title="What the class token looks at", prefix=1):
    """Plot the class token's attention to the image: the heads of the last layer, and rollout.

    Parameters
    ----------
    image : Tensor or array of shape (height, width) or (channels, height, width)
        Image with values in any range.
    maps : list of Tensor or array of shape (heads, token, token)
        Attention maps of all layers; the class token is token 0.
    grid : (int, int)
        Number of patch rows and patch columns.
    title : str
    prefix : int, default 1
        Number of tokens before the patches; 2 if the model has a distillation token.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    The heads are shown as in Caron et al. 2021, arXiv:2104.14294v2, Figure 1, all with the same
    color scale. A row of weights sums to 1; the figure does not show the class token's weight for
    itself.
    """
    maps = [host(weights) for weights in maps]
    last = maps[-1]
    tokens = prefix + grid[0] * grid[1]
    if any(np.shape(m)[-2:] != (tokens, tokens) for m in maps):
        raise ShapeError(
            "class_attention_figure: the maps do not match the grid",
            got=f"maps {[np.shape(m) for m in maps]}, grid {grid}, prefix {prefix}",
            expected=f"(heads, {tokens}, {tokens})",
            hint="set prefix to the number of tokens before the patches, such as the class token",
        )
    picture = _as_picture(image)
    heads = [row[0, prefix:].reshape(grid) for row in last]
    rolled = attention_rollout(maps)[0, prefix:].reshape(grid)
    figure = new_figure(1.75 * (len(heads) + 2) + 0.8, 2.3)
    axes = figure.subplots(1, len(heads) + 2)
    grey = "gray" if picture.ndim == 2 else None
    axes[0].imshow(picture, cmap=grey)
    axes[0].set_title("image", fontsize=10)
    top = max(head.max() for head in heads)
    for i, (panel, weights) in enumerate(zip(axes[1:], [*heads, rolled], strict=True)):
        is_head = i < len(heads)
        panel.imshow(picture, cmap=grey)
        shown = panel.imshow(
            weights, cmap="magma", alpha=0.75, vmin=0, vmax=top if is_head else rolled.max(),
            extent=(-0.5, picture.shape[1] - 0.5, picture.shape[0] - 0.5, -0.5),
        )  # fmt: skip
        panel.set_title(f"head {i}" if is_head else "rollout", fontsize=10)
        if i == len(heads) - 1:
            of_heads = shown
    for panel in axes:
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
    bar = figure.colorbar(of_heads, ax=list(axes[1:-1]), shrink=0.7, aspect=18, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("weight of a patch", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(title, fontsize=12)
    return figure


def _as_picture(image):
    """Convert an image to shape (height, width) or (height, width, 3), with values from 0 to 1."""
    image = host(image).astype("float64")
    if image.ndim == 3:
        image = image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0)
    low, high = image.min(), image.max()
    return (image - low) / (high - low if high > low else 1)
