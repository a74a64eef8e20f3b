"""README: its commands are the tested ones, its links work, and its examples print what it says."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from minitorch_attn.course.exercises.load import exercises
from minitorch_attn.course.lesson_list import lessons

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

TOUR = "python -m pip install -e . && python -m minitorch_attn tour"
TESTS = "python -m pip install -e '.[test]' && python -m pytest -n auto"

# A python block that is followed by its output.
EXAMPLE = re.compile(
    r"^```python\n((?:(?!```).)*)^```\n[^`]*`(\w+\.py)`[^`]*`python [^`]*`[^`]*^```text\n(.*?)^```",
    re.M | re.S,
)
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]\d+)?")


PRACTICE = re.compile(
    r"`python -m minitorch_attn exercise` prints[^`]*^```text\n(.*?)^```", re.M | re.S
)


def without_numbers(text):
    """The words of a text: what stays the same where rounding differs."""
    return [word for word in NUMBER.sub("#", text).split() if word != "#"]


def in_words(number):
    """A number from 1 to 99 in words: 22 is "twenty-two"."""
    small = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen"
    ).split()
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()
    if number < 20:
        return small[number]
    end = f"-{small[number % 10]}" if number % 10 else ""
    return tens[number // 10 - 2] + end


def test_it_counts_lessons_exercises_and_assignments():
    kinds = Counter(exercise.kind for exercise in exercises())
    bugs, properties, written, derived = (
        in_words(kinds[kind]) for kind in ("bug", "property", "write", "derive")
    )
    assignments = in_words(len([*ROOT.glob("assignments/*/assignment.toml")]))
    for sentence in (
        f"[Learn attention in {len(lessons())} lessons]", f"The [{len(lessons())} lessons]",
        f"[Practice with {in_words(kinds.total())} exercises]",
        f"There are {kinds.total()} short files. {bugs.capitalize()} have one mistake",
        f"In {properties} others, the gradient check passes", f"In {written} more, you write",
        f"in another {derived} you derive it",
        f"{assignments.capitalize()} assignments",
    ):  # fmt: skip
        assert sentence in README, sentence


def test_it_opens_with_the_two_commands():
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
    assert [block.strip() for block in blocks[:2]] == [TOUR, TESTS]


def test_ci_runs_the_same_test_command():
    assert TESTS in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")), ids=str
)
def test_relative_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert missing == []


def test_there_is_an_example():
    assert EXAMPLE.search(README)


@pytest.mark.parametrize(("code", "name", "expected"), EXAMPLE.findall(README))
def test_examples_print_what_the_page_says(code, name, expected, tmp_path):
    (tmp_path / name).write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("COLUMNS", None)  # how wide the page is does not depend on who looks
    done = subprocess.run(
        [sys.executable, name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert without_numbers(done.stdout) == without_numbers(expected)


def test_the_exercise_prints_what_the_page_says(tmp_path):
    (shown,) = PRACTICE.findall(README)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MTA_STATE": str(tmp_path / "state")}
    for name in ("COLUMNS", "MTA_WORK", "MTA_EXERCISES"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "minitorch_attn", "exercise"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    printed = " ".join(without_numbers(done.stdout))
    places = [printed.find(" ".join(without_numbers(part))) for part in shown.split("\n...\n")]
    assert len(places) == 2 and places == sorted(places) and places[0] == 0


def test_the_attention_of_ones_own_model_is_plotted_in_four_lines(tmp_path, monkeypatch):
    (code,) = re.findall(
        r"^```python\n((?:(?!```).)*attention_maps(?:(?!```).)*)^```", README, re.M | re.S
    )
    assert len([line for line in code.splitlines() if line]) == 4
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert (tmp_path / "attention.png").stat().st_size > 5_000
