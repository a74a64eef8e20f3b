"""Time by operation, and how near each operation comes to what the machine allows."""

from .style import COLOURS, new_figure

__all__ = ["roofline_figure"]


def roofline_figure(groups, flops, bandwidth, rows=12, title="Where the time goes"):
    """Bars of time, and a roofline: speed against operations per byte, both logarithmic.

    Parameters
    ----------
    groups : list of Group
        With name, forward, backward, seconds, flops, nbytes and elements, the longest first.
    flops, bandwidth : float
        What the machine reaches in a large product, and in a large copy, per second.
    rows : int
        How many to show.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    Williams, Waterman and Patterson 2009, "Roofline: An Insightful Visual Performance Model for
    Multicore Architectures", CACM 52(4). An operation without products counts as one operation for
    each number it writes: under the slope its height then shows the bytes per second.
    """
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
        places,
        [group.backward * 1e3 for group in groups],
        left=forward,
        color=COLOURS[1],
        label="backward",
    )
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
    axes.annotate(
        f"{bandwidth / 1e9:.3g} GB/s", (low, low * bandwidth / 1e9), xytext=(0, 10),
        textcoords="offset points", ha="left", color="0.25",
    )  # fmt: skip
    longest = max([group.seconds for _, _, group in points], default=1.0)
    for x, y, group in points:
        colour = COLOURS[2] if group.flops else COLOURS[3]
        size = 20 + 500 * group.seconds / longest
        axes.scatter([x], [y / 1e9], s=size, color=colour, alpha=0.6, linewidths=0)
    _label(axes, points)
    axes.set(
        xscale="log", yscale="log", xlabel="operations per byte moved",
        ylabel="billion operations per second", title="Under the roofs of this machine",
    )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)


def _label(axes, points):
    """Names beside the points; where several share a place, one below the other."""
    taken = {}
    for x, y, group in sorted(points, key=lambda point: -point[1]):
        cell = (round(_log2(x)), round(_log2(y) / 2))
        row = taken[cell] = taken.get(cell, -1) + 1
        axes.annotate(
            group.name, (x, y / 1e9), xytext=(6, -3 - 10 * row), textcoords="offset points",
            fontsize="small",
        )  # fmt: skip


def _log2(value):
    from math import log2

    return log2(value)
