"""Make the notebook of `mta build`: the text of each step, a cell per function, and its check."""

from ..lesson_list import find_lesson
from ..notebooks import assembled, folded_text, make_cell, own_path
from .cell_source import function_text
from .steps import load_steps, unwritten

__all__ = ["build_notebook"]

_INTRODUCTION = """\
# A GPT of your own

You write a GPT from scratch, in eight steps that take {minutes} minutes in all. At the end you
train it, compare it with the library's GPT of the same size, let it write text, and step through
your own code.

Each function has its own cell. The cell contains the signature, and says what to compute.

1. Replace `raise NotImplementedError` with your code, and run the cell. The longest function has
   {longest} lines.
2. Run `check(...)` below it. The check calls your function and the library's on random inputs. It
   compares values, shapes, dtypes and gradients, and says what is wrong, and where.
3. If you are stuck, unfold the hint above the cell. The answer is folded below the check.
4. A helper function or constant of your own must be in the cell of the function that uses it.

The checks copy your functions to `{file}`, next to this notebook. `mta build` in a terminal
continues with the same file and the same progress. **After you restart the kernel, run only the
next cell and continue where you stopped:** the cell loads what you have written. You can run cells
in any order and as often as you like. The version of a function that you ran last counts.

| step | | minutes | lessons before it |
| --- | --- | --- | --- |
{steps}

The lessons explain what a step needs. The links open your copies, which are notebooks, too.
"""
_METHODS = """\
A class is spread over several cells. The first cell defines the class, with its docstring and the
methods that are given. In the later cells, `@add_to(Value)` makes the function below it a method
of `Value`.
"""
_START = """\
import math

import numpy as np

from minitorch_attn.course.build.notebook import Build

build = Build(globals(), "{file}"{more})
add_to, check, given = build.add_to, build.check, build.given"""
_TRAIN = """\
## Train it

You have now written every part. The next cell trains your GPT, with 4 layers, 4 heads and width
128, on the text of the tour. It also trains the library's GPT, which starts with the same weights
and gets the same 1,500 batches. This takes about 6 minutes on one core. `build.train(alone=True)`
trains only your GPT and takes about 4 minutes. The weights are written to `{weights}`.
"""
_SAMPLE = """\
## Let it write

Try other prompts and other lengths.
"""
_TRACE = """\
## Step through it

The next cell records one forward and backward pass of a small GPT made of your functions. It shows
every line of your code that computes an array, with the arrays that the line reads and makes. Click
in the page and press the arrow keys, or open `{page}` in a browser.
"""
_TABLE_ROW = "| {number} | [{title}](#Step-{number}:-{anchor}) | {minutes} | {lessons} |"


def build_notebook(file="my_gpt.py", written="", answers=False):
    """Make the notebook of `mta build`.

    Parameters
    ----------
    file : str
        Name of the learner's file, in the same folder as the notebook.
    written : str
        Text of that file, which must be valid Python. Functions that it contains are filled in.
    answers : bool, default False
        Whether to fill in the answers, so that the notebook runs. A notebook with answers does not
        record progress.

    Returns
    -------
    nbformat.NotebookNode
    """
    return assembled(_cells(file, written, answers))


def _cells(file, written, answers):
    steps, stem = load_steps(), file.removesuffix(".py")
    longest = max(item.lines for step in steps for item in step.functions)
    rows = "\n".join(map(_row, steps))
    minutes = sum(step.minutes for step in steps)
    yield make_cell("markdown", _INTRODUCTION.format(
        minutes=minutes, longest=longest, file=file, steps=rows
    ))  # fmt: skip
    yield make_cell("code", _START.format(file=file, more=", remember=False" if answers else ""))
    for step in steps:
        yield make_cell("markdown", _heading(step))
        yield from _functions(step, written, answers)
        yield make_cell("markdown", f"### What it can do after step {step.number}\n\n{step.next}")
        yield _call(f"build.demonstrate({step.number})", answers)
    yield make_cell("markdown", _TRAIN.format(weights=f"{stem}.npz"))
    yield _call("build.train()", answers)
    yield make_cell("markdown", _SAMPLE)
    yield _call('build.sample("The class ", length=400)', answers)
    yield make_cell("markdown", _TRACE.format(page=f"{stem}.html"))
    yield _call("build.trace()", answers)


def _row(step):
    lessons = ", ".join(_link(number) for number in step.lessons)
    anchor = step.title.replace(" ", "-")
    return _TABLE_ROW.format(
        number=step.number, title=step.title, anchor=anchor, minutes=step.minutes, lessons=lessons
    )


def _link(number, text=None):
    return f"[{text or number}]({own_path(find_lesson(number)).as_posix()})"


def _heading(step):
    lines = [f"## Step {step.number}: {step.title}", f"About {step.minutes} minutes.", step.text]
    for number in step.lessons:
        lesson = find_lesson(number)
        link = _link(number, f"Lesson {number}")
        lines[1] += f" {link}, *{lesson.title}*, explains what it needs"
        lines[1] += f" ({_minutes(lesson, step)})." if lesson.minutes else "."
    if step.number == 1:
        lines.append(_METHODS)
    return "\n\n".join(lines)


def _minutes(lesson, step):
    short = step.short.get(lesson.number)
    enough = f"; {short['minutes']} minutes {short['part']}, which is enough here" if short else ""
    return f"{lesson.minutes} minutes{enough}"


def _functions(step, written, answers):
    """Yield the cells for a step's functions, and for the parts of its classes that are given.

    The learner does not write the given parts: the docstring and some methods of a class.
    """
    given = dict(step.given)
    for item in step.functions:
        prefix, _, _ = item.name.rpartition(".")
        if prefix in given:
            yield make_cell("code", f"@given\n{given.pop(prefix)}", tags=["given"])
        yield make_cell(
            "markdown", f"### `{item.name}`\n\n{folded_text('Hint', item.hint)}", tags=["your-turn"]
        )
        decorator = f"@add_to({prefix})\n" if prefix else ""
        yield make_cell("code", decorator + _text(item, written, answers), tags=["answer"])
        yield _call(f'check("{item.name}")', answers, ["check"])
        if not answers:
            answer = folded_text("Answer", f"```python\n{decorator}{item.answer}\n```")
            yield make_cell("markdown", answer, tags=["answer"])


def _text(item, written, answers):
    if answers:
        return item.answer
    text = function_text(written, item.name)
    if text and item.name not in unwritten(written):
        return text
    return f"{item.stub}\n    raise NotImplementedError"


def _call(text, answers, tags=()):
    """Make a code cell. Unless `answers` is true, an error in it does not stop the notebook."""
    return make_cell("code", text, tags=[*tags, *([] if answers else ["raises-exception"])])
