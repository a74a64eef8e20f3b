"""Notebooks contain the lesson, run from top to bottom, and report where they fail."""

import pytest

from minitorch_attn.course import notebooks
from minitorch_attn.course.lesson_list import Lesson, lessons

pytest.importorskip("jupytext")
nbformat = pytest.importorskip("nbformat")

SMALL = """# %% [markdown]
# # Title

# %%
import os

from minitorch_attn.course.lesson import pick, show
from minitorch_attn.viz.style import new_figure

print(pick("full", "fast"))

# %%
show(new_figure(2, 2), "nothing in it")

# %% [markdown]
# text

# %%
{last}
"""


@pytest.fixture
def small(tmp_path):
    def make(last="print(1 + 1)"):
        path = tmp_path / "01_small.py"
        path.write_text(SMALL.format(last=last))
        return Lesson(path)

    return make


def test_a_notebook_is_valid_and_the_same_each_time(tmp_path):
    for lesson in lessons():
        made = notebooks.notebook(lesson)
        nbformat.validate(made)
        assert made.metadata.kernelspec.name == "python3"
        assert [cell.source for cell in made.cells] == [cell.text for cell in lesson.cells]
        notebooks.write_notebook(made, tmp_path / "a.ipynb")
        notebooks.write_notebook(notebooks.notebook(lesson), tmp_path / "b.ipynb")
        assert (tmp_path / "a.ipynb").read_bytes() == (tmp_path / "b.ipynb").read_bytes()


@pytest.mark.slow
def test_it_runs_from_top_to_bottom_with_its_figures(small, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    lesson = small()
    made = notebooks.notebook(lesson)
    assert notebooks.execute(made, lesson, tmp_path, fast=True) is None
    first, second, last = [cell for cell in made.cells if cell.cell_type == "code"]
    assert first.outputs[0].text == "fast\n" and last.outputs[0].text == "2\n"
    assert "image/png" in second.outputs[0].data
    assert second.outputs[1].text == "Figure 1: nothing in it\n"
    assert not list(tmp_path.glob("runs/**/*.png"))


@pytest.mark.slow
def test_it_names_the_line_of_the_cell_that_fails(small, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    lesson = small("assert 1 + 1 == 3, 'no'")
    made = notebooks.notebook(lesson)
    failure = notebooks.execute(made, lesson, tmp_path, fast=True)
    lines = lesson.path.read_text().splitlines()
    assert lines[failure.line - 1].startswith("assert 1 + 1") and "no" in failure.message
    assert "AssertionError" in failure.traceback and "\x1b" not in failure.traceback


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jupytext", None)
    with pytest.raises(notebooks.MissingPackage, match=r"minitorch-attn\[lessons\]"):
        notebooks.notebook(lessons()[0])
