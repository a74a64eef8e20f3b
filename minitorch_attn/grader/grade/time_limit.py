"""Time limit for a submission: count the time in which its process computes or sleeps.

On an overloaded machine, a process may be ready to run and still wait for a processor or a disk.
This waiting time does not count if `/proc` shows that the process is ready or waits for a disk, and
has a single thread and no children (which could compute while it waits). All other time counts, so
a sleeping process reaches its limit like a computing process. If the grader itself did not run, for
example because the machine was suspended, only a fraction of a second counts. The process is always
stopped when the wall-clock time exceeds `PATIENCE` times the limit. Without `/proc`, the wall-clock
time counts.
"""

import os
import select
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PATIENCE", "Clock", "Watched", "children", "state", "watched"]

PATIENCE = 10  # wall-clock limit on an overloaded machine, in multiples of the time limit
_INTERVAL = 0.05  # seconds between two checks of the process
_LONGEST = 0.25  # maximum seconds counted between two checks; in longer gaps the grader did not run
_READY = "RD"  # running or ready to run; waiting for a disk


@dataclass(frozen=True)
class Watched:
    """Process whose time a `Clock` measures.

    Attributes
    ----------
    root : int
        Id of the process that the grader started.
    worker : int
        Id of the process that runs the submission: `root` or a descendant.
    tasks : int
        Number of threads of `root` and its descendants, before the worker starts
        any threads of its own.
    """

    root: int
    worker: int
    tasks: int


def watched(root):
    """Find the process that will run the submission. Call this function before untrusted code runs.

    Parameters
    ----------
    root : int
        Id of the process that the grader started.

    Returns
    -------
    Watched
    """
    worker = root
    while below := children(worker):
        worker = below[0]
    return Watched(root, worker, _tasks(root))


class Clock:
    """Measure the time that a process takes to answer one request.

    Parameters
    ----------
    seconds : float
        Time limit in seconds.
    root : int
        Id of the process that the grader started.
    process : Watched, optional
        Process whose time is measured. By default, the descendant that `watched(root)` finds.

    Attributes
    ----------
    counted : float
        Measured time in seconds.
    starved : bool
        Whether `wait` ended at the wall-clock limit (`PATIENCE` times the time limit), while the
        measured time was still below the time limit.
    """

    def __init__(self, seconds, root, process=None):
        self.seconds, self.root, self.process = seconds, root, process
        self.counted, self.passed, self.starved = 0.0, 0.0, False
        self._last, self._used = time.monotonic(), self._look()[0]

    def wait(self, descriptor, writing=False):
        """Wait until a descriptor is ready for reading or, with `writing`, for writing.

        Raises
        ------
        TimeoutError
            If the time limit is exceeded.
        """
        descriptors = ([], [descriptor]) if writing else ([descriptor], [])
        while not any(select.select(*descriptors, [], _INTERVAL)):
            self._count()
            if self.counted >= self.seconds:
                raise TimeoutError
            if self.passed >= PATIENCE * self.seconds:
                self.starved = True
                raise TimeoutError

    def _count(self):
        now = time.monotonic()
        passed, self._last = min(now - self._last, _LONGEST), now
        used, excused = self._look()
        computed, self._used = used - self._used, used
        self.passed += passed
        self.counted += computed if excused else passed

    def _look(self):
        """Return the CPU time so far in seconds, and whether only CPU time counts at present."""
        process = self.process or watched(self.root)
        found = _stat(process.worker)
        if found is None:
            return 0.0, False
        letter, used = found
        return used, letter in _READY and _tasks(process.root) == process.tasks


def _stat(pid):
    """Return a process's state and its CPU time in seconds.

    The time includes child processes that have ended and that the process has waited for.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the process name can contain anything
    return fields[0], sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def state(pid):
    """Return the state letter of a process ("Z" for a zombie), or None if it does not exist.

    Parameters
    ----------
    pid : int
        Process id.

    Returns
    -------
    str or None
    """
    found = _stat(pid)
    return None if found is None else found[0]


def children(pid):
    """Find the child processes of a process.

    Parameters
    ----------
    pid : int
        Process id.

    Returns
    -------
    list of int
    """
    found = []
    for task in _threads(pid):
        try:
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        except OSError:
            continue
    return found


def _tasks(pid):
    """Count the threads of a process and its descendants."""
    return len(_threads(pid)) + sum(map(_tasks, children(pid)))


def _threads(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
