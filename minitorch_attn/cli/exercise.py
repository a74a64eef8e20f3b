"""`mta exercise`: practice finding mistakes in gradients and writing gradients yourself."""

import json
import sys
from pathlib import Path

import click

from ..course.exercises.check import SECONDS, check_file
from ..course.exercises.load import exercises, find_exercise
from ..course.exercises.progress import ExerciseProgress
from ..course.exercises.work import WorkFolder
from ..errors import ArgumentError
from . import DONE, FAILED
from .console import command, console
from .exercise_page import (
    bar,
    hint_count,
    listing,
    near,
    say_where,
    show_explanation,
    show_hints,
    show_outcome,
    show_solution,
    show_task,
    state_of,
)
from .source_line import Group

__all__ = ["exercise"]

_WORK = click.option(
    "--work", type=click.Path(file_okay=False), help="Your folder.  [default: exercises-work]"
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_SECONDS = click.option(
    "--seconds", type=click.FloatRange(min=1), default=SECONDS, show_default=True,
    help="Time limit of one check in seconds.",
)  # fmt: skip
_NUMBER = click.argument("number", metavar="[NN]", required=False)


class Desk:
    """State shared by all commands: the exercises, your working copies and your progress."""

    def __init__(self, work=None):
        self.known = exercises()
        self.progress = ExerciseProgress()
        self.work = WorkFolder(work, self.progress.work_folder)

    def pick(self, number):
        """Find an exercise by number or name; by default the next, or None if all are solved."""
        if number is None:
            return self.progress.current(self.known)
        try:
            return find_exercise(number)
        except ArgumentError as error:
            raise click.UsageError(str(error)) from None

    def need(self, number):
        """Find an exercise as `pick` does, but raise an error if all are solved."""
        found = self.pick(number)
        if found is None:
            raise click.UsageError("all exercises are solved: give an exercise number")
        return found

    def start(self, item):
        """Copy the exercise to your folder unless a copy exists. Return True if it was copied."""
        made = self.work.start(item)
        self.progress.use_folder(self.work.path)
        self.progress.begin(item.name)
        return made

    def fields(self, item):
        """Return the fields of an exercise for `--json`."""
        return {
            "number": item.number,
            "name": item.name,
            "title": item.title,
            "kind": item.kind,
            "solved": self.progress.is_solved(item.name),
            "hints": self.progress.hints(item.name),
            "state": state_of(item, self.progress, self.work),
            "file": str(self.work.file(item)),
        }

    def say_next(self, out):
        """Print the progress and the next command."""
        done = sum(self.progress.is_solved(item.name) for item in self.known)
        out.print(f"\n{bar(done, len(self.known))}")
        say_where(out, self.known, self.progress)
        self.warn()

    def warn(self):
        """Print what went wrong with the progress file."""
        if self.progress.note:
            click.echo(self.progress.note, err=True)


@click.group(cls=Group, calls="course/exercises/", invoke_without_command=True)
@_WORK
@_SECONDS
@_JSON
@click.pass_context
def exercise(context, work, seconds, as_json):
    """Find mistakes in gradients, and write gradients yourself.

    Without a subcommand, continue with the current exercise. In a terminal your file is checked
    again whenever you save it; otherwise it is checked once.

    NN is the number of an exercise, or part of its name as in `mta exercise check layer_norm`.
    """
    context.obj = work
    if context.invoked_subcommand is not None:
        return DONE
    desk, out = Desk(work), console()
    item = desk.progress.current(desk.known)
    if item is None:
        return _say_all_solved(desk, out, as_json)
    if not as_json and out.is_terminal and sys.stdin.isatty():
        from .exercise_watch import Watcher

        return Watcher(desk.known, desk.work, desk.progress, out, seconds).run(item)
    desk.start(item)
    return _check([(item, desk.work.file(item))], desk, out, seconds, as_json, with_task=True)


def _say_all_solved(desk, out, as_json):
    if as_json:
        click.echo(json.dumps({"solved": len(desk.known), "next": None}))
    else:
        desk.say_next(out)
    return DONE


@exercise.command("list", calls="cli/exercise_page.py")
@_WORK
@_JSON
@click.pass_obj
def list_(group_work, work, as_json):
    """List the exercises and your progress."""
    desk = Desk(work or group_work)
    if as_json:
        click.echo(json.dumps([desk.fields(item) for item in desk.known], indent=1))
        return
    out = console()
    out.print(listing(desk.known, desk.progress, desk.work))
    desk.say_next(out)


@exercise.command(calls="course/exercises/work.py")
@_NUMBER
@_WORK
@_JSON
@click.pass_obj
def start(group_work, number, work, as_json):
    """Copy an exercise into your folder. An existing copy is kept."""
    desk, out = Desk(work or group_work), console()
    item = desk.need(number)
    made = desk.start(item)
    if as_json:
        click.echo(json.dumps({**desk.fields(item), "copied": made}, indent=1))
        return
    show_task(out, item, desk.work.file(item), len(desk.known))
    if not made:
        out.print("\nYou already have a copy; it was not changed.")
    out.print(f"\nedit the file, then: {command('exercise', 'check', item.number)}")
    desk.warn()


@exercise.command(calls="course/exercises/check.py")
@click.argument("numbers", metavar="[NN]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Check all exercises that you started.")
@_WORK
@_SECONDS
@_JSON
@click.pass_obj
def check(group_work, numbers, everything, work, seconds, as_json):
    """Check the gradients and the properties of your copy of an exercise.

    Gradients are checked for small and for large inputs. You can give the path of a file in place
    of a number.
    """
    desk, out = Desk(work or group_work), console()
    if everything:
        known = [(item, desk.work.file(item)) for item in desk.known]
        pairs = [(item, file) for item, file in known if file.exists()]
    else:
        pairs = [_named(desk, number) for number in numbers or (None,)]
    for item, file in pairs:
        if not file.exists():
            raise click.UsageError(
                f"exercise {item.number} is not started: {near(file)} does not exist. "
                f"Start it with: {command('exercise', 'start', item.number)}"
            )
    return _check(pairs, desk, out, seconds, as_json)


def _named(desk, number):
    """Find an exercise and the learner's file, given a number, a name or a path."""
    item, path = desk.need(number), Path(number or "")
    is_path = path.suffix == ".py" and path.is_file()
    return item, path if is_path else desk.work.file(item)


def _check(pairs, desk, out, seconds, as_json, with_task=False):
    """Check the solutions in the files, record the progress, and show the results."""
    outcomes = []
    for item, file in pairs:
        outcome = check_file(item, file, seconds, out.width)
        outcomes.append(outcome)
        if outcome.passed:
            desk.progress.solve(item.name)
        if not as_json:
            _show(item, file, outcome, desk, out, with_task)
    _continue_with_first_failure(pairs, outcomes, desk)
    if as_json:
        found = [outcome.to_json() for outcome in outcomes]
        click.echo(json.dumps(found[0] if len(found) == 1 else found, indent=1))
        desk.warn()
    else:
        desk.say_next(out)
    return DONE if all(outcome.passed for outcome in outcomes) else FAILED


def _continue_with_first_failure(pairs, outcomes, desk):
    """Make the first failed exercise with a file in the work folder the current exercise."""
    for (item, file), outcome in zip(pairs, outcomes, strict=True):
        if not outcome.passed and file.resolve() == desk.work.file(item).resolve():
            return desk.progress.begin(item.name)
    return None


def _show(item, file, outcome, desk, out, with_task):
    if with_task:
        show_task(out, item, file, len(desk.known))
    else:
        out.print(f"exercise {item.number} of {len(desk.known)}: {item.title}", style="bold")
        out.print(near(file))
    out.print()
    show_outcome(out, item, outcome)
    if outcome.passed:
        out.print()
        show_explanation(out, item)
    else:
        out.print(f"a hint: {command('exercise', 'hint', item.number)}")


@exercise.command(calls="cli/exercise_page.py")
@_NUMBER
@_WORK
@_JSON
@click.pass_obj
def hint(group_work, number, work, as_json):
    """Show one more hint. The third hint nearly gives the answer away.

    After the third hint, the gradient check suggests a cause, based on your file's gradients.
    """
    desk, out = Desk(work or group_work), console()
    item = desk.need(number)
    count, causes, file = desk.progress.hints(item.name) + 1, "", desk.work.file(item)
    if file.exists():  # the suggested cause is counted as one of the hints
        causes = check_file(item, file, columns=out.width).causes
    most = hint_count(item, causes)
    count = min(count, most)
    desk.progress.hint_given(item.name, count)
    if as_json:
        hints = [*item.hints, causes][:count]
        click.echo(json.dumps({"name": item.name, "hints": hints, "of": most}, indent=1))
        return
    out.print(f"exercise {item.number}: {item.title}\n", style="bold")
    show_hints(out, item, count, causes)
    following = "check" if desk.work.file(item).exists() else "start"
    out.print(f"\nthen: {command('exercise', following, item.number)}")
    desk.warn()


@exercise.command(calls="course/exercises/work.py")
@click.argument("number", metavar="NN")
@_WORK
@_JSON
@click.pass_obj
def reset(group_work, number, work, as_json):
    """Start an exercise over. Your copy is kept under another name."""
    desk, out = Desk(work or group_work), console()
    item = desk.need(number)
    kept = desk.work.reset(item)
    desk.progress.reopen(item.name)
    if as_json:
        click.echo(json.dumps({**desk.fields(item), "kept": kept and str(kept)}, indent=1))
        return
    out.print(f"{near(desk.work.file(item))} is reset to the original")
    if kept:
        out.print(f"your copy is kept as {near(kept)}")
    desk.warn()


@exercise.command(calls="cli/exercise_page.py")
@click.argument("number", metavar="NN")
@_JSON
def solution(number, as_json):
    """Show the solution of an exercise that you have solved."""
    desk, out = Desk(), console()
    item = desk.need(number)
    if not desk.progress.is_solved(item.name):
        text = f"exercise {item.number} is not solved yet; solve it to see the solution"
        if as_json:
            click.echo(json.dumps({"name": item.name, "solved": False}, indent=1))
        else:
            click.echo(f"{text}\na hint: {command('exercise', 'hint', item.number)}", err=True)
        return FAILED
    if as_json:
        fields = {"old": item.old, "new": item.new, "explanation": item.explanation}
        fields["seen"] = [{"at": place, "what": what} for place, what in item.seen]
        click.echo(json.dumps({"name": item.name, "solved": True, **fields}, indent=1))
        return DONE
    show_solution(out, item)
    show_explanation(out, item)
    return DONE
