"""Pipeline schedule: which micro-batch each stage computes in each time slot, and the bubble."""

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .style import COLOURS, new_figure

__all__ = ["pipeline_figure"]

_COLORS = {"forward": COLOURS[4], "backward": COLOURS[5]}


@names_arguments
def pipeline_figure(schedule, title="Pipeline schedule"):
    """Plot a pipeline schedule: one row per stage, one cell per time slot.

    Parameters
    ----------
    schedule : list of list
        One list of time slots for each stage. A slot is (kind, micro-batch) with the kind "forward"
        or "backward", or None if the stage is idle. `nn.parallel.gpipe_schedule` returns such a
        schedule.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
        The number in a cell is the micro-batch. Idle slots are empty. The title shows the fraction
        of idle slots, which is called the bubble.

    Notes
    -----
    Huang et al. 2018, arXiv:1811.06965v5, Figure 2(c).
    """
    lengths = {len(row) for row in schedule}
    if len(lengths) != 1 or not max(lengths):
        raise ArgumentError(
            "pipeline_figure: all stages must have the same number of slots, at least 1",
            got=f"stages with {sorted(lengths)} slots",
        )
    (slots,) = lengths
    figure = new_figure(0.42 * slots + 1.6, 0.42 * len(schedule) + 1.5)
    axes = figure.subplots()
    for stage, row in enumerate(schedule):
        for time, slot in enumerate(row):
            if slot is not None:
                _draw_slot(axes, stage, time, *slot)
    for kind, color in _COLORS.items():
        axes.bar(0, 0, color=color, label=kind)  # for the legend only
    axes.set_xlim(0, slots)
    axes.set_ylim(len(schedule), 0)
    axes.set_yticks([stage + 0.5 for stage in range(len(schedule))],
                    [f"stage {stage}" for stage in range(len(schedule))])  # fmt: skip
    axes.set_xlabel("time slot")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    idle = sum(row.count(None) for row in schedule) / (slots * len(schedule))
    axes.set_title(f"{title}\nidle: {idle:.0%} of the slots", loc="left", fontsize=11)
    return figure


def _draw_slot(axes, stage, time, kind, micro_batch):
    if kind not in _COLORS:
        raise ArgumentError(
            "pipeline_figure: the kind of a slot is unknown",
            got=repr(kind),
            expected=" or ".join(_COLORS),
        )
    axes.barh(
        stage + 0.5, 1, left=time, height=0.92, color=_COLORS[kind], edgecolor="white", linewidth=1
    )
    axes.text(time + 0.5, stage + 0.5, str(micro_batch), ha="center", va="center", fontsize=9)
