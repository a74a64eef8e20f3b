"""`mta course list`, `build`, `release` and `verify`: build assignments from the library."""

import json
import shutil
import tempfile
from pathlib import Path

import click

from . import DONE, FAILED
from .console import command, console, table
from .source_line import Group

__all__ = ["course"]

_NAME = click.argument("name", metavar="ASSIGNMENT")


@click.group(cls=Group, calls="grader/")
def course():
    """Build, verify, release and grade assignments for a class.

    ASSIGNMENT is a name from `mta course list`, or the path of a folder with an assignment.toml.
    """


@course.command("list", calls="grader/build/assignment.py")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json):
    """List the assignments."""
    from ..grader.build.assignment import assignment_folder, assignments

    known = assignments()
    if as_json:
        click.echo(json.dumps([_fields(made) for made in known], indent=1))
        return
    rows = [(made.name, f"{made.points} points", made.title) for made in known]
    console().print(table(rows))
    if known:
        following = command("course", "release", known[0].name)
        console().print(f"\nto make the student files: {following}")
        console().print(f"their folders are in {assignment_folder()}")


@course.command(calls="grader/build/package.py")
@_NAME
@click.option(
    "--out", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Folder to create."
)
def build(name, out):
    """Build the package of an assignment.

    The package is the library without the solution; each submission completes it. `mta course
    grade` builds it automatically; use this command to look at it.
    """
    from ..grader.build.assignment import find_assignment
    from ..grader.build.package import write_package

    _refuse_full(out)
    made = find_assignment(name)
    write_package(made, out, stripped=True)
    click.echo(f"{out / 'minitorch_attn'}: {len(made.blanks) + len(made.groups)} bodies removed")


@course.command(calls="grader/build/release.py")
@_NAME
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path),
    help="Parent of the folder ASSIGNMENT and of ASSIGNMENT.zip.  [default: releases]",
)  # fmt: skip
@click.option("--seed", default=7, show_default=True, help="Seed of the public checks' inputs.")
def release(name, out, seed):
    """Write an assignment's folder and zip archive for students.

    Both contain a notebook. If a line of the solution is found in them, nothing is released.
    """
    from ..grader.build.assignment import find_assignment
    from ..grader.build.leaks import leaks
    from ..grader.build.release import write_release, write_zip

    made, out = find_assignment(name), out or Path("releases")
    folder = out / made.name
    _refuse_full(folder)
    out.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=out, prefix=".release-"))
    try:
        for note in write_release(made, draft / made.name, seed):
            click.echo(f"left out: {note}", err=True)
        if found := leaks(made, draft / made.name):
            for line in found:
                click.echo(line, err=True)
            click.echo("nothing was released: the lines above are from the solution", err=True)
            return FAILED
        write_zip(draft / made.name, draft / "release.zip")
        if folder.exists():
            folder.rmdir()  # the folder is empty
        (draft / made.name).rename(folder)
        (draft / "release.zip").replace(out / f"{made.name}.zip")
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    click.echo(f"{folder}: {len(made.blanks)} functions to write, {made.points} points")
    click.echo(f"{out / made.name}.zip")
    return DONE


@course.command(calls="grader/build/verify.py")
@click.argument("names", metavar="[ASSIGNMENT]...", nargs=-1)
@click.option("--level", type=click.IntRange(1, 3), help="Sandbox level.  [default: the highest]")
@click.option("--seed", default=20_240, show_default=True, help="Seed of the checks' inputs.")
@click.option(
    "--reward/--no-reward", default=True, help="Also run the program that trains a model."
)
@click.option(
    "-j",
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Number of assignments to verify at a time.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(names, level, seed, reward, jobs, as_json):
    """Verify assignments, all by default.

    The solution must pass every check, and the starter must fail every check. A submission with a
    planted bug, or with a workaround that avoids the work, must fail exactly the checks that the
    assignment lists for it. The release must not contain a line of the solution. Its public checks
    must run, and so must reward.py, which uses the solution in a larger program. The exit status is
    1 if one of these conditions does not hold.
    """
    from ..grader.build.assignment import assignments, find_assignment
    from ..grader.build.verify import verify_several

    out, results = console(), []
    several = [find_assignment(name) for name in names] if names else assignments()
    for made, proofs in verify_several(several, jobs, level=level, seed=seed, reward=reward):
        if not as_json:
            out.print(f"{made.name}: {made.title}, {made.points} points", markup=False)
        for proof in proofs:
            results.append({"assignment": made.name, "holds": proof.holds, **vars(proof)})
            if not as_json:
                _show(out, proof)
    wrong = sum(not result["holds"] for result in results)
    if as_json:
        click.echo(json.dumps(results, indent=1))
    else:
        out.print(f"{len(results) - wrong} of {len(results)} conditions hold")
    return FAILED if wrong else DONE


def _show(out, proof):
    """Print one line for each verification, with the reason if it failed."""
    mark = "holds" if proof.holds else "FAILS"
    line = f"  {mark}  {proof.what:<58} {proof.points:>10} {proof.seconds:6.1f} s"
    out.print(line, markup=False, highlight=False, soft_wrap=True)
    for text in proof.found.splitlines():
        out.print(f"         {text}", markup=False, highlight=False, soft_wrap=True)


def _refuse_full(folder):
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.UsageError(f"{folder} already exists: choose another --out, or remove it")


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
