"""Progress output that the user sees during a run."""

import io

import pytest
from rich.console import Console

from minitorch_attn.training.progress import Progress, duration

ENTRIES = [
    {"step": 0, "validation_loss": 4.6},
    {"step": 10, "loss": 3.21},
    {"step": 20, "loss": 3.0, "validation_loss": 3.1},
    {"step": 40, "loss": 2.5, "validation_loss": 2.75},
]


def show(**options):
    text = io.StringIO()
    console = Console(file=text, highlight=False, **options)
    with Progress(40, 768, console=console) as progress:
        for entry in ENTRIES:
            progress(entry)
    return text.getvalue()


def test_plain_lines_without_a_terminal(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    lines = show(force_terminal=False, width=80).splitlines()
    assert [line[:10] for line in lines] == ["step  0/40", "step 20/40", "step 40/40"]
    assert "validation 4.600" in lines[0]
    assert "loss 2.500  validation 2.750" in lines[2] and "tokens/s" in lines[2]
    assert "0 s left" in lines[2]
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("width", [72, 80, 200])
def test_a_bar_on_a_terminal(width):
    text = show(force_terminal=True, width=width, color_system=None)
    assert "40/40" in text and "loss 2.500" in text
    assert ("validation 2.750" if width == 200 else "val 2.750") in text
    assert "tokens/s" in text and "left" in text


def test_no_color_leaves_no_colour_codes(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = show(force_terminal=True, width=80)
    assert "\x1b[3" not in text and "\x1b[38" not in text


def test_durations():
    assert [duration(s) for s in (-1, 0.4, 59.4, 60, 3599, 3600, 90061)] == [
        "0 s", "0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "25 h 1 min",
    ]  # fmt: skip
