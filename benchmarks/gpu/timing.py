"""Time several steps on a device: in each round, each step gets one turn."""

import statistics
import time

__all__ = ["peak_mb", "summary", "turns"]

WARM_UP = 3  # steps in which kernels are compiled and the memory pool is filled
MOST_STEPS = 1000  # in one turn


def synchronize():
    """Wait for the device."""
    import minitorch_attn as mt

    mt.cuda.synchronize()


def _seconds(step, times):
    """Run a step several times, then wait for the device. Return the seconds per step."""
    synchronize()
    started = time.perf_counter()
    for _ in range(times):
        step()
    synchronize()
    return (time.perf_counter() - started) / times


def turns(steps, rounds=7, seconds=0.3):
    """Time several steps, which take turns, and return the times of each step.

    In each round, all steps run one after the other. Changes in the device's clock rate and load
    from other programs therefore affect all steps alike.

    Parameters
    ----------
    steps : dict of str to callable
    rounds : int
        Number of turns of each step.
    seconds : float
        Approximate duration of a turn. If 0, a turn is one step.

    Returns
    -------
    dict of str to list of float
        For each name, the milliseconds per step in each round.
    """
    times = {}
    for name, step in steps.items():
        for _ in range(WARM_UP if seconds else 1):
            step()
        times[name] = min(MOST_STEPS, max(1, round(seconds / _seconds(step, 1)))) if seconds else 1
    found = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            found[name].append(1e3 * _seconds(step, times[name]))
    return found


def summary(milliseconds):
    """Return the median, the smallest and the largest of a list of times.

    Examples
    --------
    >>> summary([2.0, 1.0, 4.0])
    {'ms': 2.0, 'least_ms': 1.0, 'most_ms': 4.0}
    """
    return {
        "ms": statistics.median(milliseconds), "least_ms": min(milliseconds),
        "most_ms": max(milliseconds),
    }  # fmt: skip


def peak_mb(step):
    """Return the size of CuPy's memory pool after a step, in MB, including all live arrays."""
    import cupy

    pool = cupy.get_default_memory_pool()
    synchronize()
    pool.free_all_blocks()
    step()
    synchronize()
    return pool.total_bytes() / 1e6
