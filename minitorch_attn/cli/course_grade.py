"""`mta course grade`, `report` and `export`: mark a class and look at the marks."""

import contextlib
import json
import signal
import sys
import tempfile
import threading
from pathlib import Path

import click

from . import DONE, INTERRUPTED, NO_SANDBOX, OWN_FAULT, USAGE
from .console import console, table

__all__ = ["export", "grade", "gradescope", "report", "sample"]

_WEAK = """\
Sandbox level 1: each submission runs in a process of its own with limits, as you. This protects
against accidents. It does NOT keep a submission from reading your files, from using the network,
or from leaving programs running. For marks that count, grade where level 3 or 2 works: install
bubblewrap, or run as root in a container. --require-sandbox 2 refuses instead of going on."""
_FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("name", metavar="ASSIGNMENT")
@click.argument("submissions", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", required=True, metavar="DIR", type=_FOLDER, help="Where the reports go.")
@click.option("-j", "--jobs", default=1, show_default=True, type=click.IntRange(1, 64),
              help="How many submissions are graded at once.")  # fmt: skip
@click.option("--require-sandbox", "required", metavar="N", type=click.IntRange(1, 3), default=1,
              help="Refuse to grade below this level; 3 is the safest.")  # fmt: skip
@click.option("--sandbox", "level", metavar="N", type=click.IntRange(1, 3),
              help="Grade at this level.  [default: the best that works]")  # fmt: skip
@click.option("--forget-others", is_flag=True,
              help="Remove from DIR the results of who is not in SUBMISSIONS.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print results.json, and no progress.")
def grade(name, submissions, out, jobs, required, level, forget_others, as_json):
    """Grade a class: one folder or archive for each student in SUBMISSIONS.

    Started again with the same DIR, it goes on where it was stopped, keeps what it has found, and
    grades anew what has changed, all if the assignment or the grader has. The reports list
    everybody in DIR, in SUBMISSIONS or not. Ends with 0 done, 2 wrong usage, 3 the level of the
    sandbox is not to be had, 4 a mistake of the grader itself, 130 stopped (in these two cases all
    reports are written all the same).
    """
    from ..course.build.assignment import find_assignment
    from ..course.build.task import task_of
    from ..course.grade.sandbox import Sandbox
    from ..course.report.grading import grade_and_report
    from ..errors import ArgumentError, DataError, MiniTorchError

    try:
        made = find_assignment(name)
        _refuse(submissions, out)
    except MiniTorchError as error:
        click.echo(f"error: {error}", err=True)
        return USAGE
    level = level or Sandbox.best()
    if not _safe_enough(level, required):
        return NO_SANDBOX
    with tempfile.TemporaryDirectory(prefix="minitorch-attn-task-") as room, _like_ctrl_c():
        task = task_of(made, Path(room))
        try:
            with _progress(as_json) as show:
                outcome = grade_and_report(
                    task, submissions, out, level=level, jobs=jobs, report=show,
                    forget=forget_others,
                )  # fmt: skip
        except (ArgumentError, DataError) as error:
            click.echo(f"error: {error}", err=True)
            return USAGE
    return _end(outcome, out, as_json)


def _safe_enough(level, required):
    """Whether the sandbox is as required; says what is wrong, or what it does not protect from."""
    from ..course.grade.sandbox import Sandbox

    why = Sandbox(max(level, required)).works()
    if level < required:
        why = why or f"--sandbox {level} is below --require-sandbox {required}"
    if why is not None:
        click.echo(f"error: sandbox level {max(level, required)} is not to be had: {why}", err=True)
    elif level == 1:
        click.echo(_WEAK, err=True)
    return why is None


def _refuse(submissions, out):
    """Refuse what cannot be graded before anything is written."""
    from ..course.grade.archive import submissions_in
    from ..errors import ArgumentError

    if not submissions_in(submissions):
        raise ArgumentError(
            "there are no submissions.", got=str(submissions),
            expected="a folder or an archive for each student",
        )  # fmt: skip
    if out.resolve() == submissions.resolve() or submissions.resolve() in out.resolve().parents:
        raise ArgumentError(
            "the results would lie among the submissions.", got=str(out),
            hint="choose --out outside of them",
        )  # fmt: skip


@contextlib.contextmanager
def _like_ctrl_c():
    """Let a TERM signal end a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _progress(silent):
    """A function to call after each submission: a bar in a terminal, lines elsewhere."""
    if silent:
        yield None
    elif sys.stdout.isatty():
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
        )
        with progress.Progress(*columns, console=console(), transient=True) as bar:
            line = bar.add_task("grading", total=None)

            def show(document, done, total, how):
                bar.print(_line(document, done, total, how))
                bar.update(line, completed=done, total=total)

            yield show
    else:
        yield lambda document, done, total, how: click.echo(_line(document, done, total, how))


def _line(document, done, total, how):
    """One submission in one line."""
    from ..course.report.grades import number

    said = "" if document["status"] == "graded" else f"  {document['status']}"
    graded = document["status"] != "not graded"
    score = f"{number(document['score']) if graded else '-'}/{number(document['max_score'])}"
    count = f"{done:{len(str(total))}}/{total}"
    time = "    kept" if how == "kept" else f"{document['seconds']:6.1f} s"
    again = "  again" if how in ("changed", "others") else ""
    return f"{count}  {_name(document['submission']['name'])}  {score:>7} {time}{again}{said}"


def _name(text, width=32):
    """Anybody's name in a column; nothing in it can move the cursor."""
    from ..course.grade.session import clean

    text = " ".join(clean(text).split())
    return (text if len(text) <= width else text[: width - 1] + "…").ljust(width)


def _end(outcome, out, as_json):
    """Say where the reports are; the exit code."""
    if outcome.results is not None and as_json:
        click.echo(json.dumps(outcome.results, indent=1))
    elif outcome.results is not None:
        click.echo("\n".join(_summary(outcome, out)))
    if outcome.failures:
        click.echo(f"error: the grader itself failed {len(outcome.failures)} times.", err=True)
        last = " ".join(outcome.failures[0].strip().splitlines()[-1:])
        click.echo(f"  got       {last}", err=True)
        if (out / "grader-errors.txt").exists():
            click.echo(f"  all       {out / 'grader-errors.txt'}", err=True)
        return OWN_FAULT
    if outcome.stopped:
        click.echo("stopped; the same command goes on from here.", err=True)
        return INTERRUPTED
    return DONE


def _summary(outcome, out):
    """What was graded, what is kept, and where the reports are."""
    results, how = outcome.results, outcome.how
    documents = results["submissions"]
    graded = sum(document["status"] != "not graded" for document in documents)
    missing = len(documents) - graded + len(results["not_graded"])
    before = graded - how["new"] - how["changed"] - how["others"]
    line = f"{graded} graded" + (f", {missing} not yet" if missing else "")
    yield line + (f"; {before} of them before, and kept" if before > 0 else "")
    if how["others"]:
        yield f"{how['others']} again: the assignment or the grader has changed since"
    outdated = sum(document["outdated"] for document in documents)
    if outdated:
        yield f"{outdated} outdated, by other checks: grade them again, with all submissions"
    if outcome.forgotten:
        yield f"{len(outcome.forgotten)} removed: not among the submissions"
    yield f"results.json, grades.csv, junit.xml: {out}"
    yield f"for each student, results.json and feedback.html: {out / 'students'}"


@click.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def report(folder, as_json):
    """Show the marks of a class: distribution, hardest entries, who needs a look.

    DIR is the --out of `mta course grade`.
    """
    from ..course.report.results import read_results, statistics
    from ..course.report.steps import beginnings

    results = read_results(folder)
    found = statistics(results)
    found["first_steps"] = beginnings(results)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    out = console()
    for text in _overview(results, found):
        out.print(text)


def _overview(results, found):
    """The parts of the table in the terminal."""
    from ..course.report.terminal import distribution, failures, hardest, heading

    yield heading(results, found)
    if found["scores"]:
        yield "\nPoints\n"
        yield distribution(found["scores"], results["assignment"]["points"])
        yield "\nEntries, the hardest first\n"
        yield table(hardest(found))
    if found["first_steps"]:
        yield "\nWhere wrong results begin: submissions, function, what differs first\n"
        yield table(found["first_steps"])
    if rows := failures(results):
        yield "\nTo look at\n"
        yield table(rows)


@click.command()
@click.argument("name", metavar="ASSIGNMENT")
@click.option("--out", required=True, metavar="DIR", type=_FOLDER, help="A new folder.")
@click.option("--count", default=10, show_default=True, type=click.IntRange(1, 1000))
def sample(name, out, count):
    """Make submissions of a class that does not exist, to try the grader with.

    Of ten, some are right and some have the bugs that the assignment lists; one is what was given
    out, one is empty and one is hostile.
    """
    from ..course.build.assignment import find_assignment
    from ..course.report.sample import sample_class

    console().print(table([(_name(n, 20).rstrip(), kind) for n, kind in
                           sample_class(find_assignment(name), out, count)]))  # fmt: skip


_FORMATS = ("csv", "github", "junit", "nbgrader", "otter", "prairielearn")


@click.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--format", "kind", required=True, type=click.Choice(_FORMATS))
@click.option("--out", metavar="PATH", type=_FOLDER, help="[default: within DIR]")
def export(folder, kind, out):
    """Write the results of a class, or its assignment, in the form of another tool.

    csv and junit: the marks in one file. prairielearn: a results.json for each student. github: a
    workflow that grades. otter and nbgrader: the public checks, for those tools.
    """
    from ..course.report.export import write_export
    from ..course.report.results import read_results

    click.echo(write_export(kind, read_results(folder), folder, out))


@click.command()
@click.argument("name", metavar="ASSIGNMENT")
@click.option("--out", metavar="FILE.zip", type=_FOLDER, default=Path("autograder.zip"),
              show_default=True)  # fmt: skip
@click.option("--wheels", metavar="DIR", type=_FOLDER,
              help="NumPy's wheels.  [default: downloaded with pip]")  # fmt: skip
@click.option("--python", "pythons", metavar="X.Y", multiple=True, default=("3.11", "3.12"),
              show_default=True, help="Versions to download NumPy for.")  # fmt: skip
def gradescope(name, out, wheels, pythons):
    """Make the autograder.zip to upload to Gradescope.

    It holds this package, the assignment and NumPy's wheels, and needs no download there but, if
    it can be had, bubblewrap.
    """
    from ..course.build.assignment import find_assignment
    from ..course.report.autograder import write_autograder

    made = find_assignment(name)
    held = write_autograder(made, out, wheels, pythons)
    click.echo(f"{out}: {out.stat().st_size / 1e6:.1f} MB, {made.points} points")
    for wheel in held:
        click.echo(f"  {wheel}")
