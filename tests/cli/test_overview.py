"""`mta` without arguments shows your progress and the next command."""

import json
import os

import pytest

LESSON = (
    "# %% [markdown]\n# # Title {}\n#\n# Why? *Before:* nothing.\n\n# %%\nx = 1\n\n# %%\ny = 2\n"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    place = tmp_path / "course"
    place.mkdir()
    for number in (1, 2, 3):
        (place / f"0{number}_topic.py").write_text(LESSON.format(number))
    monkeypatch.setenv("MTA_LESSONS", str(place))
    return place


@pytest.fixture
def remember(tmp_path):
    def write(**lessons):
        (tmp_path / "state").mkdir(exist_ok=True)
        fields = {number.lstrip("l"): entry for number, entry in lessons.items()}
        text = json.dumps({"version": 1, "lessons": fields})
        (tmp_path / "state" / "progress.json").write_text(text)

    return write


def following(out):
    (line,) = [line for line in out.splitlines() if line.startswith("next: ")]
    return line.removeprefix("next: python -m minitorch_attn ")


def test_it_fits_into_eighty_columns_and_begins_with_the_tour(mta):
    code, out, err = mta()
    assert (code, err) == (0, "") and following(out) == "tour" and "0 of 3 done" in out
    assert max(map(len, out.splitlines())) <= 80


def test_every_command_it_names_exists(mta):
    _, out, _ = mta()
    named = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
    assert named >= {"lesson", "exercise", "course", "tour", "attn", "doctor"}
    for name in named:
        assert mta(name, "--help")[0] == 0, name


def test_it_names_the_lesson_that_was_left(mta, remember):
    remember(l01={"done": True, "when": 5}, l02={"cell": 1, "cells": 3, "when": 9})
    _, out, _ = mta()
    assert "1 of 3 done; lesson 02 stopped at cell 2 of 3" in out
    assert following(out) == "lesson step 02"


def test_it_goes_on_after_the_lesson_done_last_and_then_to_what_was_skipped(mta, remember):
    remember(l02={"done": True, "when": 9})
    assert following(mta()[1]) == "lesson step 03"
    remember(l02={"done": True, "when": 9}, l03={"done": True, "when": 10})
    assert following(mta()[1]) == "lesson step 01"
    remember(**{f"l0{n}": {"done": True, "when": n} for n in (1, 2, 3)})
    assert following(mta()[1]) == "train gpt --minutes 5"


def test_after_the_tour_come_the_lessons(mta, tiny):
    mta(*tiny, "--steps", 4)
    assert following(mta()[1]) == "lesson step 01"


def test_of_a_stopped_run_and_a_lesson_the_later_one_is_next(mta, tiny, remember, tmp_path):
    mta(*tiny, "--steps", 4)
    config = tmp_path / "runs" / "gpt-1" / "config.json"
    config.write_text(config.read_text().replace('"steps": 4', '"steps": 9'))
    for file in config.parent.glob("*.json*"):
        os.utime(file, (1000, 1000))
    remember(l02={"cell": 1, "cells": 3, "when": 2000})
    assert following(mta()[1]) == "lesson step 02"
    remember(l02={"cell": 1, "cells": 3, "when": 500})
    assert following(mta()[1]) == "train gpt --out runs/gpt-1 --resume"


def test_damage_does_not_stop_it(mta, tmp_path, monkeypatch):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "progress.json").write_text("{")
    code, out, _ = mta()
    assert code == 0 and "progress.damaged-1.json" in out and following(out) == "tour"
    monkeypatch.setenv("MTA_LESSONS", str(tmp_path / "nowhere"))
    assert mta()[0] == 0
