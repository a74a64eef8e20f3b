"""Initial weights that depend on a parameter's name only, so that every engine draws the same.

Names are those of this library's modules. An engine that keeps several matrices as one, such as
the projections of query, key and value, calls it `qkv_proj` and is given them one above the other.
"""

import zlib

import numpy as np

__all__ = ["apart", "draw", "draw_packed"]

PACKED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "kv_proj": ("k_proj", "v_proj")}


def draw(name, shape):
    """The initial value of a parameter.

    Parameters
    ----------
    name : str
    shape : tuple of int

    Returns
    -------
    float32 ndarray
        Matrices from N(0, 1 / inputs), vectors near 0, the factors of layer norms near 1.
    """
    values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if len(shape) > 1:
        values /= np.sqrt(np.prod(shape[1:]))
    else:
        values = 0.02 * values + (name.endswith("weight"))
    return values.astype("float32")


def draw_packed(name, shape):
    """As `draw`, for a name that may stand for several matrices."""
    names = _names(name)
    part = (shape[0] // len(names), *shape[1:])
    return np.concatenate([draw(n, part) for n in names]) if len(names) > 1 else draw(name, shape)


def apart(arrays):
    """{name: array} with packed arrays under the names of their parts."""
    found = {}
    for name, array in arrays.items():
        names = _names(name)
        found.update(zip(names, np.split(array, len(names)), strict=True))
    return found


def _names(name):
    for packed, parts in PACKED.items():
        if f".{packed}." in name:
            return [name.replace(packed, part) for part in parts]
    return [name]
