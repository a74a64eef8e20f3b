"""Synchronizations between host and device (sync): count or forbid them.

The strict device reports every synchronization here: `float(x)`, `bool(x)`, `x.item()`, `x.get()`,
iteration, and results whose size depends on values (`x[mask]`, `nonzero`, `unique`).
"""

from contextlib import contextmanager

from minitorch_attn.backend.graph_capture import refuse
from minitorch_attn.errors import DeviceError

__all__ = [
    "StrictError", "forbid_sync", "record_sync", "record_transfer", "sync_count", "transfer_count",
]  # fmt: skip


class StrictError(DeviceError, TypeError):
    """Raised for an operation that a real GPU would reject or run at a hidden cost."""


class _Counters:
    """Numbers of synchronizations, of transfers, and of active `forbid_sync` blocks."""

    syncs = 0
    transfers = 0
    forbidden = 0


def sync_count():
    """Return the number of synchronizations of the strict device since the program started."""
    return _Counters.syncs


def transfer_count():
    """Return the number of copies from the host to the strict device since the program started."""
    return _Counters.transfers


@contextmanager
def forbid_sync():
    """Forbid synchronization: raise an error where the host would wait for the device.

    Examples
    --------
    >>> from minitorch_attn.backend import from_host
    >>> import numpy as np
    >>> x = from_host(np.ones(3), "strict")
    >>> with forbid_sync():
    ...     y = x.sum()
    >>> float(y)
    3.0
    """
    _Counters.forbidden += 1
    try:
        yield
    finally:
        _Counters.forbidden -= 1


def record_sync(what):
    """Count one synchronization, or raise StrictError inside `forbid_sync`."""
    refuse(f"makes the host wait ({what})")
    if _Counters.forbidden:
        raise StrictError(
            f"{what} makes the host wait for the device",
            got=f"{what} inside forbid_sync()",
            expected="work that stays on the device",
            hint="keep the value in a 0-d array, or read it after the step",
        )
    _Counters.syncs += 1


def record_transfer():
    """Count one copy from the host to the device."""
    _Counters.transfers += 1
