"""CUDA graphs: record what must change each time the kernel launches of a step are replayed.

A graph repeats the kernel launches of one step with their original arguments, and does not run
Python. Everything that changes from step to step is stored in a `Capture`. It stores numbers that a
kernel must read from device memory instead of its arguments, such as the learning rate and the
first counter of the dropout masks. It also stores actions of the host: for example, the optimizer
counts its updates. `mt.cuda.GraphedStep` writes the numbers and repeats the actions before each
replay. The functions of this module report to the recorder, a `Capture` or a `Rehearsal`. Without
a recorder, they do nothing.
"""

import threading
from contextlib import contextmanager

import numpy as np

from minitorch_attn.backend.kernel_table import with_kernel
from minitorch_attn.errors import DeviceError

__all__ = [
    "LENGTH", "Capture", "Rehearsal", "guard", "is_recording", "live_numbers", "live_random",
    "on_replay", "recorded_by", "refuse", "write_numbers",
]  # fmt: skip

LENGTH = 256  # numbers on the board; one argument of a launch passes all of them
_RANDOM = 2  # the first numbers on the board: seed and first counter


class _Thread(threading.local):
    recorder = None


_thread = _Thread()


@contextmanager
def recorded_by(recorder):
    """Let a Rehearsal or a Capture record what this thread does inside the `with` block."""
    _thread.recorder = recorder
    try:
        yield recorder
    finally:
        _thread.recorder = None


def is_recording():
    """Return True inside a step that a Rehearsal or a Capture records."""
    return _thread.recorder is not None


def refuse(what):
    """Report an action that a graph cannot repeat. `what` completes the phrase "the step ...".

    Raises
    ------
    DeviceError
        Inside a `Capture`. A `Rehearsal` only stores the text.
    """
    if _thread.recorder is not None:
        _thread.recorder.refuse(what)


def on_replay(action, undo):
    """Repeat an action of the host before each replay of the captured step.

    Parameters
    ----------
    action : callable
    undo : callable
        Function that reverts the action. It is called if the capture fails after the action has
        already been performed once.
    """
    if _thread.recorder is not None:
        _thread.recorder.on_replay(action, undo)


def guard(holds):
    """Allow replays of the captured step only while `holds()` is true.

    If `holds()` is false, the step must be captured again.
    """
    if _thread.recorder is not None:
        _thread.recorder.guards.append(holds)


def live_numbers(function, dtype="float64"):
    """Return a device array with the numbers of `function()`, or None outside a capture.

    The array is updated before each replay.

    Parameters
    ----------
    function : callable
        `function()` returns the numbers, in a list of constant length. Each replay calls it after
        the actions that were registered before it.
    dtype : {"float64", "int64"}

    Returns
    -------
    array, or None
        Array on the device. None means that the kernel must take the numbers as arguments, as
        usual.
    """
    if _thread.recorder is None:
        return None
    return _thread.recorder.live_numbers(function, dtype)


def live_random():
    """Return the first counter of the captured step's dropout masks, and an array for its replays.

    Returns
    -------
    (int, array of uint64 of shape (2,)) or None
        None if no step is being captured. The array is on the device, where the replays read the
        seed and the counter from it. Before each replay, both are set to their current values.
    """
    if _thread.recorder is None:
        return None
    return _thread.recorder.live_random()


class Rehearsal:
    """Recorder that finds out, while a step runs normally, whether a graph could repeat it.

    Attributes
    ----------
    refused : list of str
        Actions of the step that a graph cannot repeat.

    Examples
    --------
    >>> with recorded_by(Rehearsal()) as rehearsal:
    ...     refuse("reads a value")
    >>> rehearsal.refused
    ['reads a value']
    """

    def __init__(self):
        self.refused, self.guards = [], []

    def refuse(self, what):
        """Add `what`, an action that a graph cannot repeat, to `refused`."""
        self.refused.append(what)

    def on_replay(self, action, undo):
        """Do nothing: this step is not replayed."""

    def live_numbers(self, function, dtype):
        """Return None: in a rehearsal, the kernels take the numbers as arguments."""

    def live_random(self):
        """Return None, like `live_numbers`."""


class Capture:
    """Recorder for a step that is being captured as a CUDA graph.

    Parameters
    ----------
    board : float64 array of shape (LENGTH,) on the device
        Memory for the numbers that change with each replay.
    seed, first : int
        Random seed, and next counter value for the dropout masks.
    """

    def __init__(self, board, seed, first):
        self.board, self.first = board, first
        self.values = np.zeros(LENGTH)
        self.used = _RANDOM
        self.actions, self.undos, self.guards = [], [], []
        self.set_random(seed, first)

    def refuse(self, what):
        """Stop the capture."""
        raise DeviceError(f"a CUDA graph cannot repeat this step: the step {what}")

    def on_replay(self, action, undo):
        """Store an action, to be repeated before each replay."""
        self.actions.append(action)
        self.undos.append(undo)

    def live_numbers(self, function, dtype):
        """Reserve entries of `board` for the results of `function`, and return these entries."""
        numbers = function()
        start, self.used = self.used, self.used + len(numbers)
        if self.used > LENGTH:
            self.refuse(f"needs more than {LENGTH} numbers that change")
        here = self.values[start : self.used].view(dtype)
        here[:] = numbers

        def refresh():
            here[:] = function()

        self.actions.append(refresh)
        return self.board[start : self.used].view(dtype)

    def live_random(self):
        """Like the function `live_random`; the array is the first two entries of `board`."""
        return self.first, self.board[:_RANDOM].view("uint64")

    def set_random(self, seed, first):
        """Set the seed and the first counter for the dropout masks of the next replay."""
        self.values[:_RANDOM].view("uint64")[:] = seed % 2**64, first % 2**64

    def advance(self):
        """Repeat the stored actions and recompute the live numbers, before a replay."""
        for action in self.actions:
            action()

    def undo(self):
        """Revert the host actions that ran during the capture, the latest first."""
        for undo in reversed(self.undos):
            undo()

    def is_valid(self):
        """Return True if a replay would still have the same effect as the step."""
        return all(holds() for holds in self.guards)


@with_kernel
def write_numbers(board, values):
    """Copy the numbers of a Capture from the host to `board`, its array on the device."""
    board.set(values)
