"""Time as it counts against a submission: what its process computes, or sleeps away.

A machine that is overloaded lets a process wait for a processor; the process is ready to go on and
uses nothing. Such waiting does not count, as far as `/proc` of this machine shows it and the
process is one thread without children: what it starts might compute in its place. All else does,
so a process that sleeps ends at its limit as one that computes. Time in which the grader itself
stood still, as a suspended machine does, counts little, and `PATIENCE` times the limit, on the wall
clock, is the end in any case. Without `/proc` it is the wall clock that counts.
"""

import os
import select
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PATIENCE", "Clock", "Watched", "children", "state", "watched"]

PATIENCE = 10  # times the limit of a check: how long a machine may take that is overloaded
_INTERVAL = 0.05  # seconds between two looks at the process
_LONGEST = 0.25  # of the time between them that counts: more means that nobody was running here
_READY = "RD"  # on a processor or waiting for one; waiting for a disk


@dataclass(frozen=True)
class Watched:
    """The process whose time is counted.

    Attributes
    ----------
    root : int
        The process that the grader has started.
    worker : int
        Itself, or below it the one that computes.
    tasks : int
        How many threads there are below `root` as long as the worker has started nothing.
    """

    root: int
    worker: int
    tasks: int


def watched(root):
    """What is below a process before anything that is not trusted runs there.

    Parameters
    ----------
    root : int

    Returns
    -------
    Watched
    """
    worker = root
    while below := children(worker):
        worker = below[0]
    return Watched(root, worker, _tasks(root))


class Clock:
    """The time of one question to a process.

    Parameters
    ----------
    seconds : float
        The limit.
    root : int
        The process that the grader has started.
    process : Watched, optional
        Without it the time of whatever is at the end below `root` is counted: at the start.

    Attributes
    ----------
    counted : float
        Seconds that count.
    starved : bool
        Whether the end was that of the wall clock: the process did not get to use its time.
    """

    def __init__(self, seconds, root, process=None):
        self.seconds, self.root, self.process = seconds, root, process
        self.counted, self.passed, self.starved = 0.0, 0.0, False
        self._last, self._used = time.monotonic(), self._look()[0]

    def wait(self, descriptor, writing=False):
        """Wait until a descriptor is ready.

        Raises
        ------
        TimeoutError
            If the time is over first.
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
        """Seconds of a processor so far, and whether waiting is the machine's fault."""
        process = self.process or watched(self.root)
        found = _stat(process.worker)
        if found is None:
            return 0.0, False
        letter, used = found
        return used, letter in _READY and _tasks(process.root) == process.tasks


def _stat(pid):
    """State and seconds of processor time of a process and the children it has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before may hold anything
    return fields[0], sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def state(pid):
    """The letter of what a process does, "Z" for one that is dead; None if it is gone.

    Parameters
    ----------
    pid : int

    Returns
    -------
    str or None
    """
    found = _stat(pid)
    return None if found is None else found[0]


def children(pid):
    """The processes that the threads of a process have started.

    Parameters
    ----------
    pid : int

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
    """How many threads a process and all below it have."""
    return len(_threads(pid)) + sum(map(_tasks, children(pid)))


def _threads(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
