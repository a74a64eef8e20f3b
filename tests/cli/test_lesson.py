"""`mta lesson` without a terminal: list, progress, run, step, open, notebooks."""

import json
import sys

import pytest

from minitorch_attn.course.progress import Progress

LESSON = """# %% [markdown]
# # {title}
#
# What does $x_i^2$ do?
#
# *Prerequisites:* nothing.

# %%
from minitorch_attn.course.lesson import pick, show
from minitorch_attn.viz.style import new_figure

x = pick("full", "fast")
print("first", x)

# %%
show(new_figure(2, 2), "white")

# %%
{last}

# %% [markdown] tags=["answers"]
# ## Answers
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Three lessons; the last one fails."""
    place = tmp_path / "course"
    place.mkdir()
    lasts = {"01_one": 'print("last", x)', "02_two": "pass", "10_ten": "assert x == 3, 'no'"}
    for name, last in lasts.items():
        (place / f"{name}.py").write_text(LESSON.format(title=f"Title {name}", last=last))
    monkeypatch.setenv("MTA_LESSONS", str(place))
    return place


def test_the_list_shows_titles_and_what_is_done(mta):
    assert mta("lesson", "run", "1", "--fast")[0] == 0
    code, out, err = mta("lesson", "list")
    lines = out.splitlines()
    assert (code, err) == (0, "") and lines[0].split() == ["01", "Title", "01_one", "done"]
    assert lines[1].split() == ["02", "Title", "02_two"]
    assert "1 of 3 done" in out and "next: python -m minitorch_attn lesson step 02" in out


def test_a_finished_lesson_that_is_opened_again_stays_done(mta):
    progress = Progress()
    progress.finish("01")
    progress.leave("01", 2, 5)
    lines = mta("lesson", "list")[1].splitlines()
    assert lines[0].endswith("done, cell 3 of 5")
    assert "next: python -m minitorch_attn lesson step 02" in mta("lesson", "list")[1]
    progress.leave("02", 1, 5)
    assert "lesson step 02" in mta("lesson", "list")[1]


def test_the_list_as_json(mta):
    mta("lesson", "step", "2", "--fast")
    fields = json.loads(mta("lesson", "list", "--json")[1])
    assert [item["number"] for item in fields] == ["01", "02", "10"]
    assert [item["done"] for item in fields] == [False, True, False]
    assert fields[0]["question"] == "What does $x_i^2$ do?" and fields[0]["cells"] == 5


def test_progress_as_text_and_as_json(mta, tmp_path):
    assert "none yet" in mta("lesson", "progress")[1]
    mta("lesson", "step", "2", "--fast")
    fields = json.loads(mta("lesson", "progress", "--json")[1])
    assert fields["done"] == ["02"] and fields["next"] == "10" and fields["begun"] == []
    assert fields["file"] == str(tmp_path / "state" / "progress.json")
    assert "1 of 3: 02" in mta("lesson", "progress")[1]


