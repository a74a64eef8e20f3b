"""The tree of commands, and what becomes of an error."""

import contextlib
import logging
import os
import sys

import click

from .. import __version__
from ..backend.allocator import keep_memory
from ..errors import MiniTorchError
from . import DONE, FAILED, INTERRUPTED
from .attn import attn
from .console import program_name
from .course import course
from .course_grade import export, grade, gradescope, report, sample
from .doctor import doctor
from .exercise import exercise
from .generate import generate
from .lesson import lesson
from .overview import overview
from .summary import summary
from .trace import trace
from .train import tour, train

__all__ = ["mta", "run"]


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="minitorch_attn")
@click.pass_context
def mta(context):
    """Attention and transformers whose every forward and backward line can be read.

    Without a command: what there is, and what to do next.
    """
    if context.invoked_subcommand is None:
        overview()


mta.add_command(attn)
mta.add_command(course)
for graded in (sample, grade, report, export, gradescope):
    course.add_command(graded)
mta.add_command(doctor)
mta.add_command(exercise)
mta.add_command(lesson)
mta.add_command(tour)
mta.add_command(train)
mta.add_command(generate)
mta.add_command(summary)
mta.add_command(trace)


def run(arguments=None):
    """Run one command and turn its errors into a message and an exit code.

    Parameters
    ----------
    arguments : list of str, optional

    Returns
    -------
    int
    """
    keep_memory()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its first use builds a font cache
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # a sample may hold what a terminal cannot show
    try:
        code = mta.main(arguments, prog_name=program_name(), standalone_mode=False)
        return code if isinstance(code, int) else DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped.", err=True)
        return INTERRUPTED
    except MiniTorchError as error:
        click.echo(f"error: {error}", err=True)
        return FAILED
    except MemoryError as error:
        click.echo(
            f"error: there is not enough memory. {error}\n"
            "  try       smaller sizes: --batch, --context, --dim, --layers",
            err=True,
        )
        return FAILED
    except BrokenPipeError:  # the reader of our output has gone: `mta ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        click.echo(f"error: {error}", err=True)
        return FAILED
