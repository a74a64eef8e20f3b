"""Deferred range checks on a device, evaluated when the host next waits for the device.

A range check tests, for example, whether all token ids are smaller than the vocabulary size. To
read the result of a check from a GPU, the host would have to wait for the GPU, which a training
step should never do. So each check stores its worst value, such as the largest id, in a slot of one
small buffer on the device, as a running maximum. The next copy from that device to the host also
reads the buffer, and raises an error if a check has failed.
"""

from minitorch_attn.backend.devices import array_module, device_of, platform_of, with_every_read
from minitorch_attn.backend.graph_capture import on_replay
from minitorch_attn.backend.kernel_table import with_kernel

__all__ = ["note_largest", "note_worst", "store_largest"]

SLOTS = 64
_boards = {}  # device -> _Board


class _Board:
    """Buffer on one device with the running maximum of each kind of check, in one slot per kind."""

    def __init__(self, xp):
        self.worst = xp.zeros(SLOTS, dtype="uint64")
        self.slots = {}  # kind -> slot
        self.pending = False  # a check ran since the buffer was last read

    def note(self):
        """Record that a check has run."""
        self.pending = True


def _nothing():
    """Undo `_Board.note` by doing nothing: an unnecessary read of the board is harmless."""


def note_worst(kind, worst):
    """Update the running maximum of this kind of check with `worst`, on the device of `worst`.

    When the host next copies an array from this device, it also reads this maximum.

    Parameters
    ----------
    kind : hashable, callable
        Kind of the check. All checks of one kind share one worst value. `kind(worst)` returns the
        exception to raise, or None if `worst` is in range.
    worst : 0-d uint64 array on a device
        Worst value that the check has found. Larger values are worse.
    """
    here = _slot(kind, worst)
    array_module(worst).maximum(here, worst, out=here)


def note_largest(kind, index, lowest=0, allow=None):
    """Compute the maximum of `index - lowest`, and record it as `note_worst` does.

    The differences are read as unsigned integers. A negative one becomes a very large integer, so
    it fails the check, too.

    Parameters
    ----------
    kind : hashable, callable
        Kind of the check, as in `note_worst`.
    index : integer array on a device, with at least one element
    lowest : int
        Smallest valid index.
    allow : int, optional
        Index that is always valid, such as `ignore_index`. The check replaces it with `lowest`.
    """
    store_largest(index, lowest, allow, _slot(kind, index))


@with_kernel
def store_largest(index, lowest, allow, here):
    """Update the running maximum `here` in place. `note_largest` explains the other arguments."""
    xp = array_module(index)
    if allow is not None:
        index = xp.where(index == allow, lowest, index)
    shifted = index - lowest if lowest else index
    largest = shifted.view(f"u{index.dtype.itemsize}").max().astype("uint64")
    xp.maximum(here, largest, out=here)


def _slot(kind, array):
    """Return the entry of the device's buffer for this kind of check, as an array of shape (1,)."""
    device, xp = device_of(array), array_module(array)
    board = _boards.get(device)
    if board is None:
        board = _boards[device] = _Board(xp)
    if kind not in board.slots:
        if len(board.slots) == SLOTS:
            raise_pending(device, platform_of(array))
            board.worst[...] = 0
            board.slots.clear()
        board.slots[kind] = len(board.slots)
    board.pending = True
    on_replay(board.note, undo=_nothing)
    slot = board.slots[kind]
    return board.worst[slot : slot + 1]


def read_pending(device, platform):
    """Start reading the results of the checks that ran on `device` since the last read.

    Parameters
    ----------
    device : Device
    platform : Platform
        Platform of the device.

    Returns
    -------
    callable or None
        Function to call after the next wait for the device: it raises the error if a check has
        failed. None if no check ran.
    """
    board = _boards.get(device)
    if board is None or not board.pending:
        return None
    board.pending = False
    read = platform.start_reading(board.worst)

    def finish():
        worst = read()
        for kind, slot in board.slots.items():
            error = kind(int(worst[slot]))
            if error is not None:
                board.worst[...] = 0
                raise error

    return finish


def raise_pending(device, platform):
    """If a check has failed on `device` since the last read, raise its error."""
    finish = read_pending(device, platform)
    if finish is not None:
        platform.wait()
        finish()


with_every_read(read_pending)
