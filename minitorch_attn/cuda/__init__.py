"""CUDA devices through CuPy, `mt.cuda`: availability, names, selection, memory and CUDA graphs."""

from ..backend import manual_seed as _manual_seed
from ..backend.cuda import (
    current_device,
    device_count,
    empty_cache,
    get_device_name,
    is_available,
    memory_allocated,
    set_device,
    synchronize,
)
from ..named_errors import names_arguments
from . import amp
from .graphs import GraphedStep

__all__ = [
    "GraphedStep", "amp", "current_device", "device_count", "empty_cache", "get_device_name",
    "is_available", "is_bf16_supported", "manual_seed", "manual_seed_all", "memory_allocated",
    "set_device", "synchronize",
]  # fmt: skip


@names_arguments
def manual_seed(seed):
    """Seed the random number generator, as `mt.manual_seed` does; without CUDA, do nothing.

    All devices share one generator, so a program draws the same numbers on every device.

    Parameters
    ----------
    seed : int
    """
    if is_available():
        _manual_seed(seed)


@names_arguments
def manual_seed_all(seed):
    """Seed the random number generator that all devices share; the same as `manual_seed`."""
    manual_seed(seed)


def is_bf16_supported():
    """Return False: bfloat16 is missing from NumPy and from CuPy's batched matrix products."""
    return False
