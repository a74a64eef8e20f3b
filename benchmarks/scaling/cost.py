"""Measure the time and memory of a step, and fit the exponents of their growth."""

import gc
import math
import time
import tracemalloc

import numpy as np

__all__ = ["cost_of", "fitted_exponent"]


def cost_of(step, seconds=0.3, least=3):
    """Measure the time and the peak memory of a step.

    The time is that of the fastest of several steps. Other programs on this machine (or on its
    host) can only make a step longer, so the fastest step is the least disturbed.

    Parameters
    ----------
    step : callable
    seconds : float
        Approximate duration of the timing.
    least : int
        Minimum number of timed steps.

    Returns
    -------
    dict
        "seconds", and "bytes": peak size of the arrays that a step allocates.
    """
    step()  # the optimizer creates its state
    gc.collect()
    # NumPy reports its arrays to tracemalloc. This slows the step down, so this step is not timed.
    tracemalloc.start()
    step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return {"seconds": min(times), "bytes": peak}


def fitted_exponent(sizes, costs):
    """Fit p in `cost = c * size**p` by least squares over the upper half of the sizes.

    For small sizes, the cost is dominated by the constant overhead of each operation.

    Examples
    --------
    >>> round(fitted_exponent([1, 2, 4, 8], [7, 9, 16, 64]), 6)
    2.0
    """
    keep = max(2, math.ceil(len(sizes) / 2))
    x, y = np.log(sizes[-keep:]), np.log(costs[-keep:])
    return float(np.polyfit(x, y, 1)[0])
