"""Range checks on a device, read when the host next waits for it anyway.

Reading the outcome of a check from a GPU makes the host wait, which a training step should never
do. So each check leaves its worst value in a slot of one small buffer on the device, by a running
maximum, and the next copy from that device to the host reads the buffer too and raises there.
"""

from minitorch_attn.backend.devices import (
    array_module,
    device_of,
    platform_of,
    with_every_read,
)

__all__ = ["note_worst"]

SLOTS = 64
_boards = {}  # device -> _Board


class _Board:
    """The worst values seen on one device, one slot for each kind of check."""

    def __init__(self, xp):
        self.worst = xp.zeros(SLOTS, dtype="uint64")
        self.slots = {}  # kind -> slot
        self.pending = False  # a check ran since the buffer was last read


def note_worst(kind, worst):
    """Remember the worst value of a check until the host next reads from that device.

    Parameters
    ----------
    kind : hashable, callable
        Checks of one kind share a slot. `kind(worst)` gives the exception to raise, or None if
        `worst` is in range.
    worst : 0-d uint64 array on a device
        The larger, the worse.
    """
    device, xp = device_of(worst), array_module(worst)
    board = _boards.get(device)
    if board is None:
        board = _boards[device] = _Board(xp)
    if kind not in board.slots:
        if len(board.slots) == SLOTS:
            raise_pending(device, platform_of(worst))
            board.worst[...] = 0
            board.slots.clear()
        board.slots[kind] = len(board.slots)
    slot = board.slots[kind]
    here = board.worst[slot : slot + 1]
    xp.maximum(here, worst, out=here)
    board.pending = True


def raise_pending(device, platform):
    """Raise the error of a check that failed on `device` since the last reading.

    Parameters
    ----------
    device : Device
    platform : Platform
        Of the device.
    """
    board = _boards.get(device)
    if board is None or not board.pending:
        return
    board.pending = False
    worst = platform.to_host(board.worst)
    for kind, slot in board.slots.items():
        error = kind(int(worst[slot]))
        if error is not None:
            board.worst[...] = 0
            raise error


with_every_read(raise_pending)
