"""`mta trace`: run a script, record every operation, and write a page to step through it."""

import runpy
import sys
import traceback
from pathlib import Path

import click

from . import DONE, FAILED, INTERRUPTED
from .console import console

__all__ = ["trace"]

_PAGE = "trace.html"


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help=f"The page.  [default: {_PAGE}]"
)
@click.option("--table", is_flag=True, help="Print a table; the page is written with -o only.")
@click.option(
    "--expand", is_flag=True, help="Take apart layer norm, GELU and cross-entropy as well."
)
@click.option(
    "--max-steps",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="Steps after these are only counted.",
)
def trace(file, arguments, output, table, expand, max_steps):
    """Run FILE with its arguments and record every operation, forward and backward.

    Options of this command stand before FILE; what follows FILE belongs to the script. Where the
    script fails, its error is shown and what ran until then is written all the same.
    """
    from ..tracing import Recording

    recording = Recording(expand, max_steps=max_steps, title=Path(file).name)
    code = _run(file, arguments, recording)
    if not recording.steps:
        click.echo(f"{file} ran no operation that could be recorded.", err=True)
        return code or FAILED
    out = console()
    if table:
        click.echo(recording.table(colour=out.is_terminal and not out.no_color))
    if output or not table:
        path = Path(output or _PAGE)
        recording.save_html(path)
        click.echo(f"{len(recording.steps):,} steps: open {path} in a browser", err=table)
    if recording.message and not table:
        click.echo(f"note: {recording.message}.", err=True)
    return code


def _run(file, arguments, recording):
    """Run the script as `python FILE ARGUMENTS` would; the exit code that it asks for."""
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
        click.echo("stopped.", err=True)
        return INTERRUPTED
    except BaseException as error:
        click.echo(_own_part(error, file), err=True, nl=False)
        return FAILED
    finally:
        sys.argv, sys.path[:] = argv, path
    return DONE


def _own_part(error, file):
    """The traceback from the first line of the script on, without what runs it."""
    found = traceback.TracebackException.from_exception(error)
    frames = [frame.filename for frame in found.stack]
    start = next((i for i, name in enumerate(frames) if Path(name) == Path(file)), 0)
    found.stack[:start] = []
    return "".join(found.format())
