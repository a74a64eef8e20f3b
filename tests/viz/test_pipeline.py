"""Pipeline schedule: a cell with its micro-batch for every slot in which a stage works."""

import pytest

from minitorch_attn.errors import ArgumentError
from minitorch_attn.nn.parallel import gpipe_schedule
from minitorch_attn.viz import pipeline_figure
from minitorch_attn.viz.style import COLOURS


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (3, 4), (4, 2)])
def test_cells_numbers_and_colors(stages, micro_batches):
    schedule = gpipe_schedule(stages, micro_batches)
    figure = pipeline_figure(schedule, "a title")
    (axes,) = figure.axes
    found = {}
    for text in axes.texts:
        time, stage = text.get_position()
        found[stage - 0.5, time - 0.5] = int(text.get_text())
    wanted = {
        (stage, time): slot[1]
        for stage, row in enumerate(schedule)
        for time, slot in enumerate(row)
        if slot is not None
    }
    assert found == wanted and len(found) == 2 * stages * micro_batches
    drawn = [bar for bar in axes.patches if round(bar.get_height(), 9) == 0.92]
    assert len(drawn) == len(wanted)
    from matplotlib.colors import to_hex

    for bar in drawn:
        place = round(bar.get_y() + 0.46 - 0.5), round(bar.get_x())
        kind = schedule[place[0]][place[1]][0]
        color = COLOURS[4] if kind == "forward" else COLOURS[5]
        assert to_hex(bar.get_facecolor()).upper() == color
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [f"stage {stage}" for stage in range(stages)]
    idle = (stages - 1) / (micro_batches + stages - 1)
    assert axes.get_title(loc="left") == f"a title\nidle: {idle:.0%} of the slots"


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ([], "same number of slots"),
        ([[]], "same number of slots"),
        ([[None], [None, None]], "same number of slots"),
        ([[("sideways", 0)]], "kind of a slot is unknown"),
    ],
)
def test_malformed_schedules(schedule, message):
    with pytest.raises(ArgumentError, match=message):
        pipeline_figure(schedule)
