"""`mta lesson`: list the lessons, run, open and step through them, make notebooks of them."""

import json

import click

from ..course.catalogue import find_lesson, lessons
from ..course.progress import Progress
from . import DONE, FAILED
from .console import command, console, table
from .notebook import notebooks, open_

__all__ = ["lesson", "next_lesson"]

_NUMBER = click.argument("number", metavar="NN")
_FAST = click.option(
    "--fast/--full", default=None, help="Small sizes, for a check.  [default: as MTA_FAST says]"
)


@click.group(short_help="List the lessons, go through them, open them as notebooks.")
def lesson():
    """The lessons: an idea, its smallest code, what it prints, and how it breaks.

    NN is the number of a lesson, or a part of its name as in `mta lesson step sqrt`.
    """


lesson.add_command(open_)
lesson.add_command(notebooks)


@lesson.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with questions and paths.")
def list_(as_json):
    """List the lessons, and how far you are."""
    progress = Progress()
    if as_json:
        click.echo(json.dumps([_fields(item, progress) for item in lessons()], indent=1))
        return
    out = console()
    known = lessons()
    out.print(table([(item.number, item.title, _state(item, progress)) for item in known]))
    done = sum(progress.is_done(item.number) for item in known)
    out.print(f"\n{done} of {len(known)} done")
    _say_next(out, progress)


@lesson.command("progress")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def progress_(as_json):
    """Say how far you are, and where that is written."""
    progress, known = Progress(), lessons()
    done = [item.number for item in known if progress.is_done(item.number)]
    begun = [item.number for item in known if progress.cell(item.number)]
    following = next_lesson(progress)
    if as_json:
        fields = {
            "file": str(progress.path),
            "lessons": len(known),
            "done": done,
            "begun": begun,
            "next": following and following.number,
        }
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


@lesson.command()
@click.argument("numbers", metavar="NN...", nargs=-1, required=True)
@_FAST
def run(numbers, fast):
    """Run lessons as scripts, from the first line to the last."""
    from ..course.running import run_script

    out = console()
    for item in [find_lesson(number) for number in numbers]:
        process, seconds = run_script(item, fast)
        if process.returncode:
            out.print(f"\nlesson {item.number} stopped with an error after {seconds:.1f} s")
            return FAILED
        _finish(item, out, seconds)
    return DONE


@lesson.command()
@_NUMBER
@_FAST
@click.option("--from", "start", type=click.IntRange(min=1), help="Begin at this cell.")
def step(number, fast, start):
    """Go through a lesson cell by cell.

    Each cell is shown, then run. Enter goes on, b back, a number to that cell, q quits and
    remembers the place. Figures are written beside and their paths printed. Without a terminal
    everything is printed at once.
    """
    from .step import Stepper

    item, out = find_lesson(number), console()
    progress = Progress()
    stepper = Stepper(item, progress, out, fast)
    ended = stepper.run(None if start is None else start - 1)
    _warn(progress)
    if ended == DONE:
        _say_next(out, progress)
    return FAILED if ended == FAILED else DONE


def _finish(item, out, seconds):
    """Remember and say that a lesson has run to its end."""
    progress = Progress()
    progress.finish(item.number)
    out.print(f"\nlesson {item.number} ran to its end in {seconds:.1f} s")
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


def next_lesson(progress):
    """The lesson to go on with.

    It is the one that was left before its end, the newest of these; else the first that is not
    done after the one that was done last; else the first that is not done.

    Parameters
    ----------
    progress : Progress

    Returns
    -------
    Lesson or None
        None when all are done.
    """
    known = lessons()
    left = [item for item in known if progress.cell(item.number)]
    if left:
        return max(left, key=lambda item: progress.when(item.number))
    open_ones = [item for item in known if not progress.is_done(item.number)]
    latest = progress.latest() or ""
    return next((item for item in open_ones if item.number > latest), (open_ones or [None])[0])


def _state(item, progress):
    if progress.cell(item.number):
        return f"cell {progress.cell(item.number) + 1} of {len(item.cells)}"
    return "done" if progress.is_done(item.number) else ""


def _fields(item, progress):
    """A lesson for `--json`."""
    return {
        "number": item.number,
        "title": item.title,
        "question": item.question,
        "path": str(item.path),
        "cells": len(item.cells),
        "cell": progress.cell(item.number) + 1 if progress.cell(item.number) else None,
        "done": progress.is_done(item.number),
    }
