"""Serialization: `mt.save` and `mt.load` store nested dicts of tensors in one safetensors file.

The file stores each tensor under a name that shows the tensor's path in the state. Every program
that reads safetensors can read the tensors. Everything else is JSON in the file's metadata, where
`{"$tensor": name}` stands for a tensor. A SHA-256 checksum of the tensors and the JSON detects
silent damage.
"""

import json
import math
import os

import numpy as np

from . import backend
from .errors import ArgumentError, CheckpointError, DTypeError
from .files import atomic_file, read_error, read_up_to, write_error
from .schema import COUNT, TEXT, list_of, map_of, record
from .tensor import Tensor, wrap

__all__ = ["load", "read_safetensors", "save", "write_safetensors"]

_FORMAT, _STATE, _SUM = "minitorch_attn.format", "minitorch_attn.state", "minitorch_attn.sha256"
_VERSION = "1"
_UNREADABLE = (OverflowError, ValueError, RecursionError)
_DEEPEST = 100  # maximum nesting depth; JSON readers support far more
_DTYPES = {
    "bool": "BOOL", "float16": "F16", "float32": "F32", "float64": "F64",
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
}  # fmt: skip
_BFLOAT16 = "BF16"
_ENTRY = record({"dtype": TEXT, "shape": list_of(COUNT), "data_offsets": list_of(COUNT, 2)})
_LONGEST = 100_000_000  # maximum number of bytes of a header


def save(obj, f):
    """Save a nested state to one safetensors file.

    Parameters
    ----------
    obj : dict, list, tuple, Tensor, array, str, int, float, bool or None
        State, nested at most 100 levels deep. The keys of dicts must be strings or ints. Tensors on
        a GPU are copied to the host. A tensor that occurs twice (tied weights) is stored once.
        Gradients, the graph and the device are not saved.
    f : str, path or binary file
        Target file. Writing to a path is atomic: the file has either its old or its new content.

    Raises
    ------
    CheckpointError
        If the file cannot be written; a previous file is unchanged.
    DTypeError
        If a value in the state has a type that is not listed for `obj`. The message says where in
        the state the value is.

    Examples
    --------
    >>> import io
    >>> import minitorch_attn as mt
    >>> file = io.BytesIO()
    >>> save({"step": 3, "weights": [mt.tensor([1.0, 2.0])]}, file)
    >>> _ = file.seek(0)
    >>> load(file)
    {'step': 3, 'weights': [tensor([1., 2.])]}
    """
    packer = _Packer()
    tree = packer.encode(obj, ())
    text = json.dumps(tree, allow_nan=False)  # escapes non-ASCII text, even lone surrogates
    arrays = packer.arrays
    metadata = {_FORMAT: _VERSION, _STATE: text, _SUM: _digest(text, arrays)}
    if hasattr(f, "write"):
        try:
            _write(f, metadata, arrays)
        except OSError as error:
            raise write_error(_name_of(f), error) from error
    else:
        with atomic_file(f) as file:
            _write(file, metadata, arrays)


def load(f, map_location=None, *, device=None, weights_only=True):
    """Load a state that `save` wrote, or the tensors of any other safetensors file.

    Parameters
    ----------
    f : str, path or binary file
    map_location, device : str or Device, optional
        Device for the tensors; the two names are equivalent. Default: the CPU.
    weights_only : bool
        Ignored; for compatibility with PyTorch. The files contain data only, never code.

    Returns
    -------
    The saved state. For a safetensors file that `save` did not write, a dict of its tensors.

    Raises
    ------
    CheckpointError
        If the file is missing, truncated, damaged or not a safetensors file.

    Examples
    --------
    >>> import os, tempfile
    >>> import minitorch_attn as mt
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "numbers.safetensors")
    ...     save({"a": mt.tensor([1, 2]), "b": {0: None}}, path)
    ...     load(path)
    {'a': tensor([1, 2]), 'b': {0: None}}
    """
    if hasattr(f, "read"):
        name = _name_of(f)
        metadata, arrays = _guarded(name, _read_stream, f)
    else:
        name = os.fspath(f)
        metadata, arrays = _guarded(name, _read_path, f)
    device = map_location if device is None else device
    place = backend.as_device(device) if device is not None else None
    ours = [key for key in (_FORMAT, _STATE, _SUM) if key in metadata]
    if not ours:
        return {key: _tensor(array, place) for key, array in arrays.items()}
    if len(ours) < 3 or metadata[_SUM] != _digest(metadata[_STATE], arrays):
        raise _damaged(name, "its SHA-256 checksum does not match its content")
    if metadata[_FORMAT] != _VERSION:
        raise CheckpointError(
            f"{name} was written by a newer minitorch_attn",
            got=f"format {metadata[_FORMAT]}", expected=f"format {_VERSION}",
            hint="upgrade minitorch_attn",
        )  # fmt: skip
    return _guarded(name, _Unpacker(arrays, place).unpack, metadata[_STATE])


