"""Plot a computation's memory use over time, by kind (parameters, gradients, ...)."""

import operator

from ..named_errors import names_arguments
from .style import COLOURS, new_figure

__all__ = ["memory_figure"]


@names_arguments
def memory_figure(by_kind, peak_moment, peak_op="", title="Memory held by tensors and the graph"):
    """Plot memory over time as stacked areas, one color for each kind, with the peak marked.

    Parameters
    ----------
    by_kind : dict of str to list of int
        Bytes in use by each kind after each allocation or release; see `MemoryTracker.by_kind`.
    peak_moment : int
        Index of the allocation after which the total is largest.
    peak_op : str
        Operation during which the peak was reached.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    peak_moment = operator.index(peak_moment)
    figure = new_figure(9, 4.8)
    axes = figure.add_subplot()
    kinds = {kind: sizes for kind, sizes in by_kind.items() if any(sizes)}
    totals = [sum(sizes) for sizes in zip(*by_kind.values(), strict=True)]
    unit, name = _unit(max(totals, default=0))
    moments = range(len(totals))
    colors = (*COLOURS, "#999999")
    if kinds:
        axes.stackplot(
            moments,
            [[size / unit for size in sizes] for sizes in kinds.values()],
            labels=kinds,
            colors=[c for c, kind in zip(colors, by_kind, strict=False) if kind in kinds],
            step="post",
            linewidth=0,
            alpha=0.85,
        )
    peak = totals[peak_moment] / unit if totals else 0.0
    axes.plot([peak_moment], [peak], "o", color="black", markersize=5)
    right = peak_moment > 0.55 * len(totals)
    axes.annotate(
        f"{peak:.3g} {name}" + (f" in {peak_op}" if peak_op else ""),
        (peak_moment, peak),
        xytext=(-8 if right else 8, 6),
        textcoords="offset points",
        ha="right" if right else "left",
    )
    axes.set(xlabel="memory blocks allocated or freed", ylabel=name, title=title)
    axes.set_xlim(0, max(len(totals) - 1, 1))
    axes.set_ylim(0, max(peak, 1e-9) * 1.14)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False)
    return figure


def _unit(most):
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if most >= unit:
            return unit, name
    return 1, "bytes"
