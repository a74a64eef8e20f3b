"""Your turn in `mta lesson step`: expressions, writing a function, hint, answer, guesses."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from terminal import Terminal

pytest.importorskip("pty")
ROOT = Path(__file__).resolve().parents[2]
PROMPT = "q: quit] "
GUESS = "q: quit): "
LESSON = '''# %% [markdown]
# # Title

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.your_turn import check

mt.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown] tags=["your-turn"]
# ## Your turn: twice
#
# Write `double(x)`.
#
# *Hint:* Add x.

# %% tags=["answer"]
def double(x):
    """Return 2 x."""
    return x + x


# %% tags=["check"]
check(double, [mt.randn(2), mt.tensor(rng.normal(size=3))], lambda x: 2 * x, {})

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# How many?

# %%
print("there are", 2 + 3, "and", mt.randn(1).item(), rng.normal())

# %% [markdown]
# The end.
'''


@pytest.fixture
def place(tmp_path):
    """The folder with the lesson, and an "editor" that replaces the body by what BODY says."""
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "01_one.py").write_text(LESSON)
    (tmp_path / "editor.py").write_text(
        "import os, sys\n"
        "text = open(sys.argv[1]).read()\n"
        "open(sys.argv[1], 'w').write(text.replace(os.environ['OLD'], os.environ['NEW']))\n"
    )
    return tmp_path


@pytest.fixture
def step(place):
    def launch(*arguments, **changes):
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "MTA_LESSONS": str(place / "course"),
            "MTA_STATE": str(place / "state"), "MTA_WORK": str(place / "mine"), "TERM": "dumb",
            "COLUMNS": "100", "NO_COLOR": "1", "EDITOR": f"{sys.executable} {place / 'editor.py'}",
            "OLD": "raise NotImplementedError", "NEW": "return x + x", **changes,
        }  # fmt: skip
        environment.pop("VISUAL", None)
        found = Terminal(["-m", "minitorch_attn", "lesson", "step", "1", *arguments], environment)
        found.first = found.read(PROMPT)
        return found

    return launch


def progress(place):
    return json.loads((place / "state" / "progress.json").read_text())["lessons"]["01"]


def numbers(text):
    return re.search(r"there are 5 and (.*)", text)[1].strip()


def leave(screen, key="q"):
    screen.press(key, until=None)
    assert screen.close() == 0


def test_the_unanswered_function_is_shown_and_can_be_skipped(step, place):
    screen = step()
    screen.press("\r")
    shown = screen.press("\r")
    assert "Your turn: twice" in shown and "raise NotImplementedError" in shown
    assert "not written yet" in shown and "3-5/8" in shown
    assert "Add x" not in shown and "return x + x" not in shown
    shown = screen.press("\r", until=GUESS)
    assert "How many?" in shown and "6/8" in shown
    assert "there are 5" in screen.press("\r")
    assert "The end." in screen.press("\r")
    screen.press("\r", until=None)
    assert screen.close() == 0
    assert progress(place)["done"] is True and "turns" not in progress(place)
    assert not (place / "mine").exists()


def test_a_function_is_written_checked_and_remembered(step, place):
    screen = step("--from", "3")
    shown = screen.press("e", until="solved: your turn 1/1")
    assert "double: values ✓  gradients ✓" in shown
    leave(screen)
    assert progress(place)["turns"] == ["double"]
    text = (place / "mine" / "lesson_01_double.py").read_text()
    assert text.startswith("# Your turn, lesson 01: twice\n") and "return x + x" in text
    again = step()
    assert "return x + x" in again.first and "gradients ✓" in again.first
    leave(again)


@pytest.mark.slow
def test_a_mistake_is_explained_and_the_file_is_checked_when_it_is_saved(step, place):
    screen = step("--from", "3", NEW="return 3 * x")
    shown = screen.press("e")
    assert "2 of 2 values of the result are wrong" in shown and "case      1 of 2" in shown
    file = place / "mine" / "lesson_01_double.py"
    file.write_text(file.read_text().replace("3 * x", "1 / 0"))
    shown = screen.read("division by zero")
    assert "the function raises ZeroDivisionError" in shown and "return 1 / 0" in shown
    file.write_text("def double(x:\n")
    screen.read("lesson_01_double.py is not valid Python")
    file.write_text("import nothing_of_this_name\n")
    assert "lesson_01_double.py raises an error" in screen.read("ModuleNotFoundError")
    file.write_text("def twice(x):\n    return x\n")
    screen.read("does not define the function double")
    file.write_text("x = None\n\n\ndef double(x):\n    return mt.add(x, x)\n")
    screen.read("solved: your turn 1/1")
    leave(screen)


def test_the_random_numbers_are_those_of_the_answered_lesson(step, place, mta, monkeypatch):
    monkeypatch.setenv("MTA_LESSONS", str(place / "course"))
    answered = numbers(mta("lesson", "step", "1")[1])
    skipped = step("--from", "7")
    assert numbers(skipped.first) == answered
    leave(skipped)


def test_hint_and_answer(step):
    screen = step("--from", "3")
    assert "Hint: Add x." in screen.press("h")
    screen.press("a", until="Show the answer?")
    assert "return x + x" not in screen.press("n")
    screen.press("a", until="Show the answer?")
    assert "return x + x" in screen.press("y")
    assert "e opens your file" in screen.press("?")
    leave(screen)


def test_an_expression_shows_its_value_and_an_error_one_line(step):
    screen = step("--from", "2")
    screen.press("=", until="=> ")
    shown = screen.press("mt.ones(2, 3)\r", until="=> ")
    assert "tensor([[1., 1., 1.],\n        [1., 1., 1.]])\nshape (2, 3)\n" in shown
    shown = screen.press("mt.ones(2) + mt.ones(3)\r", until="=> ")
    assert "ShapeError: " in shown and "; got " in shown and "Traceback" not in shown
    assert "NameError: name 'nothing' is not defined\n" in screen.press("nothing\r", until="=> ")
    assert "SyntaxError: " in screen.press("1 +\r", until="=> ")
    screen.press("three = 3\r", until="=> ")
    assert "\n9\n" in screen.press("three * three\r", until="=> ")
    assert "shown" in screen.press("print('sh' + 'own')\r", until="=> ")
    screen.press("\r")
    screen.press(":", until="=> ")
    assert "\n3\n" in screen.press("three\r", until="=> ")
    screen.press("\r")
    leave(screen)


def test_expressions_do_not_change_the_random_numbers_of_later_cells(step, place, mta, monkeypatch):
    monkeypatch.setenv("MTA_LESSONS", str(place / "course"))
    answered = numbers(mta("lesson", "step", "1")[1])
    screen = step("--from", "3")
    screen.press("e", until="solved")
    screen.press("=", until="=> ")
    screen.press("mt.randn(5), rng.normal()\r", until="=> ")
    screen.press("\r")
    screen.press("\r", until=GUESS)
    assert numbers(screen.press("\r")) == answered
    leave(screen)


def test_a_guess_is_kept_and_shown_beside_the_result(step, place):
    screen = step("--from", "3")
    screen.press("\r", until=GUESS)
    shown = screen.press("about 7\r")
    assert shown.index("there are 5") < shown.index("your guess: about 7")
    assert progress(place)["guesses"] == {"1": "about 7"}
    assert "you guessed: about 7" in screen.press("b", until=GUESS)
    assert "your guess: about 7" in screen.press("\r")
    screen.press("b", until=GUESS)
    assert "3-5/8" in screen.press("b\r")
    screen.press("\r", until=GUESS)
    screen.press("q\r", until=None)
    assert screen.close() == 0


def test_a_number_within_the_group_leads_to_its_task(step):
    screen = step()
    screen.press("4")
    assert "Your turn: twice" in screen.press("\r")
    leave(screen)


def test_without_an_editor_it_says_which_file_to_open(step, place):
    screen = step("--from", "3", EDITOR="")
    shown = screen.press("e")
    assert "lesson_01_double.py in your editor" in shown.replace("\n", " ") and "EDITOR" in shown
    assert (place / "mine" / "lesson_01_double.py").exists()
    leave(screen)


def test_an_editor_that_does_not_start_is_named(step):
    screen = step("--from", "3", EDITOR="no-such-editor")
    assert "'no-such-editor' did not start" in screen.press("e")
    leave(screen)


def test_without_a_terminal_the_answers_run(mta, place, monkeypatch):
    monkeypatch.setenv("MTA_LESSONS", str(place / "course"))
    code, out, err = mta("lesson", "step", "1")
    assert (code, err) == (0, "") and "return x + x" in out and "double: values ✓" in out
    assert not (place / "mine").exists() and GUESS not in out


def test_the_overview_and_the_list_count_the_solved_functions(mta, place, monkeypatch):
    monkeypatch.setenv("MTA_LESSONS", str(place / "course"))
    assert "your turn" not in mta()[1]
    assert "your turn 0/1" in mta("lesson", "list")[1]
    (place / "state").mkdir()
    entry = {"turns": ["double", "gone"], "when": 1}
    (place / "state" / "progress.json").write_text(json.dumps({"lessons": {"01": entry}}))
    assert "your turn 1/1" in mta()[1] and "your turn 1/1" in mta("lesson", "list")[1]
    (fields,) = json.loads(mta("lesson", "list", "--json")[1])
    assert fields["turns"] == ["double"] and fields["solved"] == ["double"]