def read_safetensors(path):
    """Return the metadata and the arrays of any safetensors file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    metadata : dict of str
    arrays : dict of numpy.ndarray
        Arrays with the dtypes of the file. Because NumPy does not have bfloat16, bfloat16 arrays
        become float32.

    Raises
    ------
    CheckpointError
        If the file is missing, truncated, damaged or not a safetensors file.
    """
    return _guarded(os.fspath(path), _read_path, path)


def write_safetensors(path, arrays, metadata=None):
    """Write arrays to a safetensors file under the given names, atomically.

    Parameters
    ----------
    path : str or path
    arrays : dict of numpy.ndarray
    metadata : dict of str, optional
    """
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with atomic_file(path) as file:
        _write(file, metadata or {}, arrays)


# Conversion of a state to JSON and arrays


class _Packer:
    """Converts a state to JSON: replaces tensors with tags such as {"$tensor": name}."""

    def __init__(self):
        self.arrays = {}  # name -> contiguous host array
        self.names = {}  # identity of the memory -> name
        self.kept = []  # prevents reuse of addresses while packing

    def encode(self, value, path):
        if len(path) > _DEEPEST:
            raise ArgumentError(
                "save: the state is nested too deeply, or contains itself",
                got=f"more than {_DEEPEST} levels, in state{_where(path[:4])}...",
                hint="save a state with fewer levels, such as model.state_dict()",
            )
        if value is None or type(value) in (bool, str, int):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, Tensor):
            return {"$tensor": self.add(value.array, path)}
        if isinstance(value, np.generic):
            return {"$scalar": self.add(np.asarray(value), path)}
        if backend.is_array(value):
            return {"$array": self.add(value, path)}
        if isinstance(value, dict):
            return self._encode_dict(value, path)
        if isinstance(value, (list, tuple)):
            items = [self.encode(item, (*path, i)) for i, item in enumerate(value)]
            return items if isinstance(value, list) else {"$tuple": items}
        raise DTypeError(
            f"save: state{_where(path)} cannot be saved",
            got=f"a {type(value).__name__}",
            expected="dicts, lists and tuples of tensors, arrays, numbers, strings, bools and None",
            hint="convert the value to one of these types first",
        )

    def _encode_dict(self, value, path):
        for key in value:
            if type(key) not in (str, int):
                raise DTypeError(
                    f"save: keys of state{_where(path)} must be strings or ints",
                    got=f"{key!r}, a {type(key).__name__}", hint="convert the keys with str()",
                )  # fmt: skip
        items = {key: self.encode(item, (*path, key)) for key, item in value.items()}
        if all(type(key) is str and not key.startswith("$") for key in items):
            return items
        return {"$dict": [[key, item] for key, item in items.items()]}

    def add(self, array, path):
        """Add `array` to the file and return its name; a shared array is stored only once."""
        identity = (backend.address(array), array.shape, array.strides, str(array.dtype))
        if array.size and identity in self.names:
            return self.names[identity]
        if array.dtype.name not in _DTYPES:
            raise DTypeError(
                f"save: the dtype of state{_where(path)} is not supported by the file format",
                got=str(array.dtype), expected=", ".join(_DTYPES),
            )  # fmt: skip
        name = self._free_name(path)
        host = np.asarray(backend.to_host(array), order="C")
        self.arrays[name] = host.astype(host.dtype.newbyteorder("<"), copy=False)
        self.names[identity] = name
        self.kept.append(array)
        return name

    def _free_name(self, path):
        name = ".".join(map(str, path)) or "value"
        if name.isprintable() and name != "__metadata__" and name not in self.arrays:
            return name
        number = len(self.arrays)
        while f"tensor.{number}" in self.arrays:
            number += 1
        return f"tensor.{number}"


def _where(path):
    """Return a path as Python subscripts: `['a'][0]` for `("a", 0)`."""
    return "".join(f"[{key!r}]" for key in path)


