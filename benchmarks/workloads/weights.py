"""Initial weights that depend only on a parameter's name.

All engines (this library and those it is compared with) therefore start with the same weights.

The names are the parameter names in this library's modules. An engine may store several matrices as
one packed matrix, such as `qkv_proj` for the projections of query, key and value. The initial value
of a packed matrix is the concatenation of these matrices along the first axis.
"""

import zlib

import numpy as np

__all__ = ["apart", "draw", "draw_packed"]

PACKED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "qk_proj": ("q_proj", "k_proj"),
    "kv_proj": ("k_proj", "v_proj"),
}


def draw(name, shape):
    """Draw the initial value of a parameter. The random seed is computed from the name.

    Parameters
    ----------
    name : str
    shape : tuple of int

    Returns
    -------
    float32 ndarray
        Matrices have variance 1 / inputs. Biases are near 0, and layer-norm weights near 1.
    """
    values = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if len(shape) > 1:
        values /= np.sqrt(np.prod(shape[1:]))
    else:
        values = 0.02 * values + (name.endswith("weight"))
    return values.astype("float32")


def draw_packed(name, shape):
    """Draw the initial value of a parameter that may be packed from several matrices."""
    names = _names(name)
    part = (shape[0] // len(names), *shape[1:])
    return np.concatenate([draw(n, part) for n in names]) if len(names) > 1 else draw(name, shape)


def apart(arrays):
    """Split packed arrays into their parts, and keep other arrays. Return {name: array}."""
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
