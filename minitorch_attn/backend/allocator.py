"""Keeping freed memory in the process, so that large arrays cost no page faults.

glibc gives the memory of a large array back to the operating system when the array is freed, and
the next array of that size takes a page fault for every 4 KiB. On a chain of elementwise
operations on 12 MB arrays, keeping the memory more than halves the time.
"""

import ctypes
import os

__all__ = ["keep_memory"]

# mallopt parameters of glibc, from malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def keep_memory():
    """Tell the C library to keep freed memory for the next array.

    The setting holds for the whole process, all its libraries included, and cannot be read back
    or undone: freed memory stays with the process up to its largest use so far. The commands of
    this project call it; a program that uses the library decides for itself. The environment
    variable `MINITORCH_KEEP_MEMORY=0` turns the call into nothing.

    Returns
    -------
    bool
        Whether the setting was made. False where the C library is not glibc.
    """
    if os.environ.get("MINITORCH_KEEP_MEMORY") == "0" or not _is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = ((_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20))
    outcomes = [mallopt(parameter, value) for parameter, value in settings]
    return all(outcome == 1 for outcome in outcomes)


def _is_glibc():
    """Tell whether the C library of this process is glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        return False
