"""Superposition figures: how many features a small model represents, and in which directions."""

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from .style import COLOURS, check_axes, host, new_figure

__all__ = ["dimensionality_figure", "feature_directions_figure", "superposition_figure"]

# Dimensionality of a feature, and the shape that such features form (arXiv:2209.10652, section 4).
_SHAPES = (
    (1, "own dimension"), (3 / 4, "tetrahedron"), (2 / 3, "triangle"), (1 / 2, "opposite pair"),
    (2 / 5, "pentagon"),
)  # fmt: skip


@names_arguments
def superposition_figure(matrices, interference, captions, title="Superposition"):
    """Plot W^T W of each model as a heat map, and below it the norm of each column of W.

    Parameters
    ----------
    matrices : sequence of Tensor or array of shape (hidden, feature)
        One matrix W for each model.
    interference : sequence of Tensor or array of shape (feature,)
        Interference of each feature with the other features of its model, as computed by
        `models.superposition.interference`. 0 is drawn in blue, and 1 or more in orange.
    captions : sequence of str
        Captions, one above each heat map.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    matrices = _matrices(matrices, "superposition_figure")
    figure = new_figure(1.65 * len(matrices) + 1.1, 4.9)
    grid = figure.subplots(
        2, len(matrices), squeeze=False, gridspec_kw={"height_ratios": (1, 1.25)}
    )
    longest = max(np.linalg.norm(W, axis=0).max(initial=1.0) for W in matrices)
    for c, W in enumerate(matrices):
        image = grid[0, c].imshow(W.T @ W, cmap="RdBu", vmin=-1, vmax=1)
        grid[0, c].set_title(captions[c], fontsize=10)
        grid[0, c].set(xticks=[], yticks=[])
        axes, places = grid[1, c], np.arange(W.shape[1])
        shared = host(interference[c]).clip(0, 1)
        axes.barh(places, np.linalg.norm(W, axis=0), height=0.8, color=_blend(shared))
        axes.set(xlim=(0, 1.08 * longest), xticks=[0, 1], yticks=[])
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    grid[0, 0].set_ylabel("$W^T W$\n(feature, feature)")
    grid[1, 0].set_ylabel("feature, most\nimportant on top")
    figure.supxlabel(
        "norm of the feature's column of W; blue: has a direction to itself, orange: shares it",
        fontsize=10,
    )
    figure.colorbar(image, ax=grid[0].tolist(), shrink=0.8, aspect=12)
    figure.suptitle(title, fontsize=12)
    return figure


@names_arguments
def feature_directions_figure(matrices, captions, title="Features in two dimensions"):
    """Plot each matrix's columns as arrows in the plane, and connect neighboring tips.

    Parameters
    ----------
    matrices : sequence of Tensor or array of shape (2, feature)
        One matrix W for each model. The arrow of feature 0 is the darkest.
    captions : sequence of str
        Captions, one above each plot.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    matrices = _matrices(matrices, "feature_directions_figure", rows=2)
    figure = new_figure(2.6 * len(matrices), 3.2)
    grid = figure.subplots(1, len(matrices), squeeze=False)[0]
    limit = 1.15 * max(np.abs(W).max(initial=0.5) for W in matrices)
    for axes, W, caption in zip(grid, matrices, captions, strict=True):
        kept = np.linalg.norm(W, axis=0) > 0.3
        order = np.flatnonzero(kept)
        order = order[np.argsort(np.arctan2(W[1, order], W[0, order]))]
        axes.fill(*W[:, order], facecolor="#e8eef4", edgecolor="0.75", linewidth=1)
        for feature, (x, y) in enumerate(W.T):
            color = _blend(np.array([feature / max(W.shape[1] - 1, 1)]), "#08306b", COLOURS[4])
            axes.plot([0, x], [0, y], color=color[0], linewidth=2.2)
            axes.plot([x], [y], "o", color=color[0], markersize=6)
        axes.axhline(0, color="0.9", linewidth=0.8, zorder=0)
        axes.axvline(0, color="0.9", linewidth=0.8, zorder=0)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[], aspect="equal")
        axes.spines[:].set_color("0.8")
        axes.set_title(f"{caption}\n{kept.sum()} of {W.shape[1]} features", fontsize=10)
    figure.suptitle(title, fontsize=12)
    return figure


@names_arguments
def dimensionality_figure(inverse_density, dimensions, by_feature, title="Dimensions per feature"):
    """Plot the dimensions per feature, and each feature's dimensionality, against 1 / (1 - S).

    The dimensions per feature are m / ||W||^2, one number for a model with m hidden dimensions (see
    `models.superposition.dimensions_per_feature`). The dimensionality of a single feature is the
    fraction of a dimension that it uses (see `models.superposition.feature_dimensionality`).

    Parameters
    ----------
    inverse_density : array of shape (model,)
        1 / (1 - S) for each model, where S is the sparsity of its features.
    dimensions : array of shape (model,)
        Number of dimensions per feature, for each model.
    by_feature : sequence of arrays of shape (feature,)
        Dimensionality of each feature, for each model.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    x, y = host(inverse_density), host(dimensions)
    if x.ndim != 1 or x.shape != y.shape or len(by_feature) != len(x):
        raise ShapeError(
            "dimensionality_figure: inverse_density, dimensions and by_feature must have one entry "
            "per model",
            got=f"shapes {x.shape} and {y.shape}, and {len(by_feature)} entries",
        )
    figure = new_figure(8.5, 4.8)
    axes = figure.add_subplot()
    for value, name in _SHAPES:
        axes.axhline(value, color="0.85", linewidth=1, zorder=0)
        axes.annotate(
            name, (1.01, value), xycoords=("axes fraction", "data"), va="center", fontsize=9
        )
    for place, values in zip(x, by_feature, strict=True):
        values = np.sort(host(values))
        spread = place * np.linspace(0.93, 1.07, len(values))
        axes.plot(spread, values, ".", color=COLOURS[1], markersize=4, alpha=0.7)
    axes.plot([], [], ".", color=COLOURS[1], label="dimensionality of each feature")
    axes.plot(
        x, y, color=COLOURS[0], marker="o", linewidth=1.8,
        label="dimensions per feature, $m / \\|W\\|^2$",
    )  # fmt: skip
    axes.set(xscale="log", xlabel="1 / (1 - sparsity)", ylabel="dimensions", title=title)
    axes.set_ylim(0, 1.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    return figure


def _matrices(matrices, where, rows=None):
    """Convert the matrices to float arrays, after checking their number and shapes."""
    for W in matrices:
        check_axes(W, 2, where, "matrices", f"({rows or 'hidden'}, feature)")
    matrices = [host(W).astype(float) for W in matrices]
    if not matrices or any(rows not in (None, len(W)) for W in matrices):
        raise ArgumentError(
            f"{where}: matrices must contain at least one matrix"
            + (f", all with {rows} rows" if rows else ""),
            got=f"{[W.shape for W in matrices]}",
        )
    return matrices


def _blend(shares, low=COLOURS[0], high=COLOURS[1]):
    """Mix two colors: `low` for a share of 0, `high` for 1. Return one row (R, G, B) per share."""
    low, high = (
        np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]) for color in (low, high)
    )
    return low + shares[:, None] * (high - low)
