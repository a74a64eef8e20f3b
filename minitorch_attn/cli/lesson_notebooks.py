"""`mta lesson open` and `mta lesson notebooks`: convert lessons to notebooks, and open them."""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from ..course.exercises.work import near
from ..course.lesson_list import find_lesson, lessons
from ..course.run_lesson import environment
from . import DONE, FAILED
from .console import console
from .source_line import Command

__all__ = ["notebooks", "open_", "own_copy", "view"]

_ANSWERS = click.option("--answers", is_flag=True, help='Fill in the functions of "Your turn".')
_VIEWERS = (("jupyter-lab", "jupyter-lab"), ("jupyter-notebook", "jupyter-notebook"))


@click.command("open", cls=Command, calls="course/notebooks.py",
               short_help="Open your copy of a lesson as a notebook.")  # fmt: skip
@click.argument("number", metavar="NN")
@click.option("--fresh", is_flag=True, help="Start over; the existing notebook is renamed.")
@_ANSWERS
@click.option("--no-viewer", is_flag=True, help="Make the notebook without opening it.")
def open_(number, fresh, answers, no_viewer):
    """Open your copy of a lesson as a notebook, in JupyterLab or Jupyter Notebook.

    The notebook is in runs/lessons/NN. Your changes are kept. Below each function that you write, a
    cell checks the function and shows what is wrong.
    """
    from ..course.notebooks import notebook, own_path

    item, out = find_lesson(number), console()
    path = own_path(item)
    own_copy(path, lambda: notebook(item, answers), out, fresh)
    return DONE if no_viewer else view(path, out)


def own_copy(path, make, out, fresh=False):
    """Write the learner's notebook unless it exists, and print its path.

    Parameters
    ----------
    path : Path
    make : callable
        Returns the notebook.
    out : rich.console.Console
    fresh : bool, default False
        Whether to rename an existing notebook and write a new one.

    Returns
    -------
    bool
        Whether a notebook was written.
    """
    from ..course.notebooks import write_notebook

    if fresh and path.exists():
        aside = path.with_name(f"{path.stem}.{time.strftime('%Y%m%d-%H%M%S')}.ipynb")
        path.rename(aside)
        out.print(f"kept    {near(aside)}")
    if path.exists():
        out.print(f"yours   {near(path)}")
        return False
    write_notebook(make(), path)
    out.print(f"made    {near(path)}")
    return True


def view(path, out):
    """Open a notebook in the first viewer that is installed."""
    beside = os.path.dirname(sys.executable)
    for name, program in _VIEWERS:
        found = shutil.which(program, path=beside) or shutil.which(program)
        if found:
            out.print(f"opening it with {name}; press Ctrl-C to stop")
            settings = environment(windows=True)
            return subprocess.run([found, str(path)], env=settings, check=False).returncode
    out.print(
        "JupyterLab is not installed. Open the file in an editor that shows notebooks, or run\n"
        "  python -m pip install 'minitorch-attn[notebooks]'"
    )
    return DONE


@click.command(cls=Command, calls="course/notebooks.py")
@click.argument("numbers", metavar="[NN]...", nargs=-1)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False),
    default=os.path.join("runs", "notebooks"),
    show_default=True,
    help="Folder of the notebooks; existing notebooks are replaced.",
)
@click.option(
    "--only",
    metavar="NN",
    multiple=True,
    help="Lesson to convert, in addition to the NN arguments; can be repeated.",
)
@click.option("--execute", is_flag=True, help="Run each notebook and keep the outputs.")
@_ANSWERS
@click.option("--fast/--full", default=None, help="Use small sizes.  [default: MTA_FAST]")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True,
              help="Number of notebooks to run at the same time.")  # fmt: skip
def notebooks(numbers, folder, only, execute, answers, fast, jobs):
    """Convert lessons to notebooks: those with the numbers NN, or all.

    Requires the extra `lessons`: python -m pip install 'minitorch-attn[lessons]'.
    """
    out, folder = console(), Path(folder)
    chosen = [find_lesson(number) for number in (*numbers, *only)] or lessons()
    started = time.perf_counter()

    def make(item):
        return _make(item, folder, execute, answers, fast)

    failed = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for item, (path, seconds, failure) in zip(chosen, pool.map(make, chosen), strict=True):
            took = f"  {seconds:5.1f} s" if execute else ""
            out.print(f"{'failed' if failure else 'made':<6}  {path}{took}")
            if failure:
                failed.append(item.number)
                out.print(f"  {item.path}:{failure.line}  {failure.message}\n{failure.traceback}")
    total = time.perf_counter() - started
    count = "1 notebook" if len(chosen) == 1 else f"{len(chosen)} notebooks"
    out.print(f"\n{count} in {folder}, {total:.0f} s")
    if failed:
        out.print(f"lessons stopped by an error: {' '.join(failed)}")
    return FAILED if failed else DONE


def _make(item, folder, execute, answers, fast):
    """Create one notebook. Return its path, the time in seconds, and the Failure, if any."""
    from ..course import notebooks as course

    path, started, failure = folder / f"{item.path.stem}.ipynb", time.perf_counter(), None
    made = course.notebook(item, answers)
    if execute:
        folder.mkdir(parents=True, exist_ok=True)
        failure = course.execute(made, folder.resolve(), fast)
    course.write_notebook(made, path)
    return path, time.perf_counter() - started, failure
