"""Exercises page: every exercise with its task, the command that starts it, and its lesson."""

import re
from pathlib import Path

from minitorch_attn.course.exercises.load import exercises
from minitorch_attn.course.lesson_list import lessons

from .docstrings import prepared
from .restructured import plain

# Kind of exercise -> heading and introduction, in the order of the page.
KINDS = {
    "bug": (
        "Find the mistake in a gradient",
        "One gradient is wrong. Read the report of the gradient check, then fix the mistake.",
    ),
    "property": (
        "Find the mistake in a model",
        "The gradient check passes, but the model violates a property that it must have.",
    ),
    "write": (
        "Write a backward pass",
        "The derivation is given. Write it in code.",
    ),
    "derive": (
        "Derive a backward pass",
        "Write the backward passes of the previous section again, now without the derivation.",
    ),
}
INTRODUCTION = """\
Each exercise is a short Python file. ``mta exercise start 03`` copies exercise 3 into the folder
``exercises-work``. Change the copy in your editor, then run ``mta exercise check 03``. This command
compares your gradients with those of the library on small and on large inputs. ``mta exercise``
without a number continues where you stopped, and checks the file whenever you save it.
``mta exercise hint 03`` shows the next hint."""
_STARTS = re.compile(r"```sh\n((?:mta exercise start \d\d\n)+)```")


def page(known, book):
    """Return the lines of the exercises page, given all exercises and all lessons."""
    lines = ["Exercises", "=========", "", INTRODUCTION, ""]
    pages = {lesson.number: lesson for lesson in book}
    for kind, (heading, introduction) in KINDS.items():
        lines += [heading, "-" * len(heading), "", introduction, ""]
        for exercise in known:
            if exercise.kind == kind:
                lines += _section(exercise, pages.get(exercise.lesson))
    return lines


def _section(exercise, lesson):
    heading = f"{int(exercise.number)}. {exercise.title}"
    command = f"``mta exercise start {exercise.number}``"
    if lesson is not None:
        title = f"lesson {int(lesson.number)}, {plain(lesson.title)}"
        command += f" · :doc:`{title} <lessons/{lesson.path.stem}>`"
    return [
        f".. _exercise-{exercise.number}:", "",
        heading, "^" * len(heading), "",
        *prepared([command, "", *exercise.task.split("\n")]), "",
    ]  # fmt: skip


def with_links(markdown, known):
    """In a lesson's text, replace each block of `mta exercise start` commands with a list of links.

    Each item has the title of the exercise, as a link, and the command. The target of the link is
    `exercise-NN`, which `restructured.to_rst` turns into a link to the page of exercises.
    """
    titles = {exercise.number: exercise.title for exercise in known}

    def items(match):
        numbers = re.findall(r"\d\d", match[1])
        rows = (
            f"* [{int(number)}. {titles[number]}](exercise-{number}): `mta exercise start {number}`"
            for number in numbers
        )
        return "\n".join(rows)

    return _STARTS.sub(items, markdown)


def write(app):
    """Write the exercises page if its text has changed."""
    path = Path(app.srcdir) / "exercises.rst"
    text = "\n".join(page(exercises(), lessons())) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app):
    """Write the exercises page before Sphinx reads its sources."""
    app.connect("builder-inited", write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
