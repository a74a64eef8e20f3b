"""Send Python objects between ranks, as JSON.

PyTorch sends objects as pickles, and reading a pickle can run code. Here, an object must consist of
numbers, strings, booleans, None, lists and dicts with string keys.
"""

import json

import numpy as np

from ..backend import as_device, from_host
from ..errors import ArgumentError, DTypeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .collectives import all_gather, broadcast, member, root_of

__all__ = ["all_gather_object", "broadcast_object_list"]


@names_arguments
def all_gather_object(object_list, obj, group=None):
    """Store the objects of all ranks in `object_list`, on every rank.

    Parameters
    ----------
    object_list : list
        Entry r receives the object of rank r.
    obj : object
        Object that can be represented in JSON.
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Raises
    ------
    DTypeError
        If the object cannot be represented in JSON.
    """
    group = member(group, "all_gather_object")
    if group is None:
        return
    if not isinstance(object_list, list) or len(object_list) != group.size():
        raise ArgumentError(
            "all_gather_object: object_list must be a list with one entry for each rank",
            got=f"{object_list!r:.60}",
            expected=f"[None] * {group.size()}",
        )
    data = _encoded(obj, "all_gather_object")
    sizes = [_size(0, group) for _ in object_list]
    all_gather(sizes, _size(len(data), group), group)
    sizes = [int(size) for size in sizes]
    most = max(sizes)
    texts = [_bytes(b"", most, group) for _ in sizes]
    all_gather(texts, _bytes(data, most, group), group)
    object_list[:] = [_decoded(text, size) for text, size in zip(texts, sizes, strict=True)]


@names_arguments
def broadcast_object_list(object_list, src=None, group=None, group_src=None):
    """Copy the objects in the list on rank `src` into the list of every rank.

    Parameters
    ----------
    object_list : list
        Input on rank `src`; on the others, a list of the same length, which is overwritten.
    src : int, optional
        Sender's rank in the run; by default the first rank of the group.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    group_src : int, optional
        Sender's rank in the group; an alternative to `src`.

    Raises
    ------
    DTypeError
        If an object cannot be represented in JSON.
    """
    found = member(group, "broadcast_object_list")
    if found is None:
        return
    if not isinstance(object_list, list):
        raise DTypeError(
            "broadcast_object_list: object_list is not a list", got=f"{object_list!r:.60}"
        )
    root = root_of(found, src, group_src, "broadcast_object_list", "src")
    is_root = found.rank() == root
    data = _encoded(object_list, "broadcast_object_list") if is_root else b""
    size = _size(len(data), found)
    broadcast(size, group=group, group_src=root)
    text = _bytes(data, int(size), found)
    broadcast(text, group=group, group_src=root)
    object_list[:] = _decoded(text, int(size))


def _encoded(obj, where):
    try:
        return json.dumps(obj, allow_nan=True).encode()
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"{where}: JSON cannot express the object",
            got=f"{obj!r:.60}; {error}",
            hint="send tensors with send or broadcast, and numbers and strings as objects",
        ) from None


def _decoded(text, size):
    return json.loads(text.numpy()[:size].tobytes())


def _size(size, group):
    return _on(np.array(size, dtype="int64"), group)


def _bytes(data, size, group):
    """Return a tensor of `size` bytes that holds `data`, padded with zeros."""
    array = np.zeros(size, dtype="uint8")
    array[: len(data)] = np.frombuffer(data, dtype="uint8")
    return _on(array, group)


def _on(array, group):
    """Convert a NumPy array to a tensor on the device that the group's backend supports."""
    return wrap(from_host(array, as_device(group.engine.device)))
