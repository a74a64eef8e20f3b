"""`mta lesson list`, `progress`, `run` and `step`: list, run and step through lessons."""

import json

import click

from ..course.build.progress import BuildProgress
from ..course.build.steps import lesson_path, load_steps
from ..course.exercises.progress import ExerciseProgress
from ..course.lesson_list import find_lesson, lessons
from ..course.progress import Progress
from . import DONE, FAILED
from .console import command, console, table
from .lesson_notebooks import notebooks, open_
from .lesson_turn import solved_of
from .source_line import Group

__all__ = ["lesson", "next_lesson"]

_NUMBER = click.argument("number", metavar="NN")
_FAST = click.option(
    "--fast/--full", default=None, help="Use small sizes, for a quick check.  [default: MTA_FAST]"
)


@click.group(
    cls=Group, calls="course/",
    short_help="List lessons, step through them, open them as notebooks.",
)  # fmt: skip
def lesson():
    """Read and run lessons. Each lesson explains one idea with code, and shows how it can fail.

    NN is the number of a lesson, or part of its name as in `mta lesson step sqrt`.
    """


lesson.add_command(open_)
lesson.add_command(notebooks)


@lesson.command("list", calls="course/lesson_list.py")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with questions and paths.")
def list_(as_json):
    """List the lessons and your progress."""
    progress = Progress()
    if as_json:
        click.echo(json.dumps([_fields(item, progress) for item in lessons()], indent=1))
        return
    out = console()
    known = lessons()
    rows = [
        (i.number, i.title, _minutes(i), solved_of(i, progress), _state(i, progress)) for i in known
    ]
    out.print(table(rows))
    done = sum(progress.is_done(item.number) for item in known)
    out.print(f"\n{done} of {len(known)} done")
    path = [number for number, _ in lesson_path(load_steps())]
    out.print(f"the path to a GPT of your own: {' '.join(path)}, with {command('build')}")
    _say_next(out, progress)


@lesson.command("progress", calls="course/progress.py")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def progress_(as_json):
    """Show your progress and the file that stores it."""
    progress, known = Progress(), lessons()
    done = [item.number for item in known if progress.is_done(item.number)]
    begun = [item.number for item in known if progress.cell(item.number)]
    following = next_lesson(progress)
    if as_json:
        fields = {
            "file": str(progress.path), "lessons": len(known), "done": done, "begun": begun,
            "next": following and following.number,
        }  # fmt: skip
        click.echo(json.dumps(fields, indent=1))
        return
    out = console()
    rows = [
        ("done", f"{len(done)} of {len(known)}: {' '.join(done)}" if done else "none yet"),
        ("begun", " ".join(begun) or "none"),
        ("file", str(progress.path)),
    ]
    out.print(table(rows, indent=0))
    _say_next(out, progress)


@lesson.command(calls="course/run_lesson.py")
@click.argument("numbers", metavar="NN...", nargs=-1, required=True)
@_FAST
def run(numbers, fast):
    """Run lessons as scripts, from the first line to the last."""
    from ..course.run_lesson import run_script

    out = console()
    for item in [find_lesson(number) for number in numbers]:
        process, seconds = run_script(item, fast)
        if process.returncode:
            out.print(f"\nlesson {item.number} stopped with an error after {seconds:.1f} s")
            return FAILED
        _finish(item, out, seconds)
    return DONE


@lesson.command(calls="cli/lesson_step.py")
@_NUMBER
@_FAST
@click.option("--from", "start", type=click.IntRange(min=1), help="Start at this cell.")
def step(number, fast, start):
    """Step through a lesson cell by cell.

    Each cell is shown, then run. Press Enter for the next cell, b for the previous one, a number
    and Enter to jump, or q to quit and save your place. Figures are written to files, and their
    paths are printed. Press = to type an expression and see its value.

    At "Your turn", press e to write the function in your editor. It is checked when you save it.
    Press h for the hint and a for the answer. Your files are kept with your exercises.

    Without a terminal, the whole lesson is printed, with the answers.
    """
    from .lesson_step import Stepper

    item, out = find_lesson(number), console()
    progress = ExerciseProgress()
    stepper = Stepper(item, progress, out, fast)
    ended = stepper.run(None if start is None else start - 1)
    _warn(progress)
    if ended == DONE:
        _say_next(out, progress)
        _say_path(out, item.number)
    return FAILED if ended == FAILED else DONE


def _finish(item, out, seconds):
    """Record that a lesson ran to the end, and print how long it took."""
    progress = Progress()
    progress.finish(item.number)
    out.print(f"\nlesson {item.number} finished in {seconds:.1f} s")
    _warn(progress)


def _warn(progress):
    if progress.note:
        click.echo(progress.note, err=True)


def _say_next(out, progress):
    following = next_lesson(progress)
    if following is None:
        out.print("all lessons are done")
    else:
        out.print(f"next: {command('lesson', 'step', following.number)}   {following.title}")
    _warn(progress)


def _say_path(out, number):
    """If a lesson is on the path to GPT, print the command for what comes next on the path."""
    following = BuildProgress().after(number, load_steps())
    if isinstance(following, str):
        out.print(f"on the path to a GPT of your own: {command('lesson', 'step', following)}")
    elif following is not None:
        words = f"step {following.number}, {following.title}"
        out.print(f"on the path to a GPT of your own: {command('build')}   {words}")


def next_lesson(progress):
    """Find the lesson to continue with.

    This is the most recently used unfinished lesson. If there is none, it is the first unfinished
    lesson after the most recently finished one, or else the first unfinished lesson.

    Parameters
    ----------
    progress : Progress

    Returns
    -------
    Lesson or None
        None if all lessons are done.
    """
    known = lessons()
    left = [
        item for item in known if progress.cell(item.number) and not progress.is_done(item.number)
    ]
    if left:
        return max(left, key=lambda item: progress.when(item.number))
    open_ones = [item for item in known if not progress.is_done(item.number)]
    latest = progress.latest() or ""
    return next((item for item in open_ones if item.number > latest), (open_ones or [None])[0])


def _minutes(item):
    return "" if item.minutes is None else f"{item.minutes} min"


def _state(item, progress):
    done = "done" if progress.is_done(item.number) else ""
    at = progress.cell(item.number)
    place = f"cell {at + 1} of {len(item.cells)}" if at else ""
    return ", ".join(filter(None, (done, place)))


def _fields(item, progress):
    """Return the fields of a lesson for `--json`."""
    return {
        "number": item.number,
        "title": item.title,
        "question": item.question,
        "minutes": item.minutes,
        "path": str(item.path),
        "cells": len(item.cells),
        "cell": progress.cell(item.number) + 1 if progress.cell(item.number) else None,
        "done": progress.is_done(item.number),
        "turns": [turn.name for turn in item.turns],
        "solved": [turn.name for turn in item.turns if turn.name in progress.solved(item.number)],
    }
