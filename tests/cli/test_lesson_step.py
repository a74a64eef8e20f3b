"""`mta lesson step` in a terminal: keys, going back, continuing at the saved position."""

import json
import os
import re
import select
import sys
import time
from pathlib import Path

import pytest

pty = pytest.importorskip("pty")
ROOT = Path(__file__).resolve().parents[2]
PROMPT = "q: quit] "
LIMIT = 60
LESSON = "# %% [markdown]\n# # Title\n\n" + "".join(
    f'# %%\ncount = globals().get("count", 0) + 1\nprint("cell {number} ran,", count, "so far")\n\n'
    for number in range(2, 6)
)


class Terminal:
    """A child process on a pseudo-terminal."""

    def __init__(self, arguments, environment):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [sys.executable, *arguments], environment)
        self.text = ""

    def read(self, until, again=""):
        """What is written up to and with `until`, or to the end; a key is pressed `again`."""
        end, new = time.monotonic() + LIMIT, ""
        next_key = time.monotonic() + 5
        while until is None or until not in new:
            assert time.monotonic() < end, new
            if select.select([self.descriptor], [], [], 0.2)[0]:
                try:
                    piece = os.read(self.descriptor, 65536).decode()
                except OSError:
                    break
                if not piece:
                    break
                new += piece
            elif again and time.monotonic() > next_key:
                os.write(self.descriptor, again.encode())
                next_key += 5
        self.text += new
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", new).replace("\r", "")

    def press(self, key, until=PROMPT):
        """What follows a key."""
        os.write(self.descriptor, key.encode())
        return self.read(until)

    def close(self):
        """The exit status."""
        self.read(None)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


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
    assert "cell 4 ran, 3 so far" in shown
    screen.press("9")
    assert "choose a cell from 1 to 5" in screen.press("\r", until="next   b")
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


def test_colours_only_where_they_are_wanted(step):
    colourful, plain = step(), step(NO_COLOR="1")
    for screen in (colourful, plain):
        screen.press("\r")
        screen.press("q", until=None)
        screen.close()
    assert re.search(r"\x1b\[[\d;]*3[1-6]", colourful.text)
    assert not re.search(r"\x1b\[[\d;]*3[1-6]", plain.text)
