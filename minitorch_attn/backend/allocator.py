"""Memory allocator setting that keeps freed memory in the process, to avoid page faults.

glibc returns the memory of a large array to the operating system when the array is freed, and
the next array of that size causes a page fault for every 4 KiB. On a chain of elementwise
operations on 12 MB arrays, keeping the memory more than halves the time.
"""

import ctypes
import os

__all__ = ["keep_memory"]

# mallopt parameters of glibc, from malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def keep_memory():
    """Tell the C library to keep freed memory for later arrays.

    The setting affects the whole process, including all its libraries, and cannot be queried or
    undone: the process never returns memory, up to its largest use so far. The commands of
    this project call this function, but importing the library does not. With the environment
    variable `MINITORCH_KEEP_MEMORY=0`, the call does nothing.

    Returns
    -------
    bool
        Whether the setting took effect. It cannot if the variable is 0 or there is no glibc.
    """
    if os.environ.get("MINITORCH_KEEP_MEMORY") == "0" or not _is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = ((_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20))
    outcomes = [mallopt(parameter, value) for parameter, value in settings]
    return all(outcome == 1 for outcome in outcomes)


def _is_glibc():
    """Return True if the C library of this process is glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        return False