def _digest(text, arrays):
    """Return the SHA-256 checksum of a saved state: its JSON `text` and its arrays."""
    import hashlib  # takes 3 ms, so import it only here

    total = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for name in sorted(arrays):
        array = arrays[name]
        total.update(json.dumps([name, array.dtype.name, list(array.shape)]).encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _write(file, metadata, arrays):
    """Write a safetensors file: the header's length, the header as JSON, and the tensors' bytes.

    The functions of the safetensors library need a file name, or a second copy of all bytes in
    memory. This function needs neither: it writes the arrays one by one.
    """
    header, position = {"__metadata__": metadata}, 0
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))  # so all are aligned
    for name in order:
        array = arrays[name]
        end = position + array.nbytes
        header[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for name in order:
        file.write(arrays[name].reshape(-1).view(np.uint8).data)


# Conversion of a file to JSON and arrays


class _Unpacker:
    """Rebuilds a state from its JSON: replaces tags such as {"$tensor": name} with the values."""

    def __init__(self, arrays, device):
        self.arrays = arrays
        self.device = device
        self.tensors = {}
        self.tags = {  # tag -> (type of its content, function that makes the value)
            "$tensor": (str, self.tensor),
            "$array": (str, self.array),
            "$scalar": (str, lambda name: self.array(name)[()]),
            "$float": (str, float),
            "$tuple": (list, lambda items: tuple([self.decode(item) for item in items])),
            "$dict": (list, self.dict),
        }

    def unpack(self, text):
        return self.decode(json.loads(text))

    def decode(self, node):
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        tag = next(iter(node)) if len(node) == 1 else None
        if tag not in self.tags:
            return {key: self.decode(item) for key, item in node.items()}
        kind, make = self.tags[tag]
        if not isinstance(node[tag], kind):
            raise ValueError(f"{tag} must be a {kind.__name__}, not a {type(node[tag]).__name__}")
        return make(node[tag])

    def array(self, name):
        if name not in self.arrays:
            raise ValueError(f"the state names a tensor {name!r}, which is missing")
        return self.arrays[name]

    def dict(self, pairs):
        found = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in (str, int):
                raise ValueError("$dict must hold pairs of a key and a value")
            found[pair[0]] = self.decode(pair[1])
        return found

    def tensor(self, name):
        """Return the Tensor `name`: the same object on every call, so tied weights stay tied."""
        if name not in self.tensors:
            self.tensors[name] = _tensor(self.array(name), self.device)
        return self.tensors[name]


def _tensor(array, device):
    return wrap(array if device is None else backend.from_host(array, device))


def _guarded(name, read, source):
    """Return `read(source)`; convert all errors to CheckpointError."""
    from safetensors import SafetensorError

    try:
        return read(source)
    except OSError as error:
        raise read_error(name, error) from error
    except _Foreign as error:
        raise CheckpointError(
            f"{name} could not be read as a safetensors file",
            got=str(error), expected="a safetensors file with dtypes that NumPy supports",
        ) from None  # fmt: skip
    except _UNREADABLE + (SafetensorError,) as error:
        raise _damaged(name, f"invalid content ({error})") from error


class _Foreign(Exception):
    """Error for a file that is not a safetensors file or that has unsupported dtypes."""


def _damaged(name, what):
    return CheckpointError(
        f"{name} is damaged",
        got=what,
        expected="the complete, unchanged file",
        hint="use an older copy; in a run folder, use --resume previous",
    )


def _read_path(path):
    """Return the metadata and the arrays of the file at a path, read one tensor at a time."""
    from safetensors import safe_open

    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start, header = _read_header(file, size)
    with safe_open(path, framework="np") as file:
        arrays = {
            key: _widened(path, len(start), header[key])
            if header[key]["dtype"] == _BFLOAT16
            else _own(file.get_tensor(key))
            for key in file.keys()
        }
        return file.metadata() or {}, arrays


def _widened(path, start, entry):
    """Read a bfloat16 tensor as float32, whose upper 16 bits are the bits of the bfloat16."""
    begin, end = entry["data_offsets"]
    upper = np.fromfile(path, "<u2", (end - begin) // 2, offset=start + begin)
    return (upper.astype("<u4") << 16).view("<f4").reshape(entry["shape"])


def _read_stream(file):
    """Return the metadata and arrays of an open file. Read no further than the last tensor."""
    from safetensors.numpy import load

    start, header = _read_header(file, None)
    left = max((entry["data_offsets"][1] for entry in _entries(header).values()), default=0)
    data = start + read_up_to(file, left)
    arrays = {key: _own(array) for key, array in load(data).items()}
    return header.get("__metadata__", {}), arrays


def _read_header(file, size):
    """Return the file's bytes up to the end of the header, and the parsed header."""
    start = file.read(8)
    if not isinstance(start, bytes):
        raise _Foreign("a file opened as text; open it with mode 'rb'")
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > _LONGEST:
        raise _Foreign(_kind(start))
    text = file.read(length)
    if text and not text.startswith(b"{"):
        raise _Foreign(_kind(start + text))
    if len(text) < length or (size is not None and size < 8 + length):
        raise ValueError("the file ends within its header")
    header = json.loads(text)
    for name, entry in header.items():
        kind = map_of(TEXT) if name == "__metadata__" else _ENTRY
        if found := kind.problem(entry, name):
            raise ValueError(f"the header's {found[0]} must be {found[2]}")
    dtypes = {entry["dtype"] for entry in _entries(header).values()}
    unknown = dtypes - set(_DTYPES.values()) - ({_BFLOAT16} if size is not None else set())
    if unknown:
        raise _Foreign(f"tensors of dtype {', '.join(sorted(unknown))}")
    return start + text, header


def _entries(header):
    """Return the part of a safetensors header that describes tensors, without the metadata."""
    return {name: entry for name, entry in header.items() if name != "__metadata__"}


def _kind(start):
    """Describe a file that is not a safetensors file, based on its first bytes."""
    if not start:
        return "an empty file"
    if start.startswith(b"PK\x03\x04"):
        return "a zip file, perhaps a PyTorch pickle or an .npz file; neither is supported"
    if start.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        return "a pickle, which can execute code; pickles are not supported"
    return f"a file that begins with {bytes(start[:16])!r}"


def _own(array):
    """Return `array` itself if it is writable, otherwise a copy."""
    return array if array.flags.writeable else array.copy()


def _name_of(file):
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else f"the open {type(file).__name__}"
