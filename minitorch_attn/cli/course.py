"""`mta course`: assignments made from the library: list, build, prove and release them."""

import json
import shutil
import tempfile
from pathlib import Path

import click

from . import DONE, FAILED
from .console import command, console, table

__all__ = ["course"]

_NAME = click.argument("name", metavar="ASSIGNMENT")


@click.group()
def course():
    """Assignments for a class: made from the library, proved, released, graded.

    ASSIGNMENT is the name of one of the list, or the path of a folder with an assignment.toml.
    """


@course.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_(as_json):
    """List the assignments."""
    from ..course.build.assignment import assignments

    known = assignments()
    if as_json:
        click.echo(json.dumps([_fields(made) for made in known], indent=1))
        return
    rows = [(made.name, f"{made.points} points", made.title) for made in known]
    console().print(table(rows))
    if known:
        following = command("course", "release", known[0].name)
        console().print(f"\none as its students get it: {following}")


@course.command()
@_NAME
@click.option(
    "--out", metavar="DIR", required=True, type=click.Path(path_type=Path), help="A new folder."
)
def build(name, out):
    """Make what a submission's process gets: the package without any answer.

    `mta course grade` does this by itself; here one can look at it.
    """
    from ..course.build.assignment import find_assignment
    from ..course.build.package import write_package

    _refuse_full(out)
    made = find_assignment(name)
    write_package(made, out, stripped=True)
    click.echo(f"{out / 'minitorch_attn'}: without {len(made.blanks) + len(made.groups)} bodies")


@course.command()
@_NAME
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path),
    help="Where the folder ASSIGNMENT and ASSIGNMENT.zip go.  [default: releases]",
)  # fmt: skip
@click.option("--seed", default=7, show_default=True, help="Of the public checks' inputs.")
def release(name, out, seed):
    """Write what students get: a folder and a zip archive, with a notebook in both.

    The release is searched for lines of the solution before it takes its place.
    """
    from ..course.build.assignment import find_assignment
    from ..course.build.leaks import leaks
    from ..course.build.release import write_release, write_zip

    made, out = find_assignment(name), out or Path("releases")
    folder = out / made.name
    _refuse_full(folder)
    out.mkdir(parents=True, exist_ok=True)
    room = Path(tempfile.mkdtemp(dir=out, prefix=".release-"))
    try:
        for note in write_release(made, room / made.name, seed):
            click.echo(f"left out: {note}", err=True)
        if found := leaks(made, room / made.name):
            for line in found:
                click.echo(line, err=True)
            click.echo("nothing was released: the lines above are of the solution.", err=True)
            return FAILED
        write_zip(room / made.name, room / "release.zip")
        if folder.exists():
            folder.rmdir()  # it is empty
        (room / made.name).rename(folder)
        (room / "release.zip").replace(out / f"{made.name}.zip")
    finally:
        shutil.rmtree(room, ignore_errors=True)
    click.echo(f"{folder}: {len(made.blanks)} functions to write, {made.points} points")
    click.echo(f"{out / made.name}.zip")
    return DONE


@course.command()
@click.argument("names", metavar="[ASSIGNMENT]...", nargs=-1)
@click.option("--level", type=click.IntRange(1, 3), help="Of the sandbox.  [default: the best]")
@click.option("--seed", default=20_240, show_default=True, help="Of the checks' inputs.")
@click.option("--reward/--no-reward", default=True, help="Also run what trains a model.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def verify(names, level, seed, reward, as_json):
    """Prove assignments, by default all.

    The solution passes every check and the starter none; each planted bug and each way round the
    work loses exactly what it has to; no line of a solution is in the release; the release's own
    checks and its reward run. Ends with 1 if something does not hold.
    """
    from ..course.build.assignment import assignments, find_assignment
    from ..course.build.verify import verify as prove

    out, results = console(), []
    for made in [find_assignment(name) for name in names] if names else assignments():
        if not as_json:
            out.print(f"{made.name}: {made.title}, {made.points} points", markup=False)
        for proof in prove(made, level, seed, reward):
            results.append({"assignment": made.name, "holds": proof.holds, **vars(proof)})
            if not as_json:
                _show(out, proof)
    wrong = sum(not result["holds"] for result in results)
    if as_json:
        click.echo(json.dumps(results, indent=1))
    else:
        out.print(f"{len(results) - wrong} of {len(results)} hold")
    return FAILED if wrong else DONE


def _show(out, proof):
    """A line for each proof, and why it fails."""
    mark = "holds" if proof.holds else "FAILS"
    line = f"  {mark}  {proof.what:<58} {proof.points:>10} {proof.seconds:6.1f} s"
    out.print(line, markup=False, highlight=False, soft_wrap=True)
    for text in proof.found.splitlines():
        out.print(f"         {text}", markup=False, highlight=False, soft_wrap=True)


def _refuse_full(folder):
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.UsageError(f"{folder} exists already: give another --out, or remove it")


def _fields(made):
    return {
        "name": made.name, "title": made.title, "version": made.version, "points": made.points,
        "lesson": made.lesson, "files": list(made.files), "folder": str(made.folder),
        "functions": [{"name": str(b.target), "points": b.points} for b in made.blanks],
        "checks": [
            {"name": e.name, "of": e.of, "points": e.points, "hidden": e.hidden}
            for e in made.checks
        ],
    }  # fmt: skip
