"""Roofline ceilings of this machine: peak FLOP/s in matrix products, and memory bandwidth."""

from functools import cache
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..backend import as_device, as_dtype, from_host
from ..backend.cuda import synchronize
from ..backend.gemm import matmul

__all__ = ["Ceilings", "ceilings"]

_SIZE = 1024  # number of rows of the matrices, large enough for BLAS to reach full speed
_BYTES = 2**26  # size of the copied array, larger than any cache
_TRIES = 10


class Ceilings(NamedTuple):
    """Peak speed and memory bandwidth of a machine. Only operations on cached data can exceed them.

    Attributes
    ----------
    flops : float
        Floating-point operations per second in a large matrix product.
    bandwidth : float
        Bytes read and written per second in a large copy.
    dtype : dtype
        Dtype of the matrix product.
    """

    flops: float
    bandwidth: float
    dtype: object

    def least_seconds(self, flops, nbytes):
        """Return the minimum time in seconds for `flops` operations on `nbytes` bytes."""
        return max(flops / self.flops, nbytes / self.bandwidth)

    def __str__(self):
        return (
            f"{self.flops / 1e9:.3g} GFLOP/s in {self.dtype} matrix products, "
            f"{self.bandwidth / 1e9:.3g} GB/s copying"
        )


def ceilings(dtype="float32", device="cpu"):
    """Measure the peak speed and memory bandwidth of this machine, once per process.

    The measurement takes half a second. Later calls return the same values.

    Parameters
    ----------
    dtype : str or dtype
        Dtype of the matrix product.
    device : str or Device
        Device to measure. The strict device uses the CPU.

    Returns
    -------
    Ceilings

    Examples
    --------
    >>> roofs = ceilings()
    >>> roofs.flops > 1e8 and roofs.bandwidth > 1e8
    True
    """
    device = as_device(device)
    return _measured(as_dtype(dtype), "cpu" if device.type == "strict" else str(device))


@cache
def _measured(dtype, device):
    on_gpu = as_device(device).type == "cuda"
    a = from_host(np.full((_SIZE, _SIZE), 0.5, dtype), device)
    source = from_host(np.zeros(_BYTES, np.uint8), device)
    target = source.copy()

    def copy():
        target[...] = source

    product = _fastest(lambda: matmul(a, a), on_gpu)
    return Ceilings(2 * _SIZE**3 / product, 2 * _BYTES / _fastest(copy, on_gpu), dtype)


def _fastest(work, on_gpu):
    """Return the shortest of several timings, because other programs can only slow `work` down."""
    best = float("inf")
    for _ in range(_TRIES):
        if on_gpu:
            synchronize()
        start = perf_counter()
        work()
        if on_gpu:
            synchronize()
        best = min(best, perf_counter() - start)
    return max(best, 1e-9)  # the clock may be too coarse to advance
