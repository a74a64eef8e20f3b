"""Lessons run as scripts; in their checks, only the answers pass.

Unanswered functions and wrong answers are tried in the same process, because running the lesson up
to each check is what takes long.
"""

import json
import subprocess
import sys
from pathlib import Path

import lesson_answers
import pytest

from minitorch_attn.course.lesson_list import Lesson, lessons
from minitorch_attn.course.run_lesson import environment

LESSONS = lessons()
NAMES = [lesson.path.stem for lesson in LESSONS]
LIMIT = 600  # seconds; most lessons take less than 10 on an idle machine

LESSON = """# %% [markdown]
# # Twice

# %%
import minitorch_attn as mt
from minitorch_attn.course.your_turn import check

# %% [markdown] tags=["your-turn"]
# ## Your turn: twice
#
# Write `double(x)`.
#
# *Hint:* Add.

# %% tags=["answer"]
def double(x):
    \"\"\"Return 2 x.\"\"\"
    return x + x


# %% tags=["check"]
check(double, cases=[mt.tensor([2.0])], expected=lambda x: 2 * x, properties={})

# %%
print("the end of the lesson:", double(mt.tensor(4.0)).item())
"""


@pytest.fixture(autouse=True)
def on_the_host(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("lessons choose their devices themselves and are tested once")


@pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)
def test_two_mistakes_are_planted_in_every_function(lesson):
    wrong = lesson_answers.wrong_answers(lesson.number)
    assert list(wrong) == [turn.name for turn in lesson.turns]
    for turn in lesson.turns:
        entries = wrong[turn.name]
        assert len({entry["mistake"] for entry in entries}) == len(entries) >= 2
        for entry in entries:
            assert entry.keys() == {"mistake", "old", "new"}
            assert turn.answer.count(entry["old"]) == 1, (turn.name, entry["old"])
            assert entry["old"] != entry["new"]


def tried(path, folder, *arguments):
    """Run a lesson with tests/lesson_answers.py; return the results, and what the lesson prints."""
    results = folder / "results.json"
    process = subprocess.run(
        [sys.executable, lesson_answers.__file__, path, results, *arguments],
        cwd=folder, env=environment(fast=True), timeout=LIMIT, check=False, text=True,
        encoding="utf-8", stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-4000:]
    return json.loads(results.read_text(encoding="utf-8")), process.stdout


def complaints(found):
    """What is wrong with the results of one lesson."""
    for name, rows in found.items():
        (_, passed, text), *planted, (_, answered, result) = rows
        if passed or text:
            yield f"{name}: unanswered, it is not said to be unwritten: {text}"
        for mistake, passed, _ in planted:
            if passed:
                yield f"{name}: the check does not notice the mistake: {mistake}"
        for mistake, _, text in planted:
            if not any(f"\n  {label} " in text for label in ("expected", "not true", "hint")):
                yield f"{name}: {mistake}: the message names no value and no cause: {text}"
        if not answered or not result.startswith(f"{name}: "):
            yield f"{name}: the answer does not pass: {result}"


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)
def test_the_script_runs_and_only_the_answers_pass(lesson, tmp_path):
    found, printed = tried(lesson.path, tmp_path)
    assert list(found) == [turn.name for turn in lesson.turns]
    assert list(complaints(found)) == []
    figures = sorted(tmp_path.glob(f"runs/lessons/{lesson.number}/figure-*.png"))
    assert figures
    assert all(f"] {figure.relative_to(tmp_path)}" in printed for figure in figures)


def planted(tmp_path, lesson, *pairs):
    (tmp_path / "01_twice.py").write_text(lesson, encoding="utf-8")
    entries = [
        f"[[double]]\nmistake = '{new}'\nold = '{old}'\nnew = '{new}'\n" for old, new in pairs
    ]
    (tmp_path / "wrong.toml").write_text("\n".join(entries), encoding="utf-8")
    return tried(tmp_path / "01_twice.py", tmp_path, tmp_path / "wrong.toml")


def test_a_check_is_tried_with_every_answer(tmp_path):
    found, printed = planted(tmp_path, LESSON, ("x + x", "x + 1"), ("x + x", "(x + x).detach()"))
    rows = found["double"]
    assert [passed for _, passed, _ in rows] == [False, False, False, True]
    assert "got       3 at [0]" in rows[1][2] and "no gradient arrives at x" in rows[2][2]
    assert printed.splitlines() == [rows[3][2].strip(), "the end of the lesson: 8.0"]


def test_a_mistake_that_the_check_does_not_notice_is_reported(tmp_path):
    (first, *_) = complaints(planted(tmp_path, LESSON, ("x + x", "x * x.detach()"))[0])
    assert "does not notice the mistake" in first


def test_an_answer_that_does_not_pass_is_reported(tmp_path):
    wrong = LESSON.replace("return x + x", "return x + 1")
    assert any("does not pass" in text for text in complaints(planted(tmp_path, wrong)[0]))


def test_a_function_that_is_written_although_it_is_unanswered_is_reported():
    rows = [["unanswered", True, "double: values"], ["answered", True, "double: values"]]
    assert "unanswered" in next(complaints({"double": rows}))


def test_without_planted_mistakes_there_is_a_complaint(tmp_path):
    path = tmp_path / "99_twice.py"
    path.write_text(LESSON, encoding="utf-8")
    with pytest.raises(AssertionError):
        test_two_mistakes_are_planted_in_every_function(Lesson(Path(path)))
