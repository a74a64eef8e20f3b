"""Chart of the device calls of a step, by kind, and of the step's estimated times."""

from matplotlib.ticker import FixedLocator, NullLocator

from minitorch_attn.viz.style import COLOURS, new_figure, save_figure

__all__ = ["draw"]

KINDS = ("launches", "products", "copies", "memsets")
GRAY, DARK = "0.8", "0.25"


def draw(titles, rows, estimates, path):
    """Write a PNG with two panels: device calls, and an estimate of the times.

    Parameters
    ----------
    titles : dict of str to str
        Title of each workload.
    rows : dict of str to dict
        Result of `device_calls.rows_of`. The row of a workload has the keys `before` (earlier total
        number of calls), `must` and `aim` (required and desired upper bounds of the total), and
        `composed` and `now` (calls of each kind, without and with the library's kernels).
    estimates : dict of str to Estimate
    path : path
    """
    figure = new_figure(9.6, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _counts(left, titles, rows)
    _times(right, titles, estimates)
    for axes in (left, right):
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
    save_figure(figure, path)


def _counts(axes, titles, rows):
    for place, row in enumerate(rows.values()):
        axes.barh(place - 0.3, row["before"], 0.22, color=GRAY)
        axes.text(row["before"], place - 0.3, f" {row['before']:,}", va="center", color=DARK)
        _by_kind(axes, place - 0.04, row["composed"], alpha=0.4)
        composed, now = row["composed"]["all"], row["now"]["all"]
        axes.text(composed, place - 0.04, f" {composed:,}", va="center", color=DARK)
        _by_kind(axes, place + 0.22, row["now"])
        end = max(now, row["must"])
        axes.text(end, place + 0.22, f"  {now:,}", va="center", weight="bold")
        for goal, style in (("must", "-"), ("aim", ":")):
            axes.plot([row[goal]] * 2, [place + 0.09, place + 0.38], style, color="black")
    handles = [axes.barh(0, 0, color=GRAY, label="before")]
    for kind, color in zip(KINDS, COLOURS, strict=False):
        handles.append(axes.barh(0, 0, color=color, label=kind))
    handles.append(axes.barh(0, 0, color=COLOURS[0], alpha=0.4, label="light: without kernels"))
    handles += axes.plot([], [], "-", color="black", label="must be below")
    handles += axes.plot([], [], ":", color="black", label="aim")
    axes.legend(handles=handles, frameon=False, loc="lower right", fontsize="small")
    axes.set_yticks(range(len(rows)), [titles[name].replace(", ", ",\n") for name in rows])
    axes.set_xlim(0, 1.08 * max(row["before"] for row in rows.values()))
    axes.set_title("device calls of a step, counted", loc="left", fontsize="medium")


def _by_kind(axes, place, counts, alpha=1.0):
    """Draw one stacked bar with a segment for each kind of device call."""
    start = 0
    for kind, color in zip(KINDS, COLOURS, strict=False):
        axes.barh(place, counts[kind], 0.22, left=start, color=color, alpha=alpha)
        start += counts[kind]


def _times(axes, titles, estimates):
    gpu = next(iter(estimates.values())).gpu
    for place, found in enumerate(estimates.values()):
        low, high = (1e6 * seconds for seconds in found.launching)
        axes.barh(place - 0.25, 1e6 * found.arithmetic, 0.22, color=COLOURS[0])
        axes.barh(place, 1e6 * found.memory, 0.22, color=COLOURS[2])
        axes.barh(place + 0.25, low, 0.22, color=COLOURS[1])
        axes.barh(place + 0.25, high - low, 0.22, left=low, color=COLOURS[1], alpha=0.45)
    for label, color in (("arithmetic", 0), ("memory", 2), ("launches, 5 to 10 us each", 1)):
        axes.barh(0, 0, color=COLOURS[color], label=label)
    axes.set_xscale("log")
    axes.set_xlim(0.1, 2e4)
    axes.xaxis.set_major_locator(FixedLocator([0.1, 1, 10, 100, 1000, 10000]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels(["0.1", "1", "10", "100", "1,000", "10,000"])
    axes.set_xlabel("microseconds")
    axes.set_yticks(range(len(estimates)), [titles[name].split(",")[0] for name in estimates])
    axes.set_title(f"{gpu.name}: an estimate", loc="left", fontsize="medium")
    axes.legend(
        frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.45, -0.16), ncols=3
    )  # fmt: skip
