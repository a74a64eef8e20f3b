"""Command-line app: define the command tree and map each error to an exit status."""

import contextlib
import logging
import os
import sys

import click

from .. import __version__
from ..errors import MiniTorchError
from . import DONE, FAILED, INTERRUPTED
from .attn import attn
from .build import build
from .console import program_name
from .course_build import course
from .course_grade import export, grade, gradescope, report, sample
from .course_merge import merge, seed
from .doctor import doctor
from .exercise import exercise
from .generate import generate
from .lesson import lesson
from .overview import overview
from .source_line import Group
from .summary import summary
from .trace import trace
from .train import tour, train

__all__ = ["mta", "run"]


@click.group(
    cls=Group, calls="cli/overview.py", invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
@click.version_option(__version__, prog_name="minitorch_attn")
@click.pass_context
def mta(context):
    """Commands to learn about, train and inspect attention models and transformers.

    Without a command, `mta` shows your progress, the commands and the next step.
    """
    if context.invoked_subcommand is None:
        overview()


for command in (
    attn, build, course, doctor, exercise, generate, lesson, summary, tour, trace, train,
):  # fmt: skip
    mta.add_command(command)
for command in (sample, seed, grade, merge, report, export, gradescope):
    course.add_command(command)


def run(arguments=None):
    """Run one command and turn its errors into a message and an exit status.

    Parameters
    ----------
    arguments : list of str, optional

    Returns
    -------
    int
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # hides the font cache message
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # some text cannot be encoded
    try:
        code = mta.main(arguments, prog_name=program_name(), standalone_mode=False)
        return code if isinstance(code, int) else DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return INTERRUPTED
    except MiniTorchError as error:
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        click.echo(f"error: {error}{notes}", err=True)
        return FAILED
    except MemoryError as error:
        click.echo(
            f"error: out of memory. {error}\n"
            "  try       use a smaller --batch, --context, --dim or --layers",
            err=True,
        )
        return FAILED
    except BrokenPipeError:  # the program that reads the output has exited, as in `mta ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        click.echo(f"error: {error}", err=True)
        return FAILED
