"""Lessons follow the rules of tests/lesson_rules.py. `test_your_turn.py` runs them."""

import re
import subprocess

import lesson_rules
import pytest

from minitorch_attn.course.exercises.load import exercises
from minitorch_attn.course.lesson_list import Lesson, lessons
from minitorch_attn.course.run_lesson import run_script

LESSONS = lessons()
NAMES = [lesson.path.stem for lesson in LESSONS]


@pytest.fixture(autouse=True)
def on_the_host(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("lessons choose their devices themselves and are tested once")


@pytest.mark.parametrize("rule", lesson_rules.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)
def test_format(lesson, rule):
    assert list(rule(lesson)) == []


@pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)
def test_it_names_the_exercises_that_belong_to_it(lesson):
    task = lesson_rules.text(lesson_rules.section(lesson, "Exercise"))
    block = re.search(r"^Then practice:\n\n```sh\n(.*?)^```$", task, re.M | re.S)
    commands = block[1].splitlines() if block else []
    wanted = [e.number for e in exercises() if e.lesson == lesson.number]
    assert commands == [f"mta exercise start {number}" for number in wanted]
    assert task.count("mta exercise") == len(wanted)  # nowhere else, where it could not be typed


def test_there_are_thirty_or_more_without_a_gap():
    numbers = [lesson.number for lesson in LESSONS]
    assert numbers == [f"{number:02d}" for number in range(1, len(LESSONS) + 1)]
    assert len(LESSONS) >= 30


GOOD = """# %% [markdown]
# # A title
#
# A fact. What follows from it?
#
# *Prerequisites:* nothing.

# %%
import minitorch_attn as mt
from minitorch_attn.course.lesson import show, where
from minitorch_attn.course.your_turn import check

assert mt.ones(3).sum() == 3

# %% tags=["plot"]
show(figure, "three")

# %% [markdown] tags=["your-turn"]
# ## Your turn: twice
#
# Write `double(x)`.
#
# *Hint:* Add.

# %% tags=["answer"]
def double(x):
    \"\"\"Return 2 x.\"\"\"
    y = x + x
    return y


# %% tags=["check"]
check(double, cases=[mt.ones(3)], expected=lambda x: 2 * x, properties={})

# %% [markdown] tags=["your-turn"]
# ## Your turn: three times
#
# Write `triple(x)`.
#
# *Hint:* Add twice.

# %% tags=["answer"]
def triple(x):
    \"\"\"Return 3 x.\"\"\"
    y = x + x
    return y + x


# %% tags=["check"]
check(triple, cases=[mt.ones(3)], expected=lambda x: 3 * x, properties={})

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# What does it print?

# %%
print(mt.ones(3))

# %% [markdown]
# Three ones.

# %% [markdown]
# ## What goes wrong with two numbers

# %%
assert mt.ones(2).sum() != 3

# %% [markdown]
# ## In the library

# %%
where(mt.ones)

# %% [markdown]
# ## Exercise
#
# Write a function that adds three numbers in another order, and check that the sum is the same.

# %% [markdown]
# ## Three questions
#
# 1. One?
# 2. Two?
# 3. Three?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. One.
# 2. Two.
# 3. Three.
"""


def complaints(source, folder):
    path = folder / "01_planted.py"
    path.write_text(source, encoding="utf-8")
    return {rule.__name__: list(rule(Lesson(path))) for rule in lesson_rules.RULES}


def test_a_lesson_of_this_form_is_without_complaint(tmp_path):
    assert not any(complaints(GOOD, tmp_path).values())


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("opening", "What follows from it?", "Something follows."),
        ("opening", "# *Prerequisites:* nothing.", "#"),
        ("opening", "# *Prerequisites:* nothing.", "# *Prerequisites:* lessons 0 and 1."),
        ("order", "## In the library", "## Somewhere else"),
        ("order", "## Exercise", "## Three questions"),
        ("order", ' tags=["answers"]', ""),
        ("claims", "assert mt.ones(3).sum() == 3", "mt.ones(3).sum()"),
        ("claims", "assert mt.ones(2).sum() != 3", "mt.ones(2).sum()"),
        ("place", "where(mt.ones)", "mt.ones"),
        ("exercise", "that adds three numbers in another order, and check that", ""),
        ("questions", "# 2. Two?\n", ""),
        ("questions", "# 3. Three.\n", ""),
        ("questions", "2. Two?", "2. Two."),
        ("questions", "2. Two?", "2. ?"),
        ("questions", "2. Two.", "2. "),
        ("questions", "3. Three.", "3. \n#"),
        ("look", "print(mt.ones(3))", "mt.ones(3)"),
        ("look", 'show(figure, "three")', "figure"),
        ("plainness", "print(mt.ones(3))", "print(input())"),
        ("plainness", "A fact.", "A <b>fact</b>."),
        ("plainness", "A fact.", "$$a = b\n#   + c$$"),
        ("plainness", "print(mt.ones(3))", 'if __name__ == "__main__":\n    print(3)'),
        ("plainness", "print(mt.ones(3))", "print(3)\n" * 51),
        ("plainness", "# # A title", "# # Decoding: greedy"),
        ("plainness", "# # A title", "# # A title, coding=utf-8"),
        ("steadiness", "print(mt.ones(3))", "print(np.random.default_rng().random())"),
        ("turns", ' tags=["answer"]', ""),
        ("turns", ' tags=["check"]', ""),
        ("turns", '[markdown] tags=["your-turn"]', "[markdown]"),
        ("turns", "## Your turn: twice", "## Twice"),
        ("turns", "# *Hint:* Add.", "# Add."),
        ("turns", "# *Hint:* Add.", "# *Hint:* Add.\n#\n# And more."),
        ("turns", '    """Return 2 x."""\n', ""),
        ("turns", "    y = x + x\n    return y\n", "    return x + x\n"),
        ("turns", "    y = x + x\n    return y\n", "    y = x + x\n" * 10 + "    return y\n"),
        ("turns", "def double(x):", "z = 3\n\n\ndef double(x):"),
        ("turns", "check(double,", "print(double,"),
        ("turns", "check(double,", "check(triple,"),
        ("turns", "check(double,", "x = 3\ncheck(double,"),
        ("turns", "assert mt.ones(2).sum() != 3", "assert double(mt.ones(1)) != 3"),
        ("turns", "print(mt.ones(3))", "def double(x):\n    print(x + x)"),
        ("predict", ' tags=["predict"]', ""),
        ("predict", "## Predict, then run", "## Predict"),
        ("predict", "print(mt.ones(3))", "mt.ones(3)"),
        ("predict", "# %% [markdown]\n# Three ones.", "# %%\n# Three.\nx = 1"),
        ("plots", ' tags=["plot"]', ""),
        ("plots", "\n# %%\nprint(mt.ones(3)", '\n# %% tags=["plot"]\nprint(mt.ones(3)'),
    ],
)
def test_each_rule_bites(rule, old, new, tmp_path):
    assert old in GOOD
    assert complaints(GOOD.replace(old, new, 1), tmp_path)[rule]


def test_a_lesson_whose_assertion_fails_does_not_pass(tmp_path):
    path = tmp_path / "01_planted.py"
    path.write_text("# %%\nassert 1 + 1 == 3\n", encoding="utf-8")
    process, _ = run_script(Lesson(path), fast=True, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 1 and "AssertionError" in process.stderr
