"""Messages between a process and its workers: nested values as JSON, tensors as raw bytes.

Python's own messages between processes are pickles. Reading a pickle can run code, so this library
does not use them.
"""

import json

import numpy as np

from ..errors import DTypeError
from ..nn.masks import Mask
from ..tensor import Tensor, wrap

__all__ = ["receive", "send"]

_PLAIN = (type(None), bool, int, float, str)


def send(connection, value):
    """Send a value: plain values, tensors and masks in nested tuples, lists and dicts.

    Parameters
    ----------
    connection : multiprocessing.connection.Connection
    value : object

    Raises
    ------
    DTypeError
        If the value contains anything else. Nothing has been sent then.
    """
    arrays = []
    structure = _described(value, arrays)
    forms = [[array.dtype.str, array.shape] for array in arrays]
    connection.send_bytes(json.dumps([structure, forms]).encode())
    for array in arrays:
        if array.size:
            connection.send_bytes(_bytes(np.ascontiguousarray(array)))


def receive(connection):
    """Return the next value that the other process sends.

    Raises
    ------
    EOFError
        If the other process has ended.
    """
    structure, forms = json.loads(connection.recv_bytes())
    arrays = [np.empty(shape, dtype) for dtype, shape in forms]
    for array in arrays:
        if array.size:
            connection.recv_bytes_into(_bytes(array))
    return _rebuilt(structure, arrays)


def _bytes(array):
    return array.reshape(-1).view("uint8")


def _described(value, arrays):
    """Return a description of a value for JSON, and append its arrays to a list."""
    kind = type(value)
    if kind in _PLAIN:
        return ["plain", value]
    if isinstance(value, Tensor):
        arrays.append(value.array)
        return ["tensor", len(arrays) - 1]
    if kind is Mask:
        return ["mask", [_described(value.attend, arrays), value.is_causal]]
    if kind is dict:
        pairs = value.items()
        return ["dict", [[_described(k, arrays), _described(v, arrays)] for k, v in pairs]]
    if kind in (tuple, list):
        return [kind.__name__, [_described(item, arrays) for item in value]]
    raise DTypeError(
        "ProcessSplit: the batch contains a value that cannot be sent to another process",
        got=f"a {kind.__name__}",
        expected="tensors, masks, numbers, strings and None, in tuples, lists and dicts",
        hint="convert it to one of these, or use ThreadSplit",
    )


def _rebuilt(structure, arrays):
    """Return the value that `_described` has described."""
    kind, content = structure
    if kind == "plain":
        return content
    if kind == "tensor":
        return wrap(arrays[content])
    if kind == "mask":
        attend, is_causal = content
        return Mask(_rebuilt(attend, arrays), is_causal)
    if kind == "dict":
        return {_rebuilt(k, arrays): _rebuilt(v, arrays) for k, v in content}
    items = [_rebuilt(item, arrays) for item in content]
    return tuple(items) if kind == "tuple" else items
