"""Write lessons/README.md from the lessons' first cells: `python -m tools.lesson_table`."""

import re
import sys
import textwrap
from pathlib import Path

from minitorch_attn.course.catalogue import lessons

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "lessons" / "README.md"

TEXT = """\
# Lessons

Each lesson starts from a question and answers it with the smallest code that does, run and drawn.
It then shows what goes wrong without the idea, where the real thing is in the library, an
exercise, and three questions with answers.

| | lesson | question |
| --- | --- | --- |
{rows}

## Go through them

```sh
mta lesson step 9        # cell by cell in the terminal; remembers where you were
mta lesson run 9         # all at once
mta lesson open 9        # as a notebook of your own
mta lesson list          # all, and what is done
mta                      # where you are, and the next command
```

A number or a part of a name will do: `mta lesson step sqrt`. `python -m minitorch_attn` stands
for `mta` where that is not installed. Each file is also a plain script: `python
lessons/09_why_sqrt_d.py`. Figures go to `runs/lessons/`.

`open` and `notebooks` need `python -m pip install 'minitorch-attn[lessons]'`. Lessons with
handwritten digits need `python -m pip install scikit-learn`.

What is done is kept in one small file, which `mta lesson progress` names; `MTA_STATE` names
another folder for it.

## All of them as notebooks

```sh
mta lesson notebooks                    # to runs/notebooks
mta lesson notebooks --execute          # and run from top to bottom, with outputs and figures
MTA_FAST=1 mta lesson notebooks --execute --jobs 2   # with small sizes, for a check
```

## Write one

A lesson is a Python file in cells (`# %%`, `# %% [markdown]`). `tests/lesson_rules.py` says what
it must have; `tests/lessons` holds it to that and runs it. `minitorch_attn/course/lesson.py` has
the four functions that lessons call. This page is made by `python -m tools.lesson_table`.
"""


def page():
    """The text of lessons/README.md.

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
    """Text that does not end a cell of a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", textwrap.dedent(text))


def main():
    """Write the page, or with --check say whether it is up to date."""
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
