"""Memory allocator settings that keep freed memory in the process, in huge pages.

glibc returns the memory of a large array to the operating system when the array is freed, and
the next array of that size causes a page fault for every 4 KiB. On a chain of elementwise
operations on 12 MB arrays, keeping the memory more than halves the time.

Linux can use pages of 2 MiB instead of 4 KiB. The processor then looks up fewer addresses of pages.
NumPy requests huge pages for each array of 4 MiB or more, but most arrays of a training step are
smaller. Therefore, this module reserves a range of addresses for the heap, and requests huge pages
for the whole range. GPT, ViT and Transformer steps take 2 to 5 % less time.
"""

import ctypes
import os
from mmap import PAGESIZE

__all__ = ["keep_memory", "release_memory"]

# mallopt parameters of glibc, from malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# Arrays above this size are returned to the system when freed. glibc before 2.35 accepts no more
# than 32 MiB.
_LARGEST = (1 << 30, 32 << 20)
_DEFAULT = 128 << 10
_STEP = 64 << 20  # bytes by which the heap grows
_RESERVED = 1 << 30  # bytes of the heap for which huge pages are requested
_MADV_HUGEPAGE = 14  # from mman.h

_kept = [False]  # whether `keep_memory` is in effect


def keep_memory(keep=True):
    """Tell the C library to keep freed memory for later arrays. `import minitorch_attn` does this.

    The setting affects the whole process, including all its libraries. The process then returns
    free memory at the end of its heap to the operating system only if there is more than 2 GiB of
    it. If the environment variable `MINITORCH_KEEP_MEMORY` is 0, the call does nothing.

    The call also reserves 1 GiB of addresses for the heap, in which Linux may use huge pages. This
    memory is in use only after something has been written to it. Nothing is reserved if the address
    space of the process is limited.

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
    settings = [(_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, _STEP)]
    if not keep:
        settings = [(parameter, _DEFAULT) for parameter, _ in settings]
    outcomes = [mallopt(parameter, value) for parameter, value in settings]
    done = all(outcome == 1 for outcome in outcomes)
    _kept[0] = keep and done
    if _kept[0]:
        _reserve()
    else:
        release_memory()
    return done


def release_memory():
    """Return free memory to the operating system once, for example before the process is forked.

    Returns
    -------
    bool
        Whether memory was returned. False without glibc.
    """
    if not _is_glibc():
        return False
    released = ctypes.CDLL(None).malloc_trim(0) == 1
    if _kept[0]:
        _reserve()  # the addresses were released, too
    return released


def _reserve():
    """Extend the heap by `_RESERVED` bytes of addresses, and request huge pages for them."""
    from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit  # only on Unix

    if getrlimit(RLIMIT_AS)[0] != RLIM_INFINITY:
        return
    library = _library()
    start = library.sbrk(0)
    library.mallopt(_TOP_PAD, _RESERVED)
    library.free(library.malloc(_STEP))  # longer than the free end of the heap, so the heap grows
    library.mallopt(_TOP_PAD, _STEP)
    start, end = -(-start // PAGESIZE) * PAGESIZE, library.sbrk(0)
    if start < end:
        library.madvise(start, end - start, _MADV_HUGEPAGE)  # an error only means: no huge pages


def _library():
    """Return the C library, with the types of the functions that `_reserve` calls."""
    library, size, pointer = ctypes.CDLL(None), ctypes.c_size_t, ctypes.c_void_p
    library.sbrk.argtypes, library.sbrk.restype = [ctypes.c_ssize_t], pointer
    library.malloc.argtypes, library.malloc.restype = [size], pointer
    library.free.argtypes = [pointer]
    library.madvise.argtypes = [pointer, size, ctypes.c_int]
    return library


def _is_glibc():
    """Return True if the C library of this process is glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        return False
