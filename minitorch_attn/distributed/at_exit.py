"""Exit of a rank: an exception aborts all ranks, and a clean exit closes MPI.

If only one rank ended, the others would wait for its messages forever. Therefore, a rank that ends
with an uncaught exception, or with `sys.exit` and a nonzero status, calls the engine's `abort`.
With MPI, this calls `Abort`, which tells `mpiexec` to kill all ranks. If another program kills a
rank, this module need not do anything: `mpiexec` and `srun` kill the other ranks when one rank ends
without closing MPI.
"""

import atexit
import os
import sys
import time
import traceback

__all__ = ["install"]

_PASS_ON = 0.5  # seconds for mpiexec to forward printed text, which an abort discards

_installed = {}  # what `install` stores: its arguments, the process id, the exit status, ...


def install(label, abort, close):
    """Install the exit handlers of this process, once.

    Parameters
    ----------
    label : str
        Name of this process, such as "rank 2 of 4", printed before each line of a traceback.
    abort : callable
        Function `abort(status)` that ends all ranks.
    close : callable
        Function to call at a clean exit.
    """
    first = not _installed
    _installed.update(pid=os.getpid(), label=label, abort=abort, close=close)
    if first:
        _installed.update(hook=sys.excepthook, exit=sys.exit, status=0)
        sys.excepthook, sys.exit = _print_and_abort, _exit
        atexit.register(_at_exit)


def _is_ours():
    """Return True in the process that joined the group, and False in its forked child processes."""
    return _installed["pid"] == os.getpid()


def _exit(status=None, /):
    """Exit as `sys.exit` does, and store the exit status for `_at_exit`.

    Python does not pass the exit status to `atexit` handlers. This function replaces `sys.exit`,
    which Click and argparse also call.
    """
    _installed["status"] = status
    raise SystemExit(status)


def _print_and_abort(kind, error, trace):
    if not _is_ours():
        return _installed["hook"](kind, error, trace)
    lines = "".join(traceback.format_exception(kind, error, trace)).splitlines()
    label = _installed["label"]
    # One write, so that the lines of several ranks do not mix.
    sys.stderr.write("".join([f"[{label}] {line}\n" for line in lines]))
    return _abort(1)


def _abort(status):
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    time.sleep(_PASS_ON)
    _installed["abort"](status)


def _at_exit():
    if not _is_ours():
        return
    status = _installed["status"]
    if status in (None, 0):
        _installed["close"]()
        return
    if not isinstance(status, int):
        sys.stderr.write(f"[{_installed['label']}] {status}\n")
    _abort(status if isinstance(status, int) else 1)
