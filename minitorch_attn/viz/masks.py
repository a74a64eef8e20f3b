"""Plot masks side by side: which queries may attend to which keys."""

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..nn.masks import Mask
from .attention import visible
from .style import host, new_figure

__all__ = ["masks_figure"]

_MAY, _MAY_NOT = "#0072B2", "#f2f2f2"


@names_arguments
def masks_figure(masks, labels=None, title="Masks"):
    """Plot one panel per mask. Rows are queries, columns are keys, and blue means "may attend".

    Parameters
    ----------
    masks : dict of str to Mask, or bool Tensor or array of shape (..., query, key)
        Masks by caption. A mask is True where a query may attend to a key. If a mask has several
        batch entries or heads, the figure shows the first.
    labels : list of str, optional
        Tokens that label the axes.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.colors import ListedColormap

    if not isinstance(masks, dict) or not masks:
        raise ArgumentError(
            "masks_figure: masks must be a dict and must not be empty", got=f"{masks!r:.60}"
        )
    figure = new_figure(2.5 * len(masks) + 0.4, 3.2)
    panels = figure.subplots(1, len(masks), squeeze=False)[0]
    for panel, (caption, mask) in zip(panels, masks.items(), strict=True):
        attend = host(mask.attend if isinstance(mask, Mask) else mask)
        attend = attend.reshape(-1, *attend.shape[-2:])[0]
        queries, keys = attend.shape
        colors = ListedColormap([_MAY_NOT, _MAY])
        panel.imshow(attend.astype(int), cmap=colors, vmin=0, vmax=1)
        panel.set_xticks(np.arange(keys + 1) - 0.5, minor=True)
        panel.set_yticks(np.arange(queries + 1) - 0.5, minor=True)
        panel.grid(which="minor", color="white", linewidth=1.2)
        panel.tick_params(which="both", length=0, labelsize=8)
        names = [visible(label) for label in labels] if labels and len(labels) >= keys else None
        panel.set_xticks(range(keys), names[:keys] if names else range(keys))
        panel.set_yticks(range(queries), names[:queries] if names else range(queries))
        panel.spines[:].set_visible(False)
        panel.set_title(caption, fontsize=10)
    panels[0].set_ylabel("query")
    figure.supxlabel("key (blue: the query may attend to it)", fontsize=9)
    figure.suptitle(title, fontsize=13)
    return figure
