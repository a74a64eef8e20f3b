"""Turns: find the functions that a learner writes in a lesson, and remove the answers.

A lesson file contains the answers. Each turn has three consecutive cells with the tags "your-turn"
(task and hint), "answer" (one function) and "check" (a call to `check`). A Markdown cell with the
tag "predict" asks the reader for a guess before the next cell runs.
"""

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError
from .math_text import markdown_for_terminal

__all__ = ["Turn", "find_turns", "is_predict", "unanswered"]

_TITLE = "## Your turn: "
_HINT = re.compile(r"\n\n\*Hint:\*\s+(?P<hint>(?:[^\n]+\n?)+)\s*\Z")


@dataclass(frozen=True)
class Turn:
    """A function that the learner writes.

    Parameters
    ----------
    lesson : str
        Number of the lesson, such as "09".
    at : int
        Index of the task's cell. The next two cells are the answer and the check.
    line : int
        Line number of the answer in the lesson's file.
    title : str
        Heading without "Your turn: ".
    task, hint : str
        Markdown.
    name : str
        Name of the function.
    answer : str
        Code of the correct function.
    """

    lesson: str
    at: int
    line: int
    title: str
    task: str
    hint: str
    name: str
    answer: str

    @property
    def unanswered(self):
        """Code of the function before it is written: its docstring, then NotImplementedError."""
        return unanswered(self.answer)

    @property
    def path(self):
        """File name of the learner's version in the work folder."""
        return Path(f"lesson_{self.lesson}_{self.name}.py")

    @property
    def text(self):
        """Text of the learner's file before it is edited: the task, and the function to write."""
        lines = [f"Your turn, lesson {self.lesson}: {self.title}", ""]
        for block in markdown_for_terminal(self.task).split("\n\n"):
            is_prose = not block.startswith(("    ", "$$", "```", "|", "- ", "1. "))
            lines += textwrap.wrap(" ".join(block.split()), 96) if is_prose else block.splitlines()
            lines.append("")
        lines += ["The names of the lesson, such as mt, can be used here without an import."]
        comment = "\n".join(f"# {line}".rstrip() for line in lines)
        return f"{comment}\n\n\n{self.unanswered}\n"


def find_turns(lesson):
    """Find the functions that the learner writes in a lesson.

    Parameters
    ----------
    lesson : Lesson

    Returns
    -------
    list of Turn

    Raises
    ------
    DataError
        If one of the three cells is missing or does not have the required form.
    """
    found, cells = [], lesson.cells
    for at, cell in enumerate(cells):
        if "your-turn" in cell.tags:
            found.append(_turn(lesson, at))
        elif {"answer", "check"} & set(cell.tags) and not any(
            at - turn.at in (1, 2) for turn in found
        ):
            raise _malformed(lesson, cell, "the task is missing", "a cell with the tag your-turn")
    return found


def is_predict(cell):
    """Return whether a cell asks the reader for a guess."""
    return cell.kind == "markdown" and "predict" in cell.tags


def unanswered(code):
    """Replace the body of a function with `raise NotImplementedError`. Its docstring stays.

    Parameters
    ----------
    code : str
        Code of one function.

    Returns
    -------
    str

    Examples
    --------
    >>> print(unanswered('def double(x):\\n    \"\"\"Return 2 x.\"\"\"\\n    return 2 * x'))
    def double(x):
        \"\"\"Return 2 x.\"\"\"
        raise NotImplementedError
    """
    (function,) = ast.parse(code).body
    docstring = function.body[0]
    kept = code.splitlines()[: docstring.end_lineno]
    return "\n".join([*kept, " " * docstring.col_offset + "raise NotImplementedError"])


def _turn(lesson, at):
    cells = lesson.cells
    task, answer, check = [*cells[at : at + 3], None, None][:3]
    for cell, tag in ((answer, "answer"), (check, "check")):
        if cell is None or cell.kind != "code" or tag not in cell.tags:
            raise _malformed(
                lesson, task, f"the cell {tag!r} is missing", "cells: task, answer, check"
            )
    heading, _, text = task.text.partition("\n")
    hint = _HINT.search("\n" + text)
    if task.kind != "markdown" or not heading.startswith(_TITLE) or not hint:
        expected = f"`{_TITLE}...`, the task, and at the end one paragraph `*Hint:* ...`"
        raise _malformed(lesson, task, "a task cell is malformed", expected)
    return Turn(
        lesson=lesson.number,
        at=at,
        line=answer.line,
        title=heading.removeprefix(_TITLE).strip(),
        task=("\n" + text)[: hint.start()].strip("\n"),
        hint=hint["hint"].strip(),
        name=_function(lesson, answer).name,
        answer=answer.text,
    )


def _function(lesson, cell):
    """Return the syntax tree of the only function in a cell."""
    try:
        body = ast.parse(cell.text).body
    except SyntaxError as error:
        raise _malformed(lesson, cell, f"the answer is not valid Python: {error}", "") from None
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef) or not ast.get_docstring(body[0]):
        raise _malformed(
            lesson,
            cell,
            "an answer is not a single function with a docstring",
            "a cell that only defines one function",
        )
    return body[0]


def _malformed(lesson, cell, text, expected):
    return DataError(
        f"{lesson.path.name}: {text}",
        got=f"the cell at line {cell.line}",
        expected=expected or None,
    )
