"""Run a lesson as a script in a separate process."""

import os
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["environment", "run_script"]


def environment(fast=None, windows=False):
    """Return environment variables for a process that runs a lesson.

    The process finds this package even if it is not installed.

    Parameters
    ----------
    fast : bool, optional
        Whether to use small sizes, for a quick check. Default: the value of MTA_FAST.
    windows : bool
        Whether Matplotlib chooses its own backend, which a notebook needs in order to show figures
        in the page. By default, the backend is Agg unless MPLBACKEND is already set, so figures do
        not open windows.

    Returns
    -------
    dict of str
    """
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    if not windows:
        found.setdefault("MPLBACKEND", "Agg")
    found.setdefault("PYTHONIOENCODING", "utf-8:replace")
    if fast is not None:
        found["MTA_FAST"] = "1" if fast else "0"
    return found


def run_script(lesson, fast=None, **options):
    """Run a lesson from its first line to its last.

    Parameters
    ----------
    lesson : Lesson
    fast : bool, optional
        Whether to use small sizes. Default: the value of MTA_FAST.
    **options
        Further arguments of `subprocess.run`, such as `timeout`. The output is not captured.

    Returns
    -------
    process : subprocess.CompletedProcess
    seconds : float
    """
    started = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-u", str(lesson.path)], env=environment(fast), check=False, **options
    )
    return process, time.perf_counter() - started
