"""`mta build notebook`: create the notebook and copies of its lessons, and open the notebook."""

import click

from ..course.build.steps import lesson_path
from ..course.exercises.rules import not_python
from ..course.exercises.work import near
from ..course.lesson_list import find_lesson
from . import DONE
from .console import command
from .lesson_notebooks import own_copy, view

__all__ = ["open_notebook"]


def open_notebook(file, known, out, fresh, answers, no_viewer):
    """Create the notebook next to the learner's file if it does not exist yet, and open it.

    Parameters
    ----------
    file : Path
        The learner's file, which may not exist yet.
    known : list of Step
    out : rich.console.Console
    fresh, answers, no_viewer : bool
        Options of the command.

    Returns
    -------
    int
        Exit status.
    """
    from ..course.build.make_notebook import build_notebook

    if answers:
        file = file.with_name(f"{file.stem}_answers.py")
    text = _text(file)
    path = file.with_suffix(".ipynb")
    if not own_copy(path, lambda: build_notebook(file.name, text, answers), out, fresh):
        again = command("build", "notebook", "--fresh")
        out.print(f"  a new one, with the functions of {near(file)}: {again}", style="dim")
    _lessons(path.parent, path.name, known, out)
    return DONE if no_viewer else view(path, out)


def _text(file):
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{near(file)} could not be read: {error}") from None
    unclear = not_python(text, near(file))
    if unclear:
        raise click.UsageError(f"correct your file first:\n{unclear}")
    return text


def _lessons(folder, name, known, out):
    """Copy the lessons that the notebook links to. Each copy links back to the notebook."""
    from ..course.notebooks import make_cell, notebook, own_path, write_notebook

    items = [(find_lesson(number), step) for number, step in lesson_path(known)]
    new = [pair for pair in items if not (folder / own_path(pair[0])).exists()]
    for item, step in new:
        made = notebook(item)
        back = f"[Back to step {step.number} of your GPT](../../../{name})"
        made.cells.append(make_cell("markdown", back))
        made.cells[-1]["id"] = "cell-back"
        write_notebook(made, folder / own_path(item))
    if new:
        count = f"{len(new)} lesson" + ("s" if len(new) > 1 else "")
        out.print(f"made    {near(folder / 'runs' / 'lessons')}: {count} linked from the notebook")
