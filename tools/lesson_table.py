"""Write lessons/README.md from the lessons' first cells: `python -m tools.lesson_table`."""

import re
import sys
import textwrap
from pathlib import Path

from minitorch_attn.course.lesson_list import lessons

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "lessons" / "README.md"

TEXT = """\
# Lessons

Each lesson starts with a question and answers it with the smallest code that works, with printed
results and figures. Then it shows what goes wrong without the idea, and where the library
implements it. An exercise and three questions with answers follow. The lessons cite five lecture
decks, which are listed in [docs/decks.md](../docs/decks.md).

| | lesson | question |
| --- | --- | --- |
{rows}

## Run the lessons

```sh
mta lesson step 9        # cell by cell in the terminal; continues where you stopped
mta lesson run 9         # all at once
mta lesson open 9        # open your own copy, a notebook
mta lesson list          # list all lessons, and mark those that are done
mta                      # show your progress and the next command
```

You can name a lesson by its number or by a part of its file name: `mta lesson step sqrt`. If `mta`
is not installed, use `python -m minitorch_attn`. Each file is also a plain script: `python
lessons/09_why_sqrt_d.py`. Figures are written to `runs/lessons/`.

`open` and `notebooks` need `python -m pip install 'minitorch-attn[lessons]'`. Lessons with
handwritten digits need `python -m pip install scikit-learn`.

Your progress is stored in one small file; `mta lesson progress` prints its path. The environment
variable `MTA_STATE` selects another folder for it.

## All lessons as notebooks

```sh
mta lesson notebooks                    # write them to runs/notebooks
mta lesson notebooks --execute          # run them, too, and store outputs and figures
MTA_FAST=1 mta lesson notebooks --execute --jobs 2   # run them with small sizes, as a check
```

## Write a lesson

A lesson is a Python file with cells (`# %%`, `# %% [markdown]`). `tests/lesson_rules.py` contains
the rules for its form; `tests/lessons` checks them and runs every lesson.
`minitorch_attn/course/lesson.py` has the four functions that lessons call. `python -m
tools.lesson_table` regenerates this page.
"""


def page():
    """Return the text of lessons/README.md.

    Returns
    -------
    str
    """
    rows = "\n".join(
        f"| {item.number} | [{item.title}]({item.path.name}) | {_cell(item.question)} |"
        for item in lessons(ROOT / "lessons")
    )
    return TEXT.format(rows=rows)


def _cell(text):
    """Escape the `|` in a text, so that it does not end the table cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", textwrap.dedent(text))


def main():
    """Write the page. With --check, write nothing; return 1 if the page is out of date."""
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
