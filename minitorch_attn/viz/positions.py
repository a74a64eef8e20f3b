"""Position embeddings: the Transformer's sinusoids, and a ViT's learned position embeddings."""

import numpy as np

from ..errors import ShapeError
from ..named_errors import names_arguments
from ..nn import sinusoidal_positions
from .style import COLOURS, host, new_figure

__all__ = ["position_similarity_figure", "sinusoidal_figure"]


@names_arguments
def sinusoidal_figure(num_positions=100, dim=64, title="Sinusoidal positions"):
    """Plot the table of sinusoids, four of its columns, and the dot products of its rows.

    Parameters
    ----------
    num_positions, dim : int
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    Vaswani et al. 2017, arXiv:1706.03762v7, section 3.5. The dot product of two rows depends only
    on their distance, because cos a cos b + sin a sin b = cos(a - b).
    """
    table = sinusoidal_positions(num_positions, dim).numpy()
    figure = new_figure(12.5, 3.9)
    heat, curves, alike = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1))
    shown = heat.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    heat.set(xlabel="dimension", ylabel="position", title="the table: one row is added to a token")
    bar = figure.colorbar(shown, ax=heat, aspect=25, pad=0.02)
    bar.outline.set_visible(False)
    for color, column in zip(COLOURS, (0, dim // 8, dim // 4, dim // 2), strict=False):
        curves.plot(table[:, column], color=color, label=f"dimension {column}", linewidth=1.5)
    curves.set(xlabel="position", ylim=(-1.1, 1.75), title="four dimensions")
    curves.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)
    curves.spines[["top", "right"]].set_visible(False)
    products = table @ table.T
    shown = alike.imshow(products, cmap="viridis")
    alike.set(xlabel="position", ylabel="position", title="dot products")
    bar = figure.colorbar(shown, ax=alike, shrink=0.85, aspect=25, pad=0.02)
    bar.outline.set_visible(False)
    figure.suptitle(title, fontsize=13)
    return figure


@names_arguments
def position_similarity_figure(embeddings, grid, title="Similarity of learned positions"):
    """Plot the similarity of each patch's position embedding to those of all patches.

    Parameters
    ----------
    embeddings : Tensor or array of shape (patch, embed)
        Position embeddings of the patches, without the class token.
    grid : (int, int)
        Number of patch rows and patch columns.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    The figure shows the cosine similarity, as in Dosovitskiy et al. 2020, arXiv:2010.11929v2,
    Figure 7, center.
    """
    table = host(embeddings)
    rows, columns = grid
    whole = isinstance(rows, int) and isinstance(columns, int)
    if not whole or table.ndim != 2 or len(table) != rows * columns:
        raise ShapeError(
            "position_similarity_figure: embeddings does not match grid",
            got=f"embeddings {table.shape}, grid {grid}", expected=f"({rows * columns}, embed)",
            hint="omit the class token's position embedding: embeddings[1:]",
        )  # fmt: skip
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    unit = table / np.where(norms == 0, 1, norms)
    similarity = unit @ unit.T
    side = min(0.75, 9 / max(grid))
    figure = new_figure(columns * side + 1.4, rows * side + 1.0)
    panels = figure.subplots(rows, columns, squeeze=False)
    for patch, panel in enumerate(panels.flat):
        shown = panel.imshow(similarity[patch].reshape(grid), cmap="viridis", vmin=-1, vmax=1)
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
    for row in range(rows):
        panels[row, 0].set_ylabel(str(row), fontsize=8, rotation=0, ha="right", va="center")
    for column in range(columns):
        panels[-1, column].set_xlabel(str(column), fontsize=8)
    bar = figure.colorbar(shown, ax=panels, aspect=30, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("cosine similarity", fontsize=9)
    figure.supxlabel("column of the patch", fontsize=9)
    figure.supylabel("row of the patch", fontsize=9)
    figure.suptitle(title, fontsize=12)
    return figure
