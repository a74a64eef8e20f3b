"""What this machine can do at best: matrix products per second, and bytes per second."""

from functools import cache
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..backend import as_device, as_dtype, from_host
from ..backend.cuda import synchronize
from ..backend.gemm import matmul

__all__ = ["Ceilings", "ceilings"]

_SIZE = 1024  # of the matrices: large enough for the best speed of BLAS
_BYTES = 2**26  # of the array that is copied: larger than any cache
_TRIES = 10


class Ceilings(NamedTuple):
    """The two roofs: no operation is faster than both allow (but for data in a cache).

    Attributes
    ----------
    flops : float
        Floating-point operations per second of a large matrix product.
    bandwidth : float
        Bytes per second, read and written, of a large copy.
    dtype : dtype
        Of the product.
    """

    flops: float
    bandwidth: float
    dtype: object

    def least_seconds(self, flops, nbytes):
        """What so many operations on so many bytes take at least."""
        return max(flops / self.flops, nbytes / self.bandwidth)

    def __str__(self):
        return (
            f"{self.flops / 1e9:.3g} GFLOP/s in {self.dtype} matrix products, "
            f"{self.bandwidth / 1e9:.3g} GB/s copying"
        )


def ceilings(dtype="float32", device="cpu"):
    """Measure the roofs of this machine, once per process, in half a second.

    Parameters
    ----------
    dtype : str or dtype
        Of the matrix product.
    device : str or Device
        The strict device computes where the CPU does.

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
    """The shortest time of several: other programs can only make it longer."""
    best = float("inf")
    for _ in range(_TRIES):
        if on_gpu:
            synchronize()
        start = perf_counter()
        work()
        if on_gpu:
            synchronize()
        best = min(best, perf_counter() - start)
    return best
