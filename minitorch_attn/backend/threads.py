"""Threads: divide work among several threads, each with one BLAS thread.

NumPy releases Python's global interpreter lock (GIL) while it computes. A thread holds the GIL only
for the short time between two operations.
"""

from functools import lru_cache

from numpy import ndarray

from minitorch_attn.backend.blas import blas_threads, limited_blas_threads
from minitorch_attn.backend.gemm import is_dry_run

__all__ = ["shares", "threads_for", "together"]


def threads_for(array):
    """Return the number of threads to use: for a NumPy array, as many as BLAS uses, otherwise 1.

    Inside `together`, BLAS uses one thread, so parallel calls are not split again. In a dry run,
    which does not compute matrix products (see `dry_run`), the number of threads is also 1.

    Examples
    --------
    >>> import numpy as np
    >>> with limited_blas_threads(1):
    ...     threads_for(np.ones(3))
    1
    """
    return 1 if type(array) is not ndarray or is_dry_run() else blas_threads() or 1


def together(calls):
    """Run all calls in parallel, the first one on this thread, with one BLAS thread each.

    Parameters
    ----------
    calls : list of callable

    Returns
    -------
    list
        Results of the calls, in order. If some calls raise an error, the first error is raised
        after all have ended.

    Examples
    --------
    >>> together([lambda: "a", lambda: "b"])
    ['a', 'b']
    """
    if len(calls) < 2:
        return [call() for call in calls]
    with limited_blas_threads(1):
        others = [_pool(len(calls) - 1).submit(call) for call in calls[1:]]
        try:
            first = calls[0]()
        finally:
            errors = [other.exception() for other in others]  # wait for all of them
    for error in errors:
        if error is not None:
            raise error
    return [first, *(other.result() for other in others)]


@lru_cache(maxsize=4)
def _pool(threads):
    from concurrent.futures import ThreadPoolExecutor  # importing it takes 10 ms

    return ThreadPoolExecutor(threads, thread_name_prefix="batch-part")


def shares(sizes, parts):
    """Split a list of pieces of work into consecutive groups of about equal total size.

    Parameters
    ----------
    sizes : list of int
        Sizes of the pieces of work, which are not split.
    parts : int
        Largest number of groups.

    Returns
    -------
    list of slice
        One slice of the list for each group. No group is empty, and every piece is in one group.

    Examples
    --------
    >>> shares([5, 1, 1, 1, 1, 1], 2)
    [slice(0, 1, None), slice(1, 6, None)]
    """
    ends, done, total = [], 0, sum(sizes)
    for number, size in enumerate(sizes, 1):
        done += size
        # A group ends with the piece at which the sum reaches the next multiple of total / parts.
        if done * parts >= total * (len(ends) + 1):
            ends.append(number)
    ends = sorted({*ends[: parts - 1], len(sizes)} - {0})
    return [slice(*edge) for edge in zip([0, *ends], ends, strict=False)]
