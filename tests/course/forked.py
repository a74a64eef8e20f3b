"""Run the children of checks as forks of one process, which has imported the package already.

A child takes a few milliseconds instead of 0.3 s. It has a file, a folder and a session of its own,
as the children that `run_child` starts; `test_exercise_check.py` checks those themselves.
"""

import multiprocessing
import os
import signal
import sys
from importlib import import_module

from minitorch_attn.course.run_lesson import environment

CHILDREN = ["minitorch_attn.course.build.child", "minitorch_attn.course.exercises.child"]


def is_available():
    return "forkserver" in multiprocessing.get_all_start_methods()


def run_child(module, path, folder, seconds, columns=None):
    """Do what `exercises.check.run_child` does, in a fork."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(CHILDREN)
    process = context.Process(target=_child, args=(module, str(path), str(folder), columns))
    process.start()
    process.join(seconds)
    status = process.exitcode
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.join()
    process.close()
    return status


def _child(module, path, folder, columns):
    os.setsid()
    output = os.open(os.path.join(folder, "printed.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update({**environment(), "COLUMNS": str(columns or 96)})
    sys.argv = [module, path, folder]
    import_module(module).main(path, folder)
