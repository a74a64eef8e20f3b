"""Attention masks as arrays: causal masks, and masks of 0 and -inf to add to the scores."""

import math
from functools import lru_cache

from ...backend import array_module, device_of, module_for
from ...computes import computes

__all__ = ["additive", "causal_bias", "causal_mask"]

_CACHED_ENTRIES = 2**20  # 4 MiB of float32; larger triangles are not cached


@computes("causal mask")
def causal_mask(queries, keys, offset, xp):
    """Return the causal mask: query i may attend to key j if j <= i + offset.

    `masks.causal`, `is_causal=True` and tiled attention all use this function. The result
    is a boolean array of shape (query, key). `offset` is the position of the first query among the
    keys. `xp` is the array library of the device, such as NumPy.
    """
    return xp.arange(keys) <= xp.arange(queries)[:, None] + offset


@computes("additive mask")
def additive(mask, dtype):
    """Return a float mask to add to the scores. In a boolean mask, True becomes 0, False -inf.

    A boolean mask is True where the query may attend to the key. It is converted to `dtype`. A
    float mask is returned unchanged.
    """
    if mask.dtype.kind == "f":
        return mask
    return array_module(mask).where(mask, 0.0, -math.inf).astype(dtype)


def causal_bias(scores):
    """Return the causal mask (query, key) to add to `scores`: 0 if key <= query, else -inf."""
    queries, keys = scores.shape[-2:]
    make = _triangle if queries * keys <= _CACHED_ENTRIES else _triangle.__wrapped__
    return make(queries, keys, scores.dtype.name, device_of(scores))


@lru_cache(maxsize=8)
def _triangle(queries, keys, dtype, device):
    return additive(causal_mask(queries, keys, 0, module_for(device)), dtype)
