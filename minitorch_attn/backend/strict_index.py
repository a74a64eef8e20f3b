"""Indexing of strict arrays: read and write entries.

Index arrays must be on the device. If several values are written or added at the same position,
their order is random, as on a GPU.
"""

import numpy as np
from numpy import ndarray

from minitorch_attn.backend.devices import read_the_rest
from minitorch_attn.backend.sync import StrictError, record_sync, record_transfer

__all__ = ["get_entries", "named_index_errors", "put_entries", "scatter_entries"]

_BASIC = frozenset({int, slice, type(None), type(Ellipsis), bool})
_ATOMIC = frozenset("ilqILQefd")  # dtypes with an atomic addition on the GPU
_state = {"chance": None}


def named_index_errors(function):
    """Decorate a function: if it raises IndexError, run the deferred range checks first.

    A GPU wraps an index that is out of range, and the deferred range check later raises an error
    that names the argument. The strict device uses NumPy, which raises IndexError at once. With
    this decorator, a range check that fails replaces the IndexError by the same error as on a GPU.
    """

    def call(array, *args, **keywords):
        try:
            return function(array, *args, **keywords)
        except IndexError:
            read_the_rest(type(array).device)
            raise

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


@named_index_errors
def get_entries(array, index):
    """Return `array[index]` as a plain NumPy array."""
    cls, raw = type(array), array._raw
    if type(index) in _BASIC:
        plain, kind = index, "basic"
    else:
        plain, kind = _plain_index(cls, index)
    if kind == "mask":
        record_sync("array[mask], whose size depends on the mask,")
    result = raw[plain]
    if kind == "basic" and type(result) is not ndarray:
        # A single entry is a 0-d view in CuPy, not a copy.
        result = raw[(*plain, ...)] if type(plain) is tuple else raw[plain, ...]
    return result


@named_index_errors
def put_entries(array, index, value):
    """Assign `array[index] = value`, where `value` is a plain NumPy array or a number."""
    cls, raw = type(array), array._raw
    plain, kind = _plain_index(cls, index)
    if kind == "mask" and isinstance(value, ndarray) and value.ndim:
        record_sync("array[mask] = array")
    raw[plain] = value
    if kind == "integer" and isinstance(value, ndarray) and value.ndim:
        places, values = _shuffled_pairs(raw, plain, value)
        raw.flat[places] = values


@named_index_errors
def scatter_entries(array, index, source, ufunc=np.add):
    """Set `array[index]` to `ufunc(array[index], source)`; apply duplicates in random order."""
    cls, raw = type(array), array._raw
    if raw.dtype.char not in _ATOMIC:
        raise TypeError(f"CuPy does not have an atomic {ufunc.__name__} for {raw.dtype}")
    plain, kind = _plain_index(cls, index)
    if kind != "integer":
        raw[plain] = ufunc(raw[plain], source)
        return
    places, values = _shuffled_pairs(raw, plain, source)
    flat = raw.reshape(-1)
    ufunc.at(flat, places, values)
    if not np.may_share_memory(flat, raw):
        raw[...] = flat.reshape(raw.shape)


def _shuffled_pairs(raw, index, value):
    """Return the flat positions that `index` selects and the value for each, in random order."""
    places = np.arange(raw.size).reshape(raw.shape)[index]
    value = np.asarray(value)
    while value.ndim > places.ndim:  # assignment drops leading axes of length 1
        value = value[0]
    if _state["chance"] is None:
        _state["chance"] = np.random.default_rng(0)
    order = _state["chance"].permutation(places.size)
    return places.reshape(-1)[order], np.broadcast_to(value, places.shape).reshape(-1)[order]


def _plain_index(cls, index):
    """Convert the arrays and lists in an index to NumPy arrays. Return the index and its kind.

    The kind is "basic", "integer" or "mask".
    """
    if type(index) is not tuple:
        return _plain_entry(cls, index)
    for entry in index:
        if type(entry) not in _BASIC:
            break
    else:
        return index, "basic"
    entries = [_plain_entry(cls, entry) for entry in index]
    kinds = {kind for _, kind in entries}
    kind = "mask" if "mask" in kinds else "integer" if "integer" in kinds else "basic"
    return tuple([entry for entry, _ in entries]), kind


def _plain_entry(cls, entry):
    """Return one entry of an index as a plain NumPy array or Python object, and its kind."""
    if type(entry) in _BASIC:
        return entry, "basic"
    if type(entry) is cls:
        return entry._raw, "mask" if entry._raw.dtype.kind == "b" else "integer"
    if isinstance(entry, (int, np.integer)):
        return int(entry), "basic"
    if isinstance(entry, list):
        record_transfer()
        raw = np.asarray(entry)
        raw = raw if raw.size else raw.astype(np.intp)
        return raw, "mask" if raw.dtype.kind == "b" else "integer"
    device = getattr(type(entry), "index", None)
    where = f"an array on strict:{device}" if isinstance(device, int) else f"{type(entry)}"
    raise StrictError(
        "array[index]: index is not on the device of the array",
        got=f"{where} as an index of an array on strict:{cls.index}",
        expected="device arrays, Python ints, slices, lists of ints, None or Ellipsis",
        hint="move the index to the device first: mt.tensor(index, device=...)",
    )
