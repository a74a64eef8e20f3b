"""How much memory a computation holds while it runs, and for what."""

from .style import COLOURS, new_figure

__all__ = ["memory_figure"]


def memory_figure(by_kind, peak_moment, peak_op="", title="Memory held by tensors and the graph"):
    """Memory over time as a stack, one colour for each kind of holder, with the peak marked.

    Parameters
    ----------
    by_kind : dict of str to list of int
        Bytes held by each kind after each change, as `MemoryTrace.by_kind` returns them.
    peak_moment : int
        Where the sum is largest.
    peak_op : str
        The operation that reached it.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(9, 4.8)
    axes = figure.add_subplot()
    kinds = {kind: sizes for kind, sizes in by_kind.items() if any(sizes)}
    totals = [sum(sizes) for sizes in zip(*by_kind.values(), strict=True)]
    unit, name = _unit(max(totals, default=0))
    moments = range(len(totals))
    colours = (*COLOURS, "#999999")
    if kinds:
        axes.stackplot(
            moments,
            [[size / unit for size in sizes] for sizes in kinds.values()],
            labels=kinds,
            colors=[c for c, kind in zip(colours, by_kind, strict=False) if kind in kinds],
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
    axes.set(xlabel="blocks made and freed", ylabel=name, title=title)
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
