"""Notebooks from lessons: convert, write to a file, and execute with nbclient."""

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import MiniTorchError
from ..files import atomic_file
from .run_lesson import environment

__all__ = [
    "Failure", "MissingPackage", "assembled", "execute", "folded_text", "make_cell", "notebook",
    "own_path", "write_notebook",
]  # fmt: skip

_QUIET = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # silences a warning from ipykernel's debugger
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


class MissingPackage(MiniTorchError):
    """A package from the extra `lessons` is not installed."""


@dataclass
class Failure:
    """The cell at which a notebook failed, and the error.

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


def notebook(lesson, answers=False):
    """Convert a lesson to a notebook without outputs.

    The functions that the learner writes have no body. The hint is folded below the task, and
    the answer below the check. The code of checks and figures is folded, too.

    Parameters
    ----------
    lesson : Lesson
    answers : bool, default False
        Whether to fill in the answers, so that the whole notebook runs.

    Returns
    -------
    nbformat.NotebookNode
        The same, byte for byte, for equal lessons.
    """
    return assembled(_cells(lesson, answers))


def assembled(cells):
    """Make a notebook from cells, with numbered cell ids.

    Parameters
    ----------
    cells : iterable of nbformat.NotebookNode
        Cells made by `make_cell`.

    Returns
    -------
    nbformat.NotebookNode
    """
    made = _import("nbformat.v4").new_notebook()
    made.metadata = {"kernelspec": dict(_KERNEL), "language_info": {"name": "python"}}
    made.nbformat, made.nbformat_minor = 4, 5
    made.cells = list(cells)
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number:03d}"
    return made


def _cells(lesson, answers):
    """Yield the notebook cells of a lesson, with the answers filled in if `answers` is True."""
    turns = {turn.at: turn for turn in lesson.turns}
    kept = {}  # index of a cell -> text that replaces it
    # True if no cell calls `show`. Otherwise, `show` needs `__file__` to number the figures.
    numbered = not any("show(" in cell.text for cell in lesson.cells)
    for at, cell in enumerate(lesson.cells):
        tags = list(cell.tags)
        turn = turns.get(at)
        if turn is not None:
            task = f"## Your turn: {turn.title}\n\n{turn.task}\n\n"
            kept[at] = task + folded_text("Hint", turn.hint)
            if not answers:
                kept[at + 1] = turn.unanswered
        if "check" in tags and not answers:
            tags.append("raises-exception")  # the next cells run although the check fails
        if cell.kind == "code" and not numbered:
            yield make_cell(
                "code", f'__file__ = "{lesson.path.name}"  # numbers the figures', 1, folded=True
            )
            numbered = True
        text = kept.get(at, cell.text)
        if text.rpartition("\n")[2].startswith("mt.manual_seed("):
            text += ";"  # otherwise, the notebook shows the returned generator
        # The code of a check contains the answer, so the code is folded, but not its output.
        yield make_cell(cell.kind, text, cell.line, tags, not {"plot", "check"}.isdisjoint(tags))
        if at - 2 in turns and not answers:
            turn = turns[at - 2]
            answer = folded_text("Answer", f"```python\n{turn.answer}\n```")
            yield make_cell("markdown", answer, turn.line, ["answer"])


def make_cell(kind, text, line=None, tags=(), folded=False):
    """Make a cell.

    Parameters
    ----------
    kind : {"code", "markdown"}
    text : str
    line : int, optional
        Line number in the lesson's file, for the metadata.
    tags : iterable of str
    folded : bool
        Whether the cell's code is folded.

    Returns
    -------
    nbformat.NotebookNode
    """
    make = _import("nbformat.v4")
    metadata = {} if line is None else {"line": line}
    if tags:
        metadata["tags"] = list(tags)
    if folded:
        metadata["jupyter"] = {"source_hidden": True}
    new = make.new_code_cell if kind == "code" else make.new_markdown_cell
    return new(text, metadata=metadata)


def folded_text(summary, markdown):
    """Return a collapsed section: a click on the summary shows the Markdown."""
    return f"<details><summary>{summary}</summary>\n\n{markdown}\n\n</details>"


def own_path(lesson):
    """Return the path of the learner's notebook for a lesson, relative to the working directory."""
    return Path("runs", "lessons", lesson.number, f"{lesson.path.stem}.ipynb")


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


def execute(made, folder, fast=None, timeout=600):
    """Run a notebook from its first cell to its last, and store the outputs in it.

    Parameters
    ----------
    made : nbformat.NotebookNode
        Notebook to run. It is modified in place.
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
        return _failure(made, f"{error.ename}: {error.evalue}")
    except nbclient.exceptions.CellTimeoutError:
        return _failure(made, f"a cell took more than {timeout:g} s")
    except nbclient.exceptions.DeadKernelError:
        return _failure(made, "the kernel of the notebook died")
    return None


def _kernel_class():
    """Make a kernel manager class that runs the current Python.

    An installed kernel with the name python3 may run another Python, so the class ignores all
    installed kernels.
    """
    from traitlets import default

    manager = _import("jupyter_client.manager").AsyncKernelManager
    specs = _import("jupyter_client.kernelspec").KernelSpecManager

    class OwnKernel(manager):
        @default("kernel_spec_manager")
        def _own_specs(self):
            return specs(kernel_dirs=[])

    return OwnKernel


def _failure(made, message):
    """Return a Failure for the last code cell that was started."""
    begun = [i for i, cell in enumerate(made.cells) if cell.get("execution_count")]
    index = begun[-1] if begun else 0
    outputs = made.cells[index].get("outputs", [])
    traceback = [line for output in outputs for line in output.get("traceback", [])]
    line = made.cells[index].metadata.get("line", 1)
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
