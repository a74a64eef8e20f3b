"""Notebooks from lessons, by Jupytext, and their execution from top to bottom, by nbclient."""

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import MiniTorchError
from ..files import atomic_file
from .running import environment

__all__ = ["Failure", "MissingPackage", "execute", "notebook", "write_notebook"]

_QUIET = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # else the debugger of ipykernel speaks up
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


class MissingPackage(MiniTorchError):
    """A package of the extra `lessons` is not installed."""


@dataclass
class Failure:
    """A cell that stopped a notebook.

    Parameters
    ----------
    line : int
        Of the lesson's file, on which the cell begins.
    message : str
        The last line of the traceback.
    traceback : str
    """

    line: int
    message: str
    traceback: str


def notebook(lesson):
    """A lesson as a notebook without outputs.

    Parameters
    ----------
    lesson : Lesson

    Returns
    -------
    nbformat.NotebookNode
        The same for the same lesson, to the byte.
    """
    jupytext = _import("jupytext")
    made = jupytext.reads(lesson.path.read_text(encoding="utf-8"), fmt="py:percent")
    made.metadata = {"kernelspec": dict(_KERNEL), "language_info": {"name": "python"}}
    made.nbformat, made.nbformat_minor = 4, 5
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number:03d}"
        cell["source"] = cell["source"].strip("\n")
    return made


def write_notebook(made, path):
    """Write a notebook, whole or not at all.

    Parameters
    ----------
    made : nbformat.NotebookNode
    path : str or path
        Its folders are made.
    """
    text = _import("nbformat").writes(made)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.write((text.rstrip("\n") + "\n").encode())


def execute(made, lesson, folder, fast=None, timeout=600):
    """Run a notebook from its first cell to its last; the outputs are put into it.

    Parameters
    ----------
    made : nbformat.NotebookNode
    lesson : Lesson
    folder : str or path
        The working folder of its cells.
    fast : bool, optional
        As for `environment`.
    timeout : float, default 600
        Seconds for one cell.

    Returns
    -------
    Failure or None
    """
    nbclient = _import("nbclient")
    _import("ipykernel")
    client = nbclient.NotebookClient(
        made,
        kernel_manager_class=_kernel_class(),
        extra_arguments=["--IPKernelApp.log_level=40"],  # errors only
        timeout=timeout,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute(env={**environment(fast), **_QUIET})
    except nbclient.exceptions.CellExecutionError as error:
        return _failure(made, lesson, f"{error.ename}: {error.evalue}")
    except nbclient.exceptions.CellTimeoutError:
        return _failure(made, lesson, f"a cell took more than {timeout:g} s")
    except nbclient.exceptions.DeadKernelError:
        return _failure(made, lesson, "the process has died")
    return None


def _kernel_class():
    """A kernel of this Python, whatever a user has installed under the name python3."""
    from traitlets import default

    manager = _import("jupyter_client.manager").AsyncKernelManager
    specs = _import("jupyter_client.kernelspec").KernelSpecManager

    class OwnKernel(manager):
        @default("kernel_spec_manager")
        def _own_specs(self):
            return specs(kernel_dirs=[])

    return OwnKernel


def _failure(made, lesson, message):
    """The failure in the last code cell that was begun."""
    begun = [i for i, cell in enumerate(made.cells) if cell.get("execution_count")]
    index = begun[-1] if begun else 0
    outputs = made.cells[index].get("outputs", [])
    traceback = [line for output in outputs for line in output.get("traceback", [])]
    lines = [cell.line for cell in lesson.cells]
    line = lines[index] if index < len(lines) else 1
    return Failure(line, message, _COLOUR.sub("", "\n".join(traceback)))


def _import(name):
    """A module of the extra `lessons`."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"notebooks need {name.partition('.')[0]}.",
            got=str(error),
            hint="python -m pip install 'minitorch-attn[lessons]'",
        ) from None
