"""A lesson is split into the same cells as by Jupytext, with their first lines."""

import pytest

from minitorch_attn.course.cells import read_cells
from minitorch_attn.course.lesson_list import lessons
from minitorch_attn.errors import DataError

TEXT = '''# %% [markdown]
# # Title
#
#     indented

# %%

x = """
# %% no header within a string would help: Jupytext splits here as well
"""

# %% tags=["slow", "long"]
y = 1


# %%
# %% [markdown] tags=["answers"]
#
# 1. One.
'''


def test_kinds_texts_lines_and_tags():
    cells = read_cells(TEXT)
    assert [cell.kind for cell in cells] == ["markdown", "code", "code", "code", "markdown"]
    assert cells[0].text == "# Title\n\n    indented"
    assert cells[3].tags == ("slow", "long") and cells[4].tags == ("answers",)
    assert cells[3].text == "y = 1" and cells[4].text.strip() == "1. One."
    lines = TEXT.splitlines()
    for cell in cells:
        first = cell.text.splitlines()[0]
        assert lines[cell.line - 1].lstrip("# ") == first.lstrip("# ")


def test_jupytext_sees_the_same_cells_in_every_lesson():
    jupytext = pytest.importorskip("jupytext")
    for lesson in lessons():
        made = jupytext.reads(lesson.path.read_text(encoding="utf-8"), fmt="py:percent")
        theirs = [(cell.cell_type, cell.source.strip()) for cell in made.cells]
        assert [(cell.kind, cell.text.strip()) for cell in lesson.cells] == theirs, lesson.path
        assert list(lesson.cells[-1].tags) == made.cells[-1].metadata["tags"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# %% [markdown]\n# # Title\nx = 1\n", "line 3: x = 1"),
        ("import os\n\n# %%\nx = 1\n", "precedes the first cell"),
        ("x = 1\n", "precedes the first cell"),
    ],
)
def test_what_is_no_cell_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        read_cells(text, "01_x.py")


def test_an_empty_file_has_no_cells():
    assert read_cells("") == []


@pytest.mark.parametrize("tags", ["[" * 300 + "]", "[1, 2]", '["a", {}]', "[x]", "[f()]"])
def test_malformed_tags(tags):
    text = f"# %% tags={tags}]\nx = 1\n"
    with pytest.raises(DataError, match="line 1: the tags of the cell are malformed"):
        read_cells(text)
