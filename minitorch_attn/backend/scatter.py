"""Adding rows into a table: the gradient of a lookup."""

import numpy as np

from minitorch_attn.backend.devices import array_module, platform_of

__all__ = ["scatter_add", "scatter_add_host"]


def scatter_add(target, index, source):
    """Add `source` into `target[index]` in place; an index that occurs twice adds twice.

    Parameters
    ----------
    target : array of shape (rows, ...)
        Changed in place.
    index : integer array, or any index that `target[index]` accepts
    source : array that broadcasts to the shape of `target[index]`

    Returns
    -------
    array
        `target`.
    """
    array_module(target, source)
    return platform_of(target).scatter_add(target, index, source)


def scatter_add_host(target, index, source):
    """Scatter-add for NumPy arrays."""
    np.add.at(target, index, source)
    return target
