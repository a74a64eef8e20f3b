"""Messages between a process and its workers: nested values as JSON, tensors as raw bytes.

Python's own messages between processes are pickles. Reading a pickle can run code, so this library
does not use them.
"""

import json
from importlib import import_module

import numpy as np

from ..errors import DTypeError
from ..nn.masks import Mask
from ..tensor import Tensor, wrap

__all__ = ["PLAIN", "receive", "send"]

PLAIN = (type(None), bool, int, float, str)


def send(connection, value):
    """Send a value: tensors, masks, numbers, strings and None, or containers of these.

    The containers are tuples, named tuples, lists and dicts. They may be nested.

    Parameters
    ----------
    connection : multiprocessing.connection.Connection
    value : object

    Raises
    ------
    DTypeError
        If the value contains an object of another type. In this case nothing is sent.
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


def _named_tuple(module, name):
    """Return the class `name` of a module if it is a named tuple, and None otherwise."""
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return None
    is_named_tuple = isinstance(found, type) and issubclass(found, tuple)
    return found if is_named_tuple and hasattr(found, "_fields") else None


def _described(value, arrays):
    """Return a JSON-compatible description of a value, and append its arrays to `arrays`."""
    kind = type(value)
    if kind in PLAIN:
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
    if _named_tuple(kind.__module__, kind.__name__) is kind:
        items = [_described(item, arrays) for item in value]
        return ["named tuple", [kind.__module__, kind.__name__, items]]
    raise DTypeError(
        "ProcessSplit: the batch contains a value that cannot be sent to another process",
        got=f"a {kind.__name__}",
        expected="tensors, masks, numbers, strings and None, in tuples, lists and dicts; a named "
        "tuple must be defined at the top level of a module",
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
    if kind == "named tuple":
        module, name, items = content
        return _named_tuple(module, name)(*[_rebuilt(item, arrays) for item in items])
    items = [_rebuilt(item, arrays) for item in content]
    return tuple(items) if kind == "tuple" else items
