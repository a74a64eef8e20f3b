"""Accuracy figure: the accuracy of each model over its training steps."""

from ..named_errors import names_arguments
from .style import COLOURS, new_figure

__all__ = ["accuracy_figure"]

_LINE = 0.045  # height of a line of text, as a fraction of the axis


@names_arguments
def accuracy_figure(curves, baselines=None, title="Accuracy", x_label="step"):
    """Plot the accuracy of each model as a line, with the last value next to it.

    Parameters
    ----------
    curves : dict of str to list of (step, accuracy)
    baselines : dict of str to float, optional
        Baseline accuracies, drawn as horizontal lines with their names.
    title, x_label : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(8, 4.8)
    axes = figure.add_subplot()
    curves = {name: points for name, points in curves.items() if points}
    heights = _apart([float(points[-1][1]) for points in curves.values()])
    for (name, points), color, height in zip(curves.items(), COLOURS, heights, strict=False):
        steps, values = zip(*[(float(s), float(value)) for s, value in points], strict=True)
        axes.plot(steps, values, color=color, marker="o", markersize=4)
        axes.annotate(
            f"{name} {100 * values[-1]:.1f} %", (steps[-1], height), xytext=(6, 0),
            textcoords="offset points", va="center", color=color, annotation_clip=False,
        )  # fmt: skip
    for name, value in (baselines or {}).items():
        value = float(value)
        axes.axhline(value, color="0.45", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            f"{name} {100 * value:.1f} %", (0.005, value), xycoords=("axes fraction", "data"),
            xytext=(0, 2), textcoords="offset points", va="bottom", fontsize="small", color="0.35",
        )  # fmt: skip
    axes.set(xlabel=x_label, ylabel="accuracy", title=title, ylim=(0, 1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _apart(values):
    """Return a height for the label of each value, so that no two labels overlap."""
    heights, lowest = list(values), float("inf")
    for i in sorted(range(len(values)), key=lambda i: -values[i]):
        heights[i] = min(values[i], lowest - _LINE)
        lowest = heights[i]
    return heights
