"""Time and memory of one step, and the power of a size that they grow with."""

import gc
import math
import time
import tracemalloc

import numpy as np

__all__ = ["cost_of", "fitted_exponent"]


def cost_of(step, seconds=0.3, least=3):
    """Time of the fastest step and the most memory that a step holds at once.

    Other programs, on this machine or on the one that it is a part of, only make a step longer:
    the fastest of several is the least disturbed.

    Parameters
    ----------
    step : callable
    seconds : float
        For about how long it is timed.
    least : int
        How often at least.

    Returns
    -------
    dict
        "seconds"; and "bytes" of arrays beside those that were there before.
    """
    step()  # the optimiser makes its state
    gc.collect()
    # NumPy reports its arrays to tracemalloc, which slows a step down: it is not timed.
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
    """The p of cost = c size^p, by least squares over the upper half of the sizes.

    Small sizes cost what an operation costs by itself, however small its arrays are.

    Examples
    --------
    >>> round(fitted_exponent([1, 2, 4, 8], [7, 9, 16, 64]), 6)
    2.0
    """
    keep = max(2, math.ceil(len(sizes) / 2))
    x, y = np.log(sizes[-keep:]), np.log(costs[-keep:])
    return float(np.polyfit(x, y, 1)[0])