def test_run_prints_what_the_lesson_prints(start, tmp_path):
    process = start("lesson", "run", "1", "2", "--fast", cwd=tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "first fast" in out and "last fast" in out and "lesson 02 finished in" in out
    assert (tmp_path / "runs" / "lessons" / "01" / "figure-1.png").exists()


@pytest.mark.slow
def test_fast_mode_is_asked_for(start, tmp_path):
    out, _ = start("lesson", "run", "1", "--full", cwd=tmp_path).communicate(timeout=120)
    assert "first full" in out


def test_a_lesson_that_fails_fails_the_command_and_is_not_done(mta):
    code, out, _ = mta("lesson", "run", "10")
    assert code == 1 and "lesson 10 stopped with an error" in out
    assert json.loads(mta("lesson", "progress", "--json")[1])["done"] == []


def test_step_without_a_terminal_shows_everything(mta):
    code, out, err = mta("lesson", "step", "1", "--fast")
    assert (code, err) == (0, "")
    parts = [
        "Title 01_one",
        "x = pick(",
        "first fast",
        "[Figure 1.1: white]",
        "last fast",
        "Answers",
    ]
    places = [out.index(part) for part in parts]
    assert places == sorted(places)
    assert "xᵢ²" in out and "\x1b" not in out
    assert all(f"{number}/5" in out for number in range(1, 6))
    assert "next: python -m minitorch_attn lesson step 02" in out
    place = "on the path to a GPT of your own: python -m minitorch_attn build   step 2, A tensor"
    assert place in out


def test_step_begins_at_a_cell(mta):
    _, out, _ = mta("lesson", "step", "1", "--from", 4, "--fast")
    assert "cells 1 to 3 have run" in out and "last fast" in out and "x = pick(" not in out


def test_step_stops_where_the_lesson_fails_and_names_the_line(mta, folder):
    code, out, err = mta("lesson", "step", "10")
    number = (folder / "10_ten.py").read_text().splitlines().index("assert x == 3, 'no'") + 1
    assert code == 1 and f'10_ten.py", line {number}, in <module>' in err
    assert "AssertionError: no" in err and "Answers" not in out and "step.py" not in err


def test_an_encoding_without_the_letters_keeps_the_formula(start, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    process = start("lesson", "step", "1", "--fast", cwd=tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "$x_i^2$" in out and out.isascii()


def test_a_wrong_number_is_a_message(mta):
    code, _, err = mta("lesson", "step", "3")
    assert code == 1 and err.startswith("error: no lesson matches '3'") and "01 to 10" in err


def test_a_damaged_progress_file_is_reported_once(mta, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "progress.json").write_text("{")
    code, out, err = mta("lesson", "list")
    assert code == 0 and "0 of 3 done" in out and err.count("progress.damaged-1.json") == 1


def test_open_makes_a_notebook_once_and_keeps_what_is_changed(mta, tmp_path):
    pytest.importorskip("nbformat")
    path = tmp_path / "runs" / "lessons" / "01" / "01_one.ipynb"
    assert mta("lesson", "open", "1", "--no-viewer")[0] == 0
    assert json.loads(path.read_text())["metadata"]["kernelspec"]["name"] == "python3"
    path.write_text("mine")
    code, out, _ = mta("lesson", "open", "1", "--no-viewer")
    assert code == 0 and "yours" in out and path.read_text() == "mine"
    mta("lesson", "open", "1", "--no-viewer", "--fresh")
    (kept,) = path.parent.glob("01_one.*-*.ipynb")
    assert kept.read_text() == "mine" and "pick" in path.read_text()


def test_open_without_a_viewer_says_what_to_install(mta, monkeypatch):
    pytest.importorskip("nbformat")
    monkeypatch.setattr("shutil.which", lambda *arguments, **options: None)
    code, out, _ = mta("lesson", "open", "1")
    assert code == 0 and "pip install 'minitorch-attn[notebooks]'" in out


@pytest.mark.skipif(sys.platform == "win32", reason="the viewer is a shell script here")
def test_open_starts_the_viewer_that_is_installed(mta, monkeypatch, tmp_path):
    pytest.importorskip("nbformat")
    viewer = tmp_path / "jupyter-lab"
    viewer.write_text('#!/bin/sh\necho "$1" "${MPLBACKEND-unset}" > opened\nexit 7\n')
    viewer.chmod(0o755)
    monkeypatch.delenv("MPLBACKEND", raising=False)
    found = {"jupyter-lab": str(viewer)}
    monkeypatch.setattr("shutil.which", lambda name, **options: found.get(name))
    code, out, _ = mta("lesson", "open", "1")
    assert code == 7 and "jupyter-lab" in out
    opened, backend = (tmp_path / "opened").read_text().split()
    assert opened.endswith("01_one.ipynb")
    assert backend == "unset"  # with Agg, plt.show() shows nothing in a notebook


def test_notebooks_of_all_lessons(mta, tmp_path):
    pytest.importorskip("nbformat")
    code, out, _ = mta("lesson", "notebooks", "--out", tmp_path / "books")
    assert code == 0 and "3 notebooks" in out
    assert sorted(path.name for path in (tmp_path / "books").iterdir()) == [
        "01_one.ipynb", "02_two.ipynb", "10_ten.ipynb",
    ]  # fmt: skip


def test_notebooks_of_some_lessons(mta, tmp_path):
    pytest.importorskip("nbformat")
    books = tmp_path / "books"
    code, out, _ = mta("lesson", "notebooks", "1", "--only", "10", "--out", books)
    assert code == 0 and "2 notebooks in" in out
    assert sorted(path.name for path in books.iterdir()) == ["01_one.ipynb", "10_ten.ipynb"]
    assert "\n1 notebook in" in mta("lesson", "notebooks", "two", "--out", books)[1]


@pytest.mark.slow
@pytest.mark.kernel
def test_notebooks_are_executed_and_a_failure_is_named(mta, tmp_path):
    pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    books = tmp_path / "books"
    code, out, _ = mta("lesson", "notebooks", "--out", books, "--execute", "--fast", "--jobs", 2)
    assert code == 1 and "stopped by an error: 10" in out
    assert "10_ten.py:" in out and "AssertionError: no" in out
    cells = json.loads((books / "01_one.ipynb").read_text())["cells"]
    assert cells[2]["outputs"][0]["text"] == ["first fast\n"]


def test_without_the_extra_the_remedy_is_named(mta, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nbformat.v4", None)
    code, _, err = mta("lesson", "notebooks")
    assert code == 1 and "pip install 'minitorch-attn[lessons]'" in err
