"""Word vector figures: a map of words and their neighbors, and two meanings of a word."""

import numpy as np

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .style import COLOURS, check_axes, host, new_figure

__all__ = ["meanings_figure", "word_map_figure"]


@names_arguments
def word_map_figure(vectors, groups, title="Words and their neighbors"):
    """Plot words on a map, and connect each word with its neighbors.

    Metric multidimensional scaling places the words in two dimensions so that their distances
    approximate the distances between the normalized vectors.

    Parameters
    ----------
    vectors : dict of str to array of shape (embed,)
        Vectors of the words in `groups`, and of any other words.
    groups : dict of str to list of str
        Words, each with its list of neighbors.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    words = list(dict.fromkeys(w for word, near in groups.items() for w in (word, *near)))
    if len(words) < 2:
        raise ArgumentError(
            "word_map_figure: groups must contain at least two words", got=f"{words}"
        )
    table = np.stack([host(vectors[word]) for word in words]).astype(float)
    table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    points = dict(zip(words, _scaled(np.sqrt(np.clip(2 - 2 * table @ table.T, 0, 4))), strict=True))
    figure = new_figure(9.5, 7)
    axes = figure.add_subplot()
    colors = dict(zip(groups, COLOURS * len(groups), strict=False))
    drawn = set()
    for word, near in groups.items():
        for other in near:
            axes.plot(
                *np.stack([points[word], points[other]]).T, color=colors[word], linewidth=1,
                alpha=0.45, zorder=1,
            )  # fmt: skip
        for other in (word, *near):
            if other in drawn or (other in groups and other != word):
                continue
            drawn.add(other)
            axes.plot(*points[other], "o", color=colors[word], markersize=4, zorder=2)
            axes.annotate(
                other, points[other], xytext=(4, 3), textcoords="offset points",
                fontsize=11 if other == word else 9, color=colors[word],
                weight="bold" if other == word else "normal",
            )  # fmt: skip
    axes.set(xticks=[], yticks=[], title=title)
    axes.margins(0.08)
    axes.spines[:].set_color("0.8")
    return figure


@names_arguments
def meanings_figure(panels, names, title="Two meanings of a word"):
    """Plot the vector of each occurrence of a word in two dimensions, colored by meaning.

    The two dimensions are the first principal components of the occurrences in each panel.

    Parameters
    ----------
    panels : dict of str to (array of shape (occurrence, embed), bool array, list of str)
        For each panel, by its title: the vectors of the occurrences, whether each occurrence has
        the second meaning (drawn as an empty square), and the context of each occurrence. The
        figure shows a few of the contexts.
    names : (str, str)
        Names of the two meanings.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not panels:
        raise ArgumentError("meanings_figure: panels must contain at least one panel")
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure = new_figure(5.4 * columns, 4.1 * rows + 0.6)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, (vectors, is_second, contexts)) in zip(grid, panels.items(), strict=False):
        check_axes(vectors, 2, "meanings_figure", "panels", "(occurrence, embed)")
        points = _principal(host(vectors).astype(float))
        for second in (False, True):
            part = points[np.asarray(is_second) == second]
            marker, color = ("s", COLOURS[1]) if second else ("o", COLOURS[0])
            style = dict(markersize=9, markerfacecolor="none") if second else dict(markersize=6)
            axes.plot(*part.T, marker, color=color, alpha=0.8, label=names[second], **style)
        for index in _spread(points):
            axes.annotate(
                contexts[index], points[index], xytext=(0, 7), textcoords="offset points",
                fontsize=7.5, color="0.25", ha="center",
            )  # fmt: skip
        axes.set_title(name, fontsize=12)
        axes.set(xticks=[], yticks=[])
        axes.margins(0.22, 0.14)
        axes.spines[:].set_color("0.8")
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=12)
    return figure


def _principal(vectors):
    """Project vectors onto their first two principal components. Return an array (row, 2)."""
    centered = vectors - vectors.mean(0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    scores = left[:, :2] * sizes[:2]
    return np.pad(scores, ((0, 0), (0, 2 - scores.shape[1])))


def _spread(points, count=6):
    """Return the indices of a few points, each as far as possible from those chosen before it."""
    chosen = [int(np.argmax(np.linalg.norm(points, axis=1)))]
    closest = 0.12 * np.ptp(points, axis=0).max()  # labels of close points would overlap
    while len(chosen) < min(count, len(points)):
        nearest = np.linalg.norm(points[:, None] - points[chosen], axis=2).min(1)
        if nearest.max() <= closest:
            break
        chosen.append(int(np.argmax(nearest)))
    return chosen


def _scaled(distances, rounds=300):
    """Return points (row, 2) whose pairwise distances approximate `distances`.

    The method is SMACOF, starting from classical multidimensional scaling.
    """
    count = len(distances)
    center = np.eye(count) - 1 / count
    values, directions = np.linalg.eigh(-0.5 * center @ distances**2 @ center)
    points = directions[:, -2:] * np.sqrt(np.clip(values[-2:], 1e-12, None))
    for _ in range(rounds):
        found = np.linalg.norm(points[:, None] - points, axis=2)
        ratio = np.divide(distances, found, out=np.zeros_like(found), where=found > 1e-12)
        step = -ratio
        np.fill_diagonal(step, 0)
        np.fill_diagonal(step, -step.sum(1))
        points = step @ points / count
    return points
