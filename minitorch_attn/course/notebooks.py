"""Notebooks from lessons: convert with Jupytext, write to a file, and execute with nbclient."""

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import MiniTorchError
from ..files import atomic_file
from .run_lesson import environment

__all__ = ["Failure", "MissingPackage", "execute", "notebook", "write_notebook"]

_QUIET = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # silences a warning from ipykernel's debugger
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


class MissingPackage(MiniTorchError):
    """A package from the extra `lessons` is not installed."""


@dataclass
class Failure:
    """Failure of a notebook at one cell.

    Parameters
    ----------
    line : int
        Line number in the lesson's file where the cell starts.
    message : str
        Last line of the traceback.
    traceback : str
    """

    line: int
    message: str
    traceback: str


def notebook(lesson):
    """Convert a lesson to a notebook without outputs.

    Parameters
    ----------
    lesson : Lesson

    Returns
    -------
    nbformat.NotebookNode, byte for byte the same for equal lessons
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
    """Write a notebook atomically.

    Parameters
    ----------
    made : nbformat.NotebookNode
    path : str or path
        File to write. Missing folders are created.
    """
    text = _import("nbformat").writes(made)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.write((text.rstrip("\n") + "\n").encode())


def execute(made, lesson, folder, fast=None, timeout=600):
    """Run a notebook from its first cell to its last, and store the outputs in it.

    Parameters
    ----------
    made : nbformat.NotebookNode
        Notebook to run. It is modified in place.
    lesson : Lesson
    folder : str or path
        Working directory of the cells.
    fast : bool, optional
        Whether to use small sizes. Default: the value of MTA_FAST.
    timeout : float, default 600
        Time limit for one cell, in seconds.

    Returns
    -------
    Failure, or None if all cells ran
    """
    nbclient = _import("nbclient")
    _import("ipykernel")
    client = nbclient.NotebookClient(
        made,
        kernel_manager_class=_kernel_class(),
        extra_arguments=["--IPKernelApp.log_level=40"],  # show errors only
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
        return _failure(made, lesson, "the kernel of the notebook died")
    return None


def _kernel_class():
    """Make a kernel manager class for this Python, not for the user's kernel named python3."""
    from traitlets import default

    manager = _import("jupyter_client.manager").AsyncKernelManager
    specs = _import("jupyter_client.kernelspec").KernelSpecManager

    class OwnKernel(manager):
        @default("kernel_spec_manager")
        def _own_specs(self):
            return specs(kernel_dirs=[])

    return OwnKernel


def _failure(made, lesson, message):
    """Return the failure in the last code cell that was started."""
    begun = [i for i, cell in enumerate(made.cells) if cell.get("execution_count")]
    index = begun[-1] if begun else 0
    outputs = made.cells[index].get("outputs", [])
    traceback = [line for output in outputs for line in output.get("traceback", [])]
    lines = [cell.line for cell in lesson.cells]
    line = lines[index] if index < len(lines) else 1
    return Failure(line, message, _COLOUR.sub("", "\n".join(traceback)))


def _import(name):
    """Import a module that the package extra `lessons` installs."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"notebooks: the package {name.partition('.')[0]} is missing",
            got=str(error),
            hint="python -m pip install 'minitorch-attn[lessons]'",
        ) from None
