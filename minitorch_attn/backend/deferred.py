"""Deferred range checks on a device, evaluated when the host next waits for the device.

Reading the result of a check from a GPU makes the host wait, which a training step should never
do. So each check stores its worst value in a slot of one small buffer on the device, as a running
maximum. The next copy from that device to the host also reads the buffer, and raises the error.
"""

from minitorch_attn.backend.devices import array_module, device_of, platform_of, with_every_read

__all__ = ["note_worst"]

SLOTS = 64
_boards = {}  # device -> _Board


class _Board:
    """Buffer on one device for the worst values found so far, one slot per kind of check."""

    def __init__(self, xp):
        self.worst = xp.zeros(SLOTS, dtype="uint64")
        self.slots = {}  # kind -> slot
        self.pending = False  # a check ran since the buffer was last read


def note_worst(kind, worst):
    """Record the worst value of a check until the host next reads from that device.

    Parameters
    ----------
    kind : hashable, callable
        Kind of the check; checks of one kind share a slot. `kind(worst)` returns the exception to
        raise, or None if `worst` is in range.
    worst : 0-d uint64 array on a device
        Worst value; larger is worse.
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
    """If a check has failed on `device` since the last read, raise its error.

    Parameters
    ----------
    device : Device
    platform : Platform
        Platform of the device.
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
