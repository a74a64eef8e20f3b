"""docs/decks.md: each slide topic has a lesson, a file, a recipe and a test, and all exist."""

import re
from pathlib import Path

import pytest

from minitorch_attn.course.lesson_list import lessons
from minitorch_attn.training.recipes import RECIPES

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/decks.md").read_text(encoding="utf-8")
DECKS = re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
ROWS = [
    (deck, *(cell.strip() for cell in line.strip("| ").split("|")))
    for deck, section in DECKS
    for line in section.splitlines()
    if line.startswith("|") and not re.match(r"\| (---|title of)", line)
]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_the_page_has_all_five_decks():
    assert [deck for deck, _ in DECKS] == ["TAPASWI", "FLOW", "GRID", "KROL", "COMP541"]
    assert len(ROWS) > 90


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1]}"[:60])
def test_a_topic_has_lesson_file_recipe_and_test(row):
    _, _, numbers, files, recipes, tests = row
    assert numbers and {int(n) for n in numbers.split(", ")} <= {int(n.number) for n in lessons()}
    assert names(files) and names(tests)
    assert names(recipes) or recipes == "none yet"
    missing = [name for name in names(files) if not (ROOT / "minitorch_attn" / name).exists()]
    missing += [name for name in names(recipes) if name not in RECIPES]
    missing += [name for name in names(tests) if not (ROOT / "tests" / name).exists()]
    assert missing == []
