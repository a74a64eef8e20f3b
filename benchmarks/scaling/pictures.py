"""Picture of the scaling curves: time above, memory below, one column for each varied size."""

from matplotlib.ticker import LogLocator, NullFormatter

from minitorch_attn.viz.style import COLOURS, new_figure, save_figure

__all__ = ["draw"]


def draw(results, path):
    """Draw the figure and write it as a PNG file.

    Parameters
    ----------
    results : dict
        Contents of `results/scaling.json`.
    path : path
    """
    titles = list(dict.fromkeys(curve["what"] for curve in results["curves"]))
    figure = new_figure(3.4 * len(titles), 6.4)
    panels = figure.subplots(2, len(titles), squeeze=False)
    for column, title in enumerate(titles):
        curves = [curve for curve in results["curves"] if curve["what"] == title]
        _panel(panels[0, column], curves, "seconds", 1e3)
        _panel(panels[1, column], curves, "bytes", 2**-20)
        panels[0, column].set_title(title)
        panels[1, column].set_xlabel(title)
    panels[0, 0].set_ylabel("time of a step (ms)")
    panels[1, 0].set_ylabel("memory of a step (MiB)")
    save_figure(figure, path)


def _panel(axes, curves, cost, factor):
    """Draw curves on logarithmic axes, on which a power law is a straight line."""
    for curve, colour in zip(curves, COLOURS, strict=False):
        sizes = [point["size"] for point in curve["points"]]
        costs = [point[cost] * factor for point in curve["points"]]
        exponent = curve[f"{cost}_exponent"]
        label = f"{curve['label']}: size$^{{{exponent:.2f}}}$"
        axes.plot(sizes, costs, color=colour, marker="o", markersize=4, label=label)
        start = len(sizes) // 2
        fit = [costs[-1] * (size / sizes[-1]) ** exponent for size in sizes[start:]]
        axes.plot(sizes[start:], fit, color=colour, linewidth=1, linestyle=(0, (4, 3)))
    axes.set(xscale="log", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.yaxis.set_major_formatter("{x:,g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
