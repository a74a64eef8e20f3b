"""Memory allocator setting that keeps freed memory in the process, to avoid page faults.

glibc returns the memory of a large array to the operating system when the array is freed, and
the next array of that size causes a page fault for every 4 KiB. On a chain of elementwise
operations on 12 MB arrays, keeping the memory more than halves the time.
"""

import ctypes
import os

__all__ = ["keep_memory", "release_memory"]

# mallopt parameters of glibc, from malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# Arrays above this size are returned to the system when freed. glibc before 2.35 accepts no more
# than 32 MiB.
_LARGEST = (1 << 30, 32 << 20)
_DEFAULT = 128 << 10


def keep_memory(keep=True):
    """Tell the C library to keep freed memory for later arrays. `import minitorch_attn` does this.

    The setting affects the whole process, including all its libraries. The process then returns
    free memory at the end of its heap to the operating system only if there is more than 2 GiB of
    it. If the environment variable `MINITORCH_KEEP_MEMORY` is 0, the call does nothing.

    Parameters
    ----------
    keep : bool, default True
        If False, go back to glibc's initial threshold: an array of 128 KiB or more gets its own
        memory mapping, which is returned to the system when the array is freed.

    Returns
    -------
    bool
        Whether the setting took effect. False if `MINITORCH_KEEP_MEMORY` is 0 or the C library is
        not glibc.
    """
    if os.environ.get("MINITORCH_KEEP_MEMORY") == "0" or not _is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    if not any(mallopt(_MMAP_THRESHOLD, size) for size in (_LARGEST if keep else (_DEFAULT,))):
        return False
    settings = [(_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20)]
    if not keep:
        settings = [(parameter, _DEFAULT) for parameter, _ in settings]
    outcomes = [mallopt(parameter, value) for parameter, value in settings]
    return all(outcome == 1 for outcome in outcomes)


def release_memory():
    """Return free memory to the operating system once, for example before the process is forked.

    Returns
    -------
    bool
        Whether memory was returned. False without glibc.
    """
    return _is_glibc() and ctypes.CDLL(None).malloc_trim(0) == 1


def _is_glibc():
    """Return True if the C library of this process is glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        return False
