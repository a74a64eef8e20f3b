"""Run a lesson as a script, in a process of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["environment", "run_script"]


def environment(fast=None):
    """The environment of a process in which a lesson runs.

    It finds this package also where that is not installed, and no figure opens a window.

    Parameters
    ----------
    fast : bool, optional
        Sizes for a check instead of those for a reader. By default as MTA_FAST says.

    Returns
    -------
    dict of str
    """
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
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
    **options
        More arguments of `subprocess.run`, such as `timeout`. Without them the output goes where
        that of this process goes.

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
