"""`mta course grade`, `report`, `export`, `sample`, `gradescope`: grade a class, report grades."""

import contextlib
import json
import shutil
import signal
import sys
import threading
from pathlib import Path

import click

from ..errors import MiniTorchError
from . import DONE, INTERRUPTED, NO_SANDBOX, OWN_FAULT, USAGE
from .console import console, table
from .source_line import Command

__all__ = [
    "export", "finish", "grade", "gradescope", "like_ctrl_c", "report", "sample", "shorten",
]  # fmt: skip

_WEAK = """\
Sandbox level 1: each submission runs under your account, in a separate process with limits. This
protects against accidents. It does NOT prevent a submission from reading your files, using the
network or leaving programs running. For grades that count, use level 3 or 2: install bubblewrap,
or run as root in a container. With --require-sandbox 2, the command stops in this situation."""
_FOLDER = click.Path(path_type=Path)


class _ShardType(click.ParamType):
    name = "shard"

    def convert(self, value, param, ctx):
        from ..grader.grade.shard import Shard

        try:
            return Shard.parse(value)
        except MiniTorchError as error:
            self.fail(str(error), param, ctx)


@click.command(cls=Command, calls="grader/report/grading.py")
@click.argument("name", metavar="ASSIGNMENT")
@click.argument("submissions", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", required=True, metavar="DIR", type=_FOLDER, help="Folder of the reports.")
@click.option("-j", "--jobs", default=1, show_default=True, type=click.IntRange(1, 64),
              help="Number of submissions to grade at the same time.")  # fmt: skip
@click.option("--require-sandbox", "required", metavar="N", type=click.IntRange(1, 3), default=1,
              help="Lowest acceptable sandbox level; 3 is the safest.")  # fmt: skip
@click.option("--sandbox", "level", metavar="N", type=click.IntRange(1, 3),
              help="Sandbox level to use.  [default: the highest that works]")  # fmt: skip
@click.option("--forget-others", is_flag=True,
              help="Remove results of students who are not in SUBMISSIONS.")  # fmt: skip
@click.option("--roster", metavar="FILE", type=click.Path(path_type=Path, exists=True),
              help="Names of all students: one per line, or a CSV column `name`.")  # fmt: skip
@click.option("--seed-file", metavar="FILE", type=_FOLDER,
              help="File with the seed, from `mta course seed`.  [default: new seed]")  # fmt: skip
@click.option("--shard", metavar="K/N", type=_ShardType(),
              help="Part of the class to grade, such as 3/8; see `mta course merge`.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of progress.")
def grade(
    name, submissions, out, jobs, required, level, forget_others, roster, seed_file, shard, as_json
):  # fmt: skip
    """Grade the submissions of a class.

    SUBMISSIONS contains one folder or archive for each student. To continue after a stop, run the
    command again with the same DIR. It grades only submissions that are new or have changed, or all
    of them if the assignment or the grader has changed. The reports list every student with a
    result in DIR.

    Exit status: 0 on success; 2 for a usage error; 3 if the sandbox level is unavailable; 4 after
    an error in the grader, or if a submission is not graded; 130 if stopped. The reports are
    written even if the status is 4 or 130.
    """
    from ..errors import ArgumentError, DataError
    from ..grader.build.assignment import find_assignment
    from ..grader.build.task import task_of
    from ..grader.grade.run_file import read_seed_file
    from ..grader.grade.sandbox import Sandbox
    from ..grader.grade.sandbox_folders import new_folder
    from ..grader.report.grading import grade_and_report
    from ..grader.report.results import read_roster

    try:
        made = find_assignment(name)
        _refuse(submissions, out, shard, seed_file)
        names = read_roster(roster) if roster else ()
    except MiniTorchError as error:
        click.echo(f"error: {error}", err=True)
        return USAGE
    level = level or Sandbox.best()
    if not _safe_enough(level, required):
        return NO_SANDBOX
    with like_ctrl_c(), contextlib.ExitStack() as end:
        folder = new_folder()
        end.callback(shutil.rmtree, folder, ignore_errors=True)
        task = task_of(made, folder)
        try:
            run = None if seed_file is None else read_seed_file(seed_file, task)
            with _progress(as_json) as show:
                outcome = grade_and_report(
                    task, submissions, out, level=level, jobs=jobs, report=show,
                    forget=forget_others, roster=names, shard=shard, run=run,
                )  # fmt: skip
        except (ArgumentError, DataError) as error:
            click.echo(f"error: {error}", err=True)
            return USAGE
    return finish(outcome, out, as_json)


def _safe_enough(level, required):
    """Return whether the sandbox level is sufficient. Print the reason if not; warn at level 1."""
    from ..grader.grade.sandbox import Sandbox

    why = Sandbox(max(level, required)).works()
    if level < required:
        why = why or f"--sandbox {level} is below --require-sandbox {required}"
    if why is not None:
        click.echo(f"error: sandbox level {max(level, required)} is unavailable: {why}", err=True)
    elif level == 1:
        click.echo(_WEAK, err=True)
    return why is None


def _refuse(submissions, out, shard, seed_file):
    """Raise an error if the arguments are invalid, before anything is written."""
    from ..errors import ArgumentError
    from ..grader.grade.archive import submissions_in

    if not submissions_in(submissions):
        raise ArgumentError(
            "SUBMISSIONS does not contain a submission", got=str(submissions),
            expected="a folder or an archive for each student",
        )  # fmt: skip
    if shard is not None and seed_file is None:
        raise ArgumentError(
            "--shard requires --seed-file, as all shards must check the same inputs",
            hint="mta course seed ASSIGNMENT --out seed.json",
        )  # fmt: skip
    if out.resolve() == submissions.resolve() or submissions.resolve() in out.resolve().parents:
        raise ArgumentError(
            "--out must not be inside the folder of submissions", got=str(out),
            hint=f"--out {submissions.resolve().parent / 'results'}",
        )  # fmt: skip


@contextlib.contextmanager
def like_ctrl_c():
    """Treat SIGTERM and SIGHUP like Ctrl-C. A terminal sends SIGHUP when it is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), stop) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


@contextlib.contextmanager
def _progress(silent):
    """Yield a function to call after each graded submission, or None if `silent` is true.

    On a terminal, the function updates a progress bar; otherwise, it prints a line.
    """
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
    """Format the result of one submission as one line."""
    from ..grader.report.grades import number

    said = "" if document["status"] == "graded" else f"  {document['status']}"
    graded = document["status"] != "not graded"
    score = f"{number(document['score']) if graded else '-'}/{number(document['max_score'])}"
    count = f"{done:{len(str(total))}}/{total}"
    time = "    kept" if how == "kept" else f"{document['seconds']:6.1f} s"
    again = "  again" if how in ("changed", "others") else ""
    return f"{count}  {shorten(document['submission']['name'])}  {score:>7} {time}{again}{said}"


def shorten(text, width=32):
    """Cut or pad a name to a fixed width, and remove control characters."""
    from ..grader.grade.session import clean

    text = " ".join(clean(text).split())
    return (text if len(text) <= width else text[: width - 1] + "…").ljust(width)


def finish(outcome, out, as_json):
    """Print where the reports are, and return the exit status."""
    if outcome.results is not None and as_json:
        click.echo(json.dumps(outcome.results, indent=1))
    elif outcome.results is not None:
        click.echo("\n".join(_summary(outcome, out)))
    if outcome.failures:
        click.echo(f"error: the grader itself failed {len(outcome.failures)} times", err=True)
        lines = outcome.failures[0].strip().splitlines()
        begin = max((i for i, line in enumerate(lines) if line[:1].strip()), default=0)
        click.echo("\n".join(f"  {line}" for line in lines[begin:]), err=True)
        if (out / "grader-errors.txt").exists():
            click.echo(f"  all       {out / 'grader-errors.txt'}", err=True)
        return OWN_FAULT
    if outcome.stopped:
        click.echo("stopped; run the same command again to continue", err=True)
        return INTERRUPTED
    if outcome.results is not None and not outcome.results["complete"]:
        click.echo("error: not every submission is graded; see `mta course report`", err=True)
        return OWN_FAULT
    return DONE


def _summary(outcome, out):
    """Yield lines about the graded submissions, the results that were kept, and the reports."""
    results, how = outcome.results, outcome.how
    documents = results["submissions"]
    graded = sum(document["status"] != "not graded" for document in documents)
    missing = len(documents) - graded + len(results["not_graded"])
    before = graded - how["new"] - how["changed"] - how["others"]
    line = f"{graded} graded" + (f" ({before} of them in an earlier run)" if before > 0 else "")
    yield line + (f", {missing} not yet graded" if missing else "")
    if how["others"]:
        yield f"{how['others']} graded again because the assignment or the grader has changed"
    outdated = sum(document["outdated"] for document in documents)
    if outdated:
        yield f"{outdated} outdated because the checks have changed: grade all submissions again"
    if count := len(results["not_handed_in"]):
        yield f"{count} on the roster did not hand anything in"
    for entry in results["passed_over"]:
        yield f"not a submission: {shorten(entry['name']).rstrip()}: {entry['why']}"
    if outcome.forgotten:
        yield f"{len(outcome.forgotten)} removed because they are not among the submissions"
    broken = {text.partition(":")[0] for text in outcome.failures}
    written = [n for n in ("results.json", "grades.csv", "junit.xml") if n not in broken]
    yield f"{', '.join(written)}: {out}"
    yield f"for each student, results.json and feedback.html: {out / 'students'}"


@click.command(cls=Command, calls="grader/report/results.py")
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--all", "everything", is_flag=True, help="List all submissions to look at.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def report(folder, everything, as_json):
    """Show grades, the hardest checks and failures.

    DIR is the folder that `mta course grade` wrote with --out DIR.
    """
    from ..grader.report.results import read_results, statistics
    from ..grader.report.steps import beginnings

    results = read_results(folder)
    found = statistics(results)
    found["first_steps"] = beginnings(results)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    out = console()
    for text in _overview(results, found, everything):
        out.print(text)


def _overview(results, found, everything):
    """Yield the sections of the terminal report."""
    from ..grader.report.terminal import ROWS, distribution, failures, hardest, heading

    yield heading(results, found)
    if found["scores"]:
        yield "\nPoints\n"
        yield distribution(found["scores"], results["assignment"]["points"])
        yield "\nChecks, hardest first\n"
        yield table(hardest(found))
    if found["first_steps"]:
        yield "\nFirst difference: number of submissions, function, what differs\n"
        yield table(found["first_steps"])
    if rows := failures(results, None if everything else ROWS):
        yield "\nSubmissions to look at\n"
        yield table(rows)


@click.command(cls=Command, calls="grader/report/sample.py")
@click.argument("name", metavar="ASSIGNMENT")
@click.option("--out", required=True, metavar="DIR", type=_FOLDER, help="Folder to create.")
@click.option("--count", default=10, show_default=True, type=click.IntRange(1, 1000),
              help="Number of submissions.")  # fmt: skip
def sample(name, out, count):
    """Generate submissions to try out the grader.

    The submissions are those of an imaginary class. Some are correct, and some have the bugs that
    the assignment lists. One is the unchanged starter, one is empty and one attacks the grader.
    """
    from ..grader.build.assignment import find_assignment
    from ..grader.report.sample import sample_class

    console().print(table([(shorten(n, 20).rstrip(), kind) for n, kind in
                           sample_class(find_assignment(name), out, count)]))  # fmt: skip


_FORMATS = ("csv", "github", "junit", "nbgrader", "otter", "prairielearn")


@click.command(cls=Command, calls="grader/report/export.py")
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--format", "kind", required=True, type=click.Choice(_FORMATS))
@click.option("--out", metavar="PATH", type=_FOLDER, help="File or folder.  [default: inside DIR]")
def export(folder, kind, out):
    """Export results or tests for another tool.

    csv and junit write all grades to one file. prairielearn writes a results.json for each student.
    github writes a workflow that runs the grader. otter and nbgrader write the public checks.
    """
    from ..grader.report.export import write_export
    from ..grader.report.results import read_results

    click.echo(write_export(kind, read_results(folder), folder, out))


@click.command(cls=Command, calls="grader/report/autograder.py")
@click.argument("name", metavar="ASSIGNMENT")
@click.option("--out", metavar="FILE.zip", type=_FOLDER, default=Path("autograder.zip"),
              show_default=True, help="Archive to write.")  # fmt: skip
@click.option("--wheels", metavar="DIR", type=_FOLDER,
              help="Folder of NumPy wheels.  [default: downloaded with pip]")  # fmt: skip
@click.option("--python", "pythons", metavar="X.Y", multiple=True, default=("3.11", "3.12"),
              show_default=True, help="Python version to download NumPy for.")  # fmt: skip
def gradescope(name, out, wheels, pythons):
    """Create the file autograder.zip to upload to Gradescope.

    The file contains this package, the assignment, NumPy wheels and a setup script. On Gradescope,
    the script installs NumPy from the wheels. It downloads bubblewrap, Python and pip if they are
    missing, and nothing else.
    """
    from ..grader.build.assignment import find_assignment
    from ..grader.report.autograder import write_autograder

    made = find_assignment(name)
    held = write_autograder(made, out, wheels, pythons)
    click.echo(f"{out}: {out.stat().st_size / 1e6:.1f} MB, {made.points} points")
    for wheel in held:
        click.echo(f"  {wheel}")
