"""Counting what makes the host wait for a device, and forbidding it where it would cost.

The strict device reports every synchronisation here: `float(x)`, `bool(x)`, `x.item()`, `x.get()`,
iteration, and results whose size depends on values (`x[mask]`, `nonzero`, `unique`).
"""

from contextlib import contextmanager

from minitorch_attn.errors import DeviceError

__all__ = [
    "StrictError",
    "forbid_sync",
    "record_sync",
    "record_transfer",
    "sync_count",
    "transfer_count",
]


class StrictError(DeviceError, TypeError):
    """Something a real GPU would refuse, or do at a hidden price."""


class _Counters:
    """How often the host waited, how often data was sent, and whether waiting is forbidden."""

    syncs = 0
    transfers = 0
    forbidden = 0


def sync_count():
    """Return how many synchronisations the strict device has counted since the start."""
    return _Counters.syncs


def transfer_count():
    """Return how many copies from host to strict device have been counted since the start."""
    return _Counters.transfers


@contextmanager
def forbid_sync():
    """Raise at the line that would make the host wait for the device.

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
    """Count one synchronisation, or refuse it inside `forbid_sync`."""
    if _Counters.forbidden:
        raise StrictError(
            f"{what} makes the host wait for the device.",
            got=f"{what} inside forbid_sync()",
            expected="work that stays on the device",
            hint="keep the value in a 0-d array, or read it after the step",
        )
    _Counters.syncs += 1


def record_transfer():
    """Count one copy from the host to the device."""
    _Counters.transfers += 1
