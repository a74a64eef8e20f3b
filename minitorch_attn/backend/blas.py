"""BLAS library of NumPy: find its functions, and set the number of threads of matrix products.

The number of threads applies to the whole process. `limited_blas_threads` changes the number inside
a `with` block and restores it afterwards. If the BLAS library is unknown (Accelerate, a custom
build), the number does not change.
"""

import ctypes
import glob
import os
import threading
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

__all__ = ["blas_kernels", "blas_threads", "find_functions", "limited_blas_threads"]

_lock = threading.Lock()
_blocks = [0]  # number of open `with` blocks, in all threads
_before = [None]
# The names in OpenBLAS may have a prefix and a suffix; NumPy's wheels use both.
_SPELLINGS = [(prefix, suffix) for prefix in ("scipy_", "") for suffix in ("64_", "")]


def _candidates():
    """Return the files of BLAS libraries that this process has loaded or that NumPy includes.

    The library that NumPy includes comes first. SciPy includes another one, whose number of
    threads is set separately.
    """
    found = []
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            found = [line.split(maxsplit=5)[-1].strip() for line in maps if ".so" in line]
    except OSError:  # not Linux
        pass
    package = os.path.realpath(os.path.dirname(np.__file__))
    folders = os.path.join(os.path.dirname(package), "numpy.libs"), os.path.join(package, ".dylibs")
    found.sort(key=lambda file: os.path.dirname(os.path.realpath(file)) not in folders)
    for folder in folders:
        found += glob.glob(os.path.join(folder, "*openblas*"))
    return [file for file in dict.fromkeys(found) if "blas" in file.lower() or "mkl" in file]


def find_functions(*alternatives):
    """Return functions of NumPy's BLAS library, as ctypes functions, or None if not found.

    Parameters
    ----------
    *alternatives : tuple of str
        Names of functions. The functions of the first tuple whose names a library all has are
        returned. OpenBLAS may add a prefix and a suffix to each name.
    """
    for file in _candidates():
        try:
            library = ctypes.CDLL(file)
        except OSError:
            continue
        for names in alternatives:
            for prefix, suffix in _SPELLINGS:
                spelled = [prefix + name + suffix for name in names]
                if all(hasattr(library, name) for name in spelled):
                    return tuple(getattr(library, name) for name in spelled)
    return None


@lru_cache(maxsize=1)
def _functions():
    """Return the functions that get and set the number of BLAS threads, or None if not found."""
    return find_functions(
        ("openblas_get_num_threads", "openblas_set_num_threads"),
        ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    )


def blas_kernels():
    """Return the name of the kernels that OpenBLAS has chosen, or None if it is unknown.

    Returns
    -------
    str or None
        Name of the processor generation that the kernels were written for, such as "SkylakeX".

    Examples
    --------
    >>> isinstance(blas_kernels(), (str, type(None)))
    True
    """
    found = find_functions(("openblas_get_corename",))
    if found is None:
        return None
    found[0].restype = ctypes.c_char_p
    return found[0]().decode()


def blas_threads():
    """Return the number of threads that a matrix product may currently use, or None if unknown.

    Returns
    -------
    int or None
    """
    functions = _functions()
    return None if functions is None else functions[0]()


@contextmanager
def limited_blas_threads(count):
    """Limit each matrix product inside the `with` block to `count` threads.

    Several threads may be inside such blocks at the same time. The end of the last block restores
    the original number of threads.

    Parameters
    ----------
    count : int

    Examples
    --------
    >>> before = blas_threads()
    >>> with limited_blas_threads(1):
    ...     blas_threads() in (1, None)
    True
    >>> blas_threads() == before
    True
    """
    functions = _functions()
    if functions is None:
        yield
        return
    get, put = functions
    with _lock:
        if not _blocks[0]:
            _before[0] = get()
        _blocks[0] += 1
        put(count)
    try:
        yield
    finally:
        with _lock:
            _blocks[0] -= 1
            if not _blocks[0]:
                put(_before[0])
