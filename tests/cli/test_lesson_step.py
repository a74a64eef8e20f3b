"""`mta lesson step` in a terminal: keys, going back, continuing at the saved position."""

import json
import os
import re
from pathlib import Path

import pytest
from terminal import Terminal

from minitorch_attn.cli.console import console
from minitorch_attn.cli.lesson_step import LEFT, Stepper
from minitorch_attn.course.exercises.progress import ExerciseProgress
from minitorch_attn.course.lesson_list import find_lesson

pytest.importorskip("pty")
ROOT = Path(__file__).resolve().parents[2]
PROMPT = "q: quit] "
LESSON = "# %% [markdown]\n# # Title\n\n" + "".join(
    f'# %%\ncount = globals().get("count", 0) + 1\nprint("cell {number} ran,", count, "so far")\n\n'
    for number in range(2, 6)
)


@pytest.fixture
def step(tmp_path, monkeypatch):
    """step() -> a Terminal after its first prompt."""
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "01_one.py").write_text(LESSON)

    def launch(*arguments, **changes):
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "MTA_LESSONS": str(tmp_path / "course"),
            "MTA_STATE": str(tmp_path / "state"), "TERM": "xterm", "COLUMNS": "80", **changes,
        }  # fmt: skip
        found = Terminal(["-m", "minitorch_attn", "lesson", "step", "1", *arguments], environment)
        found.first = found.read(PROMPT)
        return found

    return launch


def test_enter_goes_on_to_the_end(step, tmp_path):
    screen = step()
    assert "Title" in screen.first and "1/5" in screen.first
    for number in range(2, 6):
        assert f"cell {number} ran, {number - 1} so far" in screen.press("\r")
    screen.press("\r", until=None)
    assert screen.close() == 0
    fields = json.loads((tmp_path / "state" / "progress.json").read_text())
    assert fields["lessons"]["01"]["done"] is True and fields["lessons"]["01"]["cell"] == 0


def test_back_shows_a_cell_without_running_it_again(step):
    screen = step()
    screen.press("\r")
    screen.press(" ")
    assert "cell 2 ran, 1 so far" in screen.press("b")
    assert "cell 3 ran, 2 so far" in screen.press("\x1b[C")
    assert "cell 2 ran, 1 so far" in screen.press("\x1b[D")
    assert "cell 3 ran, 2 so far" in screen.press("n")
    assert "cell 4 ran, 3 so far" in screen.press("\r")
    screen.press("q", until=None)
    assert screen.close() == 0


def test_a_number_jumps_and_what_lies_between_runs_once(step):
    screen = step()
    assert "Enter: to cell 4" in screen.press("4")
    shown = screen.press("\r")
    assert "cells 2 to 3 have run" in shown and "cell 2 ran" not in shown
    assert shown.index("running cells 2 to 3 ...") < shown.index("cells 2 to 3 have run")
    assert "cell 4 ran, 3 so far" in shown
    screen.press("9")
    assert "choose a cell from 1 to 5" in screen.press("\r", until="next   b")
    screen.press("q", until=None)
    assert screen.close() == 0


@pytest.mark.slow
def test_a_slow_cell_is_said_to_be_running(step, tmp_path):
    text = LESSON.replace('print("cell 3', 'import time\ntime.sleep(2.6)\nprint("cell 3')
    (tmp_path / "course" / "01_one.py").write_text(text)
    screen = step()
    assert "running ..." not in screen.press("\r")
    shown = screen.press("\r")
    assert shown.index("running ...") < shown.index("cell 3 ran, 2 so far")
    screen.press("q", until=None)
    assert screen.close() == 0


def test_quitting_remembers_the_place(step, tmp_path):
    screen = step()
    screen.press("\r")
    screen.press("\r")
    assert "stopped at cell 3 of 5" in screen.press("q", until=None)
    assert screen.close() == 0
    assert (
        json.loads((tmp_path / "state" / "progress.json").read_text())["lessons"]["01"]["cell"] == 2
    )
    again = step()
    assert "You stopped at cell 3" in again.first and "cell 3 ran, 2 so far" in again.first
    again.press("q", until=None)
    again.close()
    anew = step("--from", "1")
    assert "1/5" in anew.first and "cell 3" not in anew.first
    os.write(anew.descriptor, b"\x03")
    anew.read(None, again="\x03")  # Python drops an interrupt that comes during an import
    assert anew.close() == 0


@pytest.mark.parametrize("method", ["_prompt", "_present", "_key", "_erase"])
def test_an_interrupt_at_any_moment_quits_and_keeps_the_place(tmp_path, monkeypatch, method):
    monkeypatch.setenv("MTA_STATE", str(tmp_path))
    progress = ExerciseProgress()
    progress.leave("03", 1, 9)
    stepper = Stepper(find_lesson("3"), progress, console())
    stepper.waits = True

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(stepper, "_key", lambda at: "5")
    monkeypatch.setattr(stepper, method, interrupt)
    assert stepper.run(1) == LEFT
    assert progress.cell("03") == 1


@pytest.mark.slow
def test_colours_only_where_they_are_wanted(step):
    colourful, plain = step(), step(NO_COLOR="1")
    for screen in (colourful, plain):
        screen.press("\r")
        screen.press("q", until=None)
        screen.close()
    assert re.search(r"\x1b\[[\d;]*3[1-6]", colourful.text)
    assert not re.search(r"\x1b\[[\d;]*3[1-6]", plain.text)
