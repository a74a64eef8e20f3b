"""`mta course seed` and `merge`: grade a large class in shards, on several machines."""

from itertools import islice
from pathlib import Path

import click

from . import DONE, USAGE
from .course_grade import finish, like_ctrl_c, shorten
from .source_line import Command

__all__ = ["merge", "seed"]

_FOLDER = click.Path(path_type=Path)
_SHOWN = 10  # names of students who are not graded, for each shard


@click.command(cls=Command, calls="grader/grade/run_file.py")
@click.argument("name", metavar="ASSIGNMENT")
@click.option("--out", required=True, metavar="FILE", type=_FOLDER, help="A new file.")
def seed(name, out):
    """Write a file with a new secret seed, for grading in shards.

    The check inputs are drawn from the seed. Copy the file to every machine, and pass it to each
    `mta course grade --shard K/N --seed-file FILE`. Only you have permission to read the file: with
    the seed, a student could prepare for the hidden checks.
    """
    from ..errors import ArgumentError
    from ..grader.build.assignment import find_assignment
    from ..grader.grade.run_file import write_seed_file

    made = find_assignment(name)
    try:
        write_seed_file(out, made.name, str(made.version))
    except ArgumentError as error:
        click.echo(f"error: {error}", err=True)
        return USAGE
    click.echo(f"seed for {made.name}: {out}")
    return DONE


@click.command(cls=Command, calls="grader/report/merge.py")
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=_FOLDER)
@click.option("--out", required=True, metavar="DIR", type=_FOLDER, help="Folder of the reports.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of a summary.")
def merge(folders, out, as_json):
    """Merge the results of several shards.

    The result is the same as if one run had graded the class. Each DIR is a folder that `mta course
    grade --shard K/N --out DIR` wrote. The shards must agree on the assignment, the grader, the
    seed, the roster and the list of submissions. If a shard is missing, the reports list its
    students as not graded. Merge again once it is available.

    Exit status: 0 on success; 2 if a folder is not a shard, is damaged or does not belong to the
    others (nothing is written then); 4 after an error in the grader, or if a submission is not
    graded; 130 if stopped.
    """
    from ..errors import ArgumentError, CheckpointError, DataError
    from ..grader.report.merge import merge_shards

    with like_ctrl_c():
        try:
            merged = merge_shards(folders, out)
        except (ArgumentError, CheckpointError, DataError) as error:
            click.echo(f"error: {error}", err=True)
            return USAGE
    for note in merged.notes:
        click.echo(f"note: {note}", err=True)
    for why, names in merged.waiting.items():
        some = ", ".join(shorten(name).rstrip() for name in islice(names, _SHOWN))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        click.echo(f"error: {why}: {some}{more}", err=True)
    return finish(merged, out, as_json)
