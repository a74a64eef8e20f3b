"""Write lessons/README.md from the lessons' first cells: `python -m tools.lesson_table`."""

import re
import sys
import textwrap
from pathlib import Path

from minitorch_attn.course.build.steps import load_steps
from minitorch_attn.course.lesson_list import find_lesson, lessons

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "lessons" / "README.md"

TEXT = """\
# Lessons

Each lesson starts with a question and answers it with the smallest code that works, with printed
results and figures. Then it shows what goes wrong without the idea, and where the library
implements the idea. At the end there are an exercise and three questions with answers. The lessons
cite five lecture decks, which are listed in [docs/decks.md](../docs/decks.md).

| | lesson | question | minutes |
| --- | --- | --- | --- |
{rows}

The minutes are estimates. They include the time to read the text and the code, to type the answers,
to look at the figures and to wait for the results. `python -m tools.lesson_minutes` computes them.

## The path to a GPT of your own

`mta build` leads from an empty file to a GPT in eight steps ([docs/build.md](../docs/build.md)).
The lessons in this table explain what the steps need. Read each lesson before the step in the same
row:

| lesson | minutes | then | minutes |
| --- | --- | --- | --- |
{path}

If a row has two numbers, the second one is the time for the part of the lesson that the steps need.
The lessons and the steps together take about {hours:.1f} hours, or {fewer:.1f} hours if you read
only these parts, so plan three evenings. The steps alone take {own:.1f} hours.

You can follow the whole path in notebooks. `mta build notebook` writes `my_gpt.ipynb`, which has a
cell for each function and its check. The command also makes your own copies of these lessons, and
the steps link to them ([In a notebook](../docs/build.md#in-a-notebook)). You need JupyterLab, which
`python -m pip install 'minitorch-attn[notebooks]'` installs, or another notebook editor.

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

## Your turn

In every lesson you write two to four functions and predict one result. At "Your turn":

- In the terminal (`mta lesson step 9`), press `e` to write the function in your editor (set
  `EDITOR`). When you save the file, the lesson checks the function's values, its gradients and at
  least one property. `h` shows a hint, `a` shows the answer, and Enter continues without your
  function. Your files are in `exercises-work`, and are used again the next time. To see a value,
  press `=` and type a Python expression, which can use all names of the lesson.
- In a notebook (`mta lesson open 9`), replace `raise NotImplementedError`, and run the cell below.
  The check says what is wrong. The hint, the answer and the code of the check are collapsed.
- A script runs with the answers, and so does a notebook made with `--answers`.

`mta lesson list` counts the functions that you have solved in the terminal.

## Packages and files

`mta lesson open` and `mta lesson notebooks` need `python -m pip install 'minitorch-attn[lessons]'`.
Lessons with handwritten digits need `python -m pip install scikit-learn`.

Your progress is stored in one small file; `mta lesson progress` prints its path. The environment
variable `MTA_STATE` selects another folder for it.

## All lessons as notebooks

```sh
mta lesson notebooks                    # write them to runs/notebooks
mta lesson notebooks --execute          # run them, too, and store outputs and figures
mta lesson notebooks --answers          # with the answers filled in
MTA_FAST=1 mta lesson notebooks --execute --answers --jobs 2   # run all, with small sizes
```

## Write a lesson

A lesson is a Python file with cells (`# %%`, `# %% [markdown]`). `tests/lesson_rules.py` contains
the rules for its format. The tests in `tests/lessons` check these rules and run every lesson.
`minitorch_attn/course/lesson.py` has the functions that lessons call, and `your_turn.py` next to it
has `check`. [docs/add_a_lesson.md](../docs/add_a_lesson.md) explains the cells of "Your turn" with
an example. `python -m tools.lesson_table` regenerates this page.
"""


def page():
    """Return the text of lessons/README.md.

    Returns
    -------
    str
    """
    rows = "\n".join(
        f"| {item.number} | [{item.title}]({item.path.name}) | {_cell(item.question)} "
        f"| {item.minutes or ''} |"
        for item in lessons(ROOT / "lessons")
    )
    return TEXT.format(rows=rows, **_path())


def _path():
    """Return the values of `TEXT` for the path to a GPT: its table, and how many hours it takes.

    Each row of the table has the lessons to read, and the step of `mta build` that follows them.
    """
    rows, total, fewer, steps = [], 0, 0, load_steps(ROOT / "my_gpt")
    for step in steps:
        cells, read, least = [], 0, 0
        for item in (find_lesson(number, ROOT / "lessons") for number in step.lessons):
            short = step.short.get(item.number)
            name = f"{item.number} [{item.title}]({item.path.name})"
            cells.append(f"{name} (or {short['part']})" if short else name)
            read += item.minutes or 0
            least += short["minutes"] if short else item.minutes or 0
        then = f"step {step.number}: {step.title} | {step.minutes}"
        rows.append(f"| {', '.join(cells)} | {_either(read, least)} | {then} |")
        total, fewer = total + read, fewer + least
    own = sum(step.minutes for step in steps)
    rows.append(f"| all | {_either(total, fewer)} | all | {own} |")
    hours = {"hours": (total + own) / 60, "fewer": (fewer + own) / 60, "own": own / 60}
    return {"path": "\n".join(rows), **hours}


def _either(minutes, fewer):
    if not minutes:
        return ""
    return f"{minutes}" if minutes == fewer else f"{minutes}, or {fewer}"


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
