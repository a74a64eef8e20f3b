"""Roofline: time by operation, and each operation's speed compared with the machine's limits."""

from math import log10

from ..named_errors import names_arguments
from .style import COLOURS, new_figure

__all__ = ["roofline_figure"]


@names_arguments
def roofline_figure(groups, flops, bandwidth, rows=12, title="Where the time goes"):
    """Plot the time of each operation, and the roofline: speed against operations per byte.

    Parameters
    ----------
    groups : list of Group
        Operations to plot, sorted by time, longest first.
    flops, bandwidth : float
        Operations per second of a large matrix product, and bytes per second of a large copy.
    rows : int
        Maximum number of operations to show.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    Williams, Waterman and Patterson 2009, "Roofline: An Insightful Visual Performance Model for
    Multicore Architectures", CACM 52(4). The axes are logarithmic. For an operation without matrix
    products, each number that the operation writes counts as one FLOP. Its height in the figure is
    therefore the number of values that it writes per second.
    """
    flops, bandwidth = float(flops), float(bandwidth)
    figure = new_figure(12.5, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    shown = [group for group in groups if group.seconds > 0][:rows]
    _draw_bars(left, shown)
    left.set_title(title)
    _draw_roof(right, shown, flops, bandwidth)
    return figure


def _draw_bars(axes, groups):
    places = range(len(groups))
    forward = [group.forward * 1e3 for group in groups]
    axes.barh(places, forward, color=COLOURS[0], label="forward")
    axes.barh(
        places, [group.backward * 1e3 for group in groups], left=forward, color=COLOURS[1],
        label="backward",
    )  # fmt: skip
    axes.set_yticks(places, [group.name for group in groups])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.spines[["top", "right"]].set_visible(False)
    if groups:
        axes.legend(frameon=False, loc="lower right")


def _draw_roof(axes, groups, flops, bandwidth):
    points = [
        (work / group.nbytes, work / group.seconds, group)
        for group in groups
        if group.nbytes and (work := group.flops or group.elements)
    ]
    ridge = flops / bandwidth
    low = min([x for x, _, _ in points] + [ridge / 10]) / 2
    high = max([x for x, _, _ in points] + [ridge]) * 4
    axes.plot(
        [low, ridge, high], [low * bandwidth / 1e9, flops / 1e9, flops / 1e9], color="0.25",
        linewidth=1.6,
    )  # fmt: skip
    axes.annotate(
        f"{flops / 1e9:.0f} GFLOP/s", (high, flops / 1e9), xytext=(-2, 4),
        textcoords="offset points", ha="right", color="0.25",
    )  # fmt: skip
    middle = (low * ridge) ** 0.5
    axes.annotate(
        f"{bandwidth / 1e9:.3g} GB/s", (middle, middle * bandwidth / 1e9), xytext=(-8, 6),
        textcoords="offset points", ha="right", color="0.25",
    )  # fmt: skip
    longest = max([group.seconds for _, _, group in points], default=1.0)
    for counted, color, label in (
        (True, COLOURS[2], "products"),
        (False, COLOURS[3], "others: one operation per number written"),
    ):
        some = [(x, y, g) for x, y, g in points if bool(g.flops) is counted]
        if some:
            axes.scatter(
                [x for x, _, _ in some], [y / 1e9 for _, y, _ in some],
                s=[20 + 300 * g.seconds / longest for _, _, g in some],
                color=color, alpha=0.6, linewidths=0, label=label,
            )  # fmt: skip
    _label(axes, points)
    if points:
        axes.legend(frameon=False, loc="lower right", markerscale=0.6)
    axes.set(
        xscale="log", yscale="log", xlabel="operations per byte moved",
        ylabel="billion operations per second", title="Roofline of this machine",
    )  # fmt: skip
    axes.margins(y=0.12)
    axes.spines[["top", "right"]].set_visible(False)


def _label(axes, points):
    """Write names beside the points. If two overlap, move the slower operation's name down."""
    if not points:
        return
    heights = [log10(y) for _, y, _ in points]
    points_per_decade = 280 / (max(heights) - min(heights) + 1)
    placed = []  # (decade of x, height in typographic points) for the labels so far
    for x, y, group in sorted(points, key=lambda point: -point[1]):
        wanted = height = log10(y) * points_per_decade
        for other_x, other in placed:
            if abs(other_x - log10(x)) < 0.6 and other - height < 11:
                height = other - 11
        placed.append((log10(x), height))
        axes.annotate(
            group.name, (x, y / 1e9), xytext=(11, height - wanted - 3),
            textcoords="offset points", fontsize="small",
        )  # fmt: skip
