"""The README's commands are the promised ones, its links lead somewhere, its example runs."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

TOUR = "python -m pip install -e . && python -m minitorch_attn tour"
TESTS = "python -m pip install -e '.[test]' && python -m pytest"

# A python block, and the text block with its output where one follows directly.
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```\n)?", re.M | re.S)


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


@pytest.mark.parametrize("example", EXAMPLE.findall(README), ids=lambda e: e[0].splitlines()[0])
def test_examples_run_and_print_what_the_page_says(example):
    code, expected = example
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert printed.getvalue().strip() == expected.strip()
