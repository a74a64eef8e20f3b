"""Several threads for one piece of work, each with one BLAS thread.

NumPy lets other threads run while it computes, so Python's lock is held for the short time between
two operations.
"""

from functools import lru_cache

from numpy import ndarray

from minitorch_attn.backend.blas import blas_threads, limited_blas_threads
from minitorch_attn.backend.gemm import is_dry_run

__all__ = ["shares", "threads_for", "together"]


def threads_for(array):
    """How many threads may share the work on an array: those one matrix product may use now.

    Inside `together` that is 1, so what runs there is not shared out again.

    Examples
    --------
    >>> import numpy as np
    >>> with limited_blas_threads(1):
    ...     threads_for(np.ones(3))
    1
    """
    return 1 if type(array) is not ndarray or is_dry_run() else blas_threads() or 1


def together(calls):
    """Make all calls at once, the first one on this thread, with one BLAS thread each.

    Parameters
    ----------
    calls : list of callable

    Returns
    -------
    list
        What they returned, in their order. If some raised, the first error is raised when all
        have ended.

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
    from concurrent.futures import ThreadPoolExecutor  # 10 ms that few programs need

    return ThreadPoolExecutor(threads, thread_name_prefix="batch-part")


def shares(sizes, parts):
    """Runs of neighbours with about the same sum of sizes, none of them empty.

    Parameters
    ----------
    sizes : list of int
        Of pieces of work that stay whole.
    parts : int

    Returns
    -------
    list of slice
        At most `parts`; together they cover all pieces, in order.

    Examples
    --------
    >>> shares([5, 1, 1, 1, 1, 1], 2)
    [slice(0, 1, None), slice(1, 6, None)]
    """
    ends, done, total = [], 0, sum(sizes)
    for number, size in enumerate(sizes, 1):
        done += size
        # A piece ends a run where the sum passes the next multiple of total / parts.
        if done * parts >= total * (len(ends) + 1):
            ends.append(number)
    ends = sorted({*ends[: parts - 1], len(sizes)} - {0})
    return [slice(*edge) for edge in zip([0, *ends], ends, strict=False)]
