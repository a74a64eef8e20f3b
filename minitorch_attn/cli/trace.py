"""`mta trace`: run a script, record every operation, and write a page for stepping through it."""

import runpy
import sys
import traceback
from pathlib import Path

import click

from . import DONE, FAILED, INTERRUPTED
from .console import console
from .source_line import Command

__all__ = ["trace"]

_PAGE = "trace.html"


@click.command(
    cls=Command, calls="tracing/record.py", context_settings={"allow_interspersed_args": False}
)
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help=f"Page to write.  [default: {_PAGE}]"
)
@click.option("--table", is_flag=True, help="Print a table; write the page only with -o.")
@click.option("--expand", is_flag=True, help="Show the steps inside fused operations.")
@click.option(
    "--lines",
    is_flag=True,
    help="Record lines of FILE that compute NumPy arrays, instead of operations.",
)
@click.option(
    "--max-steps",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="Maximum number of steps to record; further steps are only counted.",
)
def trace(file, arguments, output, table, expand, lines, max_steps):
    """Run FILE and record every operation, forward and backward.

    Put the options of this command before FILE. Everything after FILE is passed to the script. If
    the script fails, its error is shown, and the page contains the steps before the error.

    With --lines, FILE need not use this package: the page shows each line of FILE that computes a
    NumPy array, with the arrays that the line reads and creates.
    """
    from ..tracing import LineRecording, Recording

    options = {"max_steps": max_steps, "title": Path(file).name}
    recording = LineRecording([file], **options) if lines else Recording(expand, **options)
    code = _run(file, arguments, recording)
    if not recording.steps:
        click.echo(f"{file} did not run an operation that can be recorded", err=True)
        return code or FAILED
    out = console()
    if table:
        click.echo(recording.table(colour=out.is_terminal and not out.no_color))
    if output or not table:
        path = Path(output or _PAGE)
        recording.save_html(path)
        count = len(recording.steps)
        steps = "1 step" if count == 1 else f"{count:,} steps"
        click.echo(f"{steps}: open {path} in a browser", err=table)
    if recording.message and not table:
        click.echo(f"note: {recording.message}", err=True)
    return code


def _run(file, arguments, recording):
    """Run the script as `python FILE ARGUMENTS` would, record it, and return its exit status."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).resolve().parent))
    try:
        with recording:
            runpy.run_path(file, run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or DONE
        click.echo(stop.code, err=True)
        return FAILED
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
        return INTERRUPTED
    except BaseException as error:
        click.echo(_own_part(error, file), err=True, nl=False)
        return FAILED
    finally:
        sys.argv, sys.path[:] = argv, path
    return DONE


def _own_part(error, file):
    """Format the traceback, beginning with the script's own frame."""
    found = traceback.TracebackException.from_exception(error)
    frames = [frame.filename for frame in found.stack]
    start = next((i for i, name in enumerate(frames) if Path(name) == Path(file)), 0)
    found.stack[:start] = []
    return "".join(found.format())
