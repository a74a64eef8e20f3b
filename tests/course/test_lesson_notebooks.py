"""Notebooks contain the lesson, run from top to bottom, and report where they fail."""

import pytest

from minitorch_attn.course import notebooks
from minitorch_attn.course.lesson_list import Lesson, lessons

nbformat = pytest.importorskip("nbformat")

SMALL = """# %% [markdown]
# # Title

# %%
import os

from minitorch_attn.course.lesson import pick, show
from minitorch_attn.viz.style import new_figure

print(pick("full", "fast"))

# %%
import minitorch_attn as mt

mt.manual_seed(0)

# %% tags=["plot"]
show(new_figure(2, 2), "nothing in it")

# %% [markdown]
# text

# %%
{last}
"""

TURN = """# %% [markdown]
# # Twice

# %%
import minitorch_attn as mt
from minitorch_attn.course.your_turn import check

# %% [markdown] tags=["your-turn"]
# ## Your turn: twice
#
# Write `double(x)`.
#
# *Hint:* Add $x$.

# %% tags=["answer"]
def double(x):
    \"\"\"Return 2 x.\"\"\"
    return x + x


# %% tags=["check"]
check(double, cases=[mt.tensor([2.0])], expected=lambda x: 2 * x, properties={})

# %%
print("the end")
"""


@pytest.fixture
def small(tmp_path):
    def make(last="print(1 + 1)"):
        path = tmp_path / "01_small.py"
        path.write_text(SMALL.format(last=last))
        return Lesson(path)

    return make


@pytest.mark.slow
def test_a_notebook_is_valid_and_the_same_each_time(tmp_path):
    for lesson in lessons():
        made = notebooks.notebook(lesson)
        nbformat.validate(made)
        assert made.metadata.kernelspec.name == "python3"
        notebooks.write_notebook(made, tmp_path / "a.ipynb")
        notebooks.write_notebook(notebooks.notebook(lesson), tmp_path / "b.ipynb")
        assert (tmp_path / "a.ipynb").read_bytes() == (tmp_path / "b.ipynb").read_bytes()


def test_it_contains_the_cells_of_the_lesson(small):
    made = notebooks.notebook(small())
    title, number, *cells = made.cells
    assert cells[1].source.endswith("\nmt.manual_seed(0);")
    cells[1].source = cells[1].source.rstrip(";")
    assert title.source == "# Title" and "01_small.py" in number.source
    assert [cell.source for cell in (title, *cells)] == [cell.text for cell in small().cells]
    folded = [cell.source for cell in made.cells if cell.metadata.get("jupyter")]
    assert folded == [number.source, 'show(new_figure(2, 2), "nothing in it")']


def test_a_function_is_to_be_written_and_hint_and_answer_are_folded(tmp_path):
    (tmp_path / "01_turn.py").write_text(TURN)
    lesson = Lesson(tmp_path / "01_turn.py")
    _, _, task, function, check, answer, _ = notebooks.notebook(lesson).cells
    assert "Write `double(x)`." in task.source and "*Hint:*" not in task.source
    assert task.source.endswith("<details><summary>Hint</summary>\n\nAdd $x$.\n\n</details>")
    assert function.source.endswith('"""Return 2 x."""\n    raise NotImplementedError')
    assert check.source.startswith("check(") and "raises-exception" in check.metadata.tags
    assert check.metadata.jupyter == {"source_hidden": True}  # `expected` is the answer
    assert "jupyter" not in function.metadata
    assert answer.cell_type == "markdown" and "<summary>Answer</summary>" in answer.source
    assert "    return x + x\n```\n\n</details>" in answer.source
    _, _, task, function, check, _ = notebooks.notebook(lesson, answers=True).cells
    assert "<summary>Hint</summary>" in task.source and "return x + x" in function.source
    assert check.metadata.tags == ["check"]


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (None, ["double is not written yet"]),
        ("return 3 * x", ["double: the value of the result is wrong", "  got       6 at [0]"]),
        ("return x / y", ["double: the function raises NameError", "  line 3    return x / y"]),
    ],
)
def test_the_check_says_what_is_wrong_and_the_next_cells_run(change, said, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    (tmp_path / "01_turn.py").write_text(TURN)
    made = notebooks.notebook(Lesson(tmp_path / "01_turn.py"))
    if change:
        made.cells[3].source = made.cells[3].source.replace("raise NotImplementedError", change)
    assert notebooks.execute(made, tmp_path, fast=True) is None
    (error,) = made.cells[4].outputs
    assert error.ename == "CheckFailed" and set(said) <= set(error.traceback)
    assert len(error.traceback) < 8 and not any("Traceback" in line for line in error.traceback)
    assert made.cells[-1].outputs[0].text == "the end\n"


@pytest.mark.slow
@pytest.mark.kernel
def test_with_answers_everything_runs(tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    (tmp_path / "01_turn.py").write_text(TURN)
    made = notebooks.notebook(Lesson(tmp_path / "01_turn.py"), answers=True)
    assert notebooks.execute(made, tmp_path, fast=True) is None
    assert made.cells[4].outputs[0].text == "double: values ✓  gradients ✓\n"


@pytest.mark.slow
@pytest.mark.kernel
def test_it_runs_from_top_to_bottom_with_its_figures(small, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    lesson = small()
    made = notebooks.notebook(lesson)
    assert notebooks.execute(made, tmp_path, fast=True) is None
    _, first, seed, second, last = [cell for cell in made.cells if cell.cell_type == "code"]
    assert not seed.outputs
    assert first.outputs[0].text == "fast\n" and last.outputs[0].text == "2\n"
    assert "image/png" in second.outputs[0].data
    assert second.outputs[1].text == "Figure 1.1: nothing in it\n"
    assert not list(tmp_path.glob("runs/**/*.png"))


@pytest.mark.slow
@pytest.mark.kernel
def test_it_names_the_line_of_the_cell_that_fails(small, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    lesson = small("assert 1 + 1 == 3, 'no'")
    made = notebooks.notebook(lesson)
    failure = notebooks.execute(made, tmp_path, fast=True)
    lines = lesson.path.read_text().splitlines()
    assert lines[failure.line - 1].startswith("assert 1 + 1") and "no" in failure.message
    assert "AssertionError" in failure.traceback and "\x1b" not in failure.traceback


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nbformat.v4", None)
    with pytest.raises(notebooks.MissingPackage, match=r"minitorch-attn\[lessons\]"):
        notebooks.notebook(lessons()[0])
