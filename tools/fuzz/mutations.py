"""Mutations of valid files: damaged bytes, and wrong values in JSON, TOML and other formats.

If `Mutation.wrong` is True, a field has a value of a wrong type, and a reader that uses the field
must refuse the file. After all other mutations, a reader may accept or refuse the file.
"""

import copy
import hashlib
import io
import json
import re
import tomllib
import warnings
import zipfile
from dataclasses import dataclass

__all__ = ["FORMATS", "Mutation", "mutate"]

_DEEP = 100_000  # far more levels than Python's parsers can descend
_HUGE = (2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass
class Mutation:
    """One mutated file.

    Attributes
    ----------
    data : bytes
    what : str
        Description of the change.
    path : tuple
        Keys and indices of the changed value in a JSON or TOML document.
    wrong : bool
        Whether the new value has a type that the field must not have.
    """

    data: bytes
    what: str
    path: tuple = ()
    wrong: bool = False


class _Raw(str):
    """Text to insert verbatim into a JSON or TOML document, such as NaN."""


_STRANGE = [
    None, True, False, 0, 1, -1, 1.5, -0.5, -1e-5, 2, 7, *_HUGE, -(2**31), -(2**63), 10**400,
    _Raw("1e999"), _Raw("-1e999"), _Raw("NaN"), _Raw("Infinity"), _Raw("-Infinity"), 1e300, 5e-324,
    "", "x", "false", "1e-5", "..", "../x", "/", "a\x00b", "\ud800", "é\u202e", "x" * 70_000,
    _Raw("9" * 5000), [], {}, [None], ["x"], [[]], [1, 2], [True, {}], {"x": 1}, {"": None},
    {"type": "x"}, [[1, "x"], {}], _Raw("[" * 200 + "]" * 200),
]  # fmt: skip
_LIST, _TABLE = ["x", {}], {"x": 1}
_NAN, _INFINITY = _Raw("NaN"), _Raw("Infinity")
# Values that a field must not have, by the type of its value in the valid file.
_WRONG = {
    bool: ("false", 2, 0.5, _LIST, _TABLE, _NAN),
    int: (True, "7", 1.5, _LIST, _TABLE, _NAN, _INFINITY),
    float: (True, "1e-5", _LIST, _TABLE, _NAN, _INFINITY, 10**400),
    str: (5, True, 1.5, [{}], _TABLE),
    list: ("x", 5, True, _NAN),
    dict: ("x", 5, True, [5]),
}
_RAW = re.compile(r'"@@RAW(\d+)@@"')


def mutate(data, kind, rng):
    """Return a Mutation of a file.

    Parameters
    ----------
    data : bytes
        Valid file.
    kind : str
        Key of `FORMATS`.
    rng : random.Random
    """
    if rng.random() < 0.15:
        return _bytes(data, rng)
    return FORMATS[kind](data, rng)


# Bytes


def _bytes(data, rng):
    """Damage bytes of the file, without regard to its format."""
    choice, place = rng.randrange(9), rng.randrange(len(data) + 1)
    if choice == 0:
        return Mutation(data[:place], f"truncated after {place} bytes")
    if choice == 1:
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 4, 40)) if data else 0):
            damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return Mutation(bytes(damaged), "flipped bits")
    if choice == 2:
        size, order = rng.choice((1, 2, 4, 8)), rng.choice(("big", "little"))
        number = (rng.choice((*_HUGE, 0, 2**64 - 1)) % (1 << 8 * size)).to_bytes(size, order)
        return Mutation(data[:place] + number + data[place + size :], f"wrote {number!r}")
    if choice == 3:
        inserted = rng.choice((b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"[" * 100, b"\n", b"\x80\x04"))
        return Mutation(data[:place] + inserted + data[place:], f"inserted {inserted[:8]!r}")
    if choice == 4:
        end = rng.randrange(place, len(data) + 1)
        return Mutation(data[:place] + data[end:], f"removed bytes {place} to {end}")
    if choice == 5:
        end = rng.randrange(place, len(data) + 1)
        repeated = data[place:end] * rng.choice((2, 3, 20))
        return Mutation(data[:place] + repeated + data[end:], "repeated some bytes")
    if choice == 6:
        start = rng.choice((b"[", b'{"a":', b"a = [", b"(", b'{"a":[', b"-"))
        return Mutation(start * _DEEP, f"only {start!r}, repeated")
    if choice == 7:
        return Mutation(rng.choice((b"", b"\0" * 64, b"null", b"{}", b"[]", b"5", b'"x"')), "other")
    return Mutation(rng.randbytes(rng.choice((1, 8, 300))), "random bytes")


# JSON and TOML documents


def _paths(value, path=()):
    """Yield the path of every value in a document."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(item, (*path, key))


def _at(document, path):
    for key in path:
        document = document[key]
    return document


def _change(document, rng):
    """Return a changed copy of a document, and a description of the change.

    The result is (copy, what, path, wrong). For the last three, see `Mutation`.
    """
    document = copy.deepcopy(document)
    path = rng.choice([*_paths(document)][1:] or [()])
    if not path:
        return rng.choice(_STRANGE), "replaced the document", (), False
    parent, key, choice = _at(document, path[:-1]), path[-1], rng.random()
    if choice < 0.08:
        del parent[key]
        return document, f"removed {path}", path, False
    if choice < 0.14:
        other = rng.choice([p for p in _paths(document) if p])
        parent[key] = copy.deepcopy(_at(document, other))
        return document, f"copied {other} to {path}", path, False
    if choice < 0.2:
        name, value = rng.choice(("", "x", "version", "type", "$tensor")), rng.choice(_STRANGE)
        if isinstance(parent, dict):
            parent[name] = value
        else:
            parent.insert(key, value)
        return document, f"added {str(value)[:30]!r} beside {path}", path, False
    kind = type(parent[key])
    wrong = kind in _WRONG and rng.random() < 0.5
    value = rng.choice(_WRONG[kind] if wrong else _STRANGE)
    parent[key] = value
    return document, f"set {path} to {str(value)[:30]!r}", path, wrong


def _dumps(document):
    """Return a document as JSON text, with `_Raw` values inserted literally."""
    raw = []

    def replaced(value):
        if isinstance(value, _Raw):
            raw.append(value)
            return f"@@RAW{len(raw) - 1}@@"
        if isinstance(value, dict):
            return {str(key): replaced(item) for key, item in value.items()}
        return [replaced(item) for item in value] if isinstance(value, list) else value

    text = json.dumps(replaced(document))
    return _RAW.sub(lambda match: raw[int(match[1])], text)


def _json(data, rng):
    text, choice = data.decode(), rng.random()
    if choice < 0.03:  # if a key occurs twice, the last value counts
        return Mutation(b'{"x": 1, "x": {}, ' + data.lstrip()[1:], "duplicate keys")
    if choice < 0.06:
        encoding = rng.choice(("utf-16", "utf-32", "utf-8-sig", "cp037"))
        return Mutation(text.encode(encoding, "replace"), f"encoded as {encoding}")
    document, *more = _change(json.loads(text), rng)
    if choice < 0.08 and isinstance(document, dict) and document:
        deep = _Raw("[" * _DEEP + "]" * _DEEP)
        document[rng.choice([*document])] = deep
        return Mutation(_dumps(document).encode(), "a deeply nested value")
    return Mutation(_dumps(document).encode(), *more)


def _jsonl(data, rng):
    lines = data.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    changed = _json(lines[place], rng)
    lines[place] = changed.data + b"\n" * (rng.random() < 0.9)
    return Mutation(b"".join(lines), f"line {place + 1}: {changed.what}")


def _toml_value(value):
    if isinstance(value, dict):
        pairs = (f"{json.dumps(str(key))} = {_toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    literals = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
    if isinstance(value, _Raw):
        return literals.get(value, str(value))
    return "1979-05-27" if value is None else json.dumps(value)


def _toml(data, rng):
    text = data.decode()
    if rng.random() < 0.05:
        line = rng.choice(
            ("x = " + "[" * _DEEP, "a" + ".a" * 5000 + " = 1", "[[x]]", "x = 1\nx = 2")
        )
        return Mutation(f"{line}\n{text}".encode(), f"added {line[:20]!r}")
    document, *more = _change(tomllib.loads(text), rng)
    if not isinstance(document, dict):
        document = {"x": document}
    lines = (f"{json.dumps(key)} = {_toml_value(value)}\n" for key, value in document.items())
    return Mutation("".join(lines).encode("utf-8", "replace"), *more)


# Binary formats


def _safetensors(data, rng):
    length = int.from_bytes(data[:8], "little")
    changed = _json(data[8 : 8 + length], rng)
    if rng.random() < 0.1:
        length = rng.choice((*_HUGE, 0, 1, len(data), len(data) - 8))
    else:
        length = len(changed.data)
    whole = (
        length.to_bytes(8, "little") + changed.data + data[8 + int.from_bytes(data[:8], "little") :]
    )
    return Mutation(whole, f"header: {changed.what}")


def _state(data, rng):
    """Change the JSON state of a file that `mt.save` wrote, and write the matching checksum."""
    from minitorch_attn import serialization as own

    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    metadata = header["__metadata__"]
    changed = _json(metadata[own._STATE].encode(), rng)
    metadata[own._STATE] = changed.data.decode("utf-8", "replace")
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    total = hashlib.sha256(metadata[own._STATE].encode("utf-8", "surrogatepass"))
    names = {code: name for name, code in own._DTYPES.items()}
    for name in sorted(entries):
        start, end = entries[name]["data_offsets"]
        line = [name, names[entries[name]["dtype"]], entries[name]["shape"]]
        total.update(json.dumps(line).encode())
        total.update(data[8 + length + start : 8 + length + end])
    metadata[own._SUM] = total.hexdigest()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    whole = len(text).to_bytes(8, "little") + text + data[8 + length :]
    return Mutation(whole, f"state: {changed.what}")


def _idx(data, rng):
    """Change the dtype, the number of axes or the sizes in an IDX header."""
    choice = rng.randrange(3)
    if choice == 0:
        axes = rng.choice((0, 1, 2, 32, 64, 65, 255))
        sizes = b"".join(rng.choice((0, 1, 1, 2, 2**31)).to_bytes(4, "big") for _ in range(axes))
        return Mutation(data[:3] + bytes([axes]) + sizes + data[-2:], f"{axes} axes")
    place = rng.randrange(2, 16)
    size = rng.choice((0, 1, 2**16, 2**31, 2**32 - 1, 65_535, 30_000))
    if choice == 1:
        return Mutation(data[:place] + rng.randbytes(1) + data[place + 1 :], "changed the header")
    changed = data[:4] + b"".join(
        (size if k == place % 3 else 3).to_bytes(4, "big") for k in range(3)
    )
    return Mutation(changed + data[16:], f"axis {place % 3} has size {size}")


def _wav(data, rng):
    """Change one number in a WAV header, or drop, repeat and reorder the chunks."""
    if rng.random() < 0.3:
        chunks, place = [], 12
        while place < len(data):
            end = place + 8 + int.from_bytes(data[place + 4 : place + 8], "little")
            chunks.append(data[place : end + end % 2])
            place = end + end % 2
        chunks = rng.choices(chunks, k=rng.randrange(5))
        return Mutation(data[:12] + b"".join(chunks), "other chunks")
    place, size = rng.choice([(4, 4), (16, 4), *((20 + 2 * k, 2) for k in range(12)), (40, 4)])
    number = rng.choice((0, 1, 2, 3, 8, 16, 24, 32, 64, 0xFFFE, 2**16 - 1, 2**31, *_HUGE))
    number = (number % (1 << 8 * size)).to_bytes(size, "little")
    return Mutation(data[:place] + number + data[place + size :], f"{number!r} at byte {place}")


def _zip(data, rng):
    """Rewrite a zip file with a strange name or damaged content for one of its members."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    place, choice = rng.randrange(len(members)), rng.random()
    name, content = members[place]
    if choice < 0.6:
        names = ("", "/", ".", "..", "../x", "/etc/x", "a\\b", "C:x", "con", "x" * 300, "é" * 150,
                 "a//b", "a/./b", "a/", "\x01", "x/" * 200 + "x", " ", "x\ny",
                 members[-1][0])  # fmt: skip
        name = rng.choice(names)
    else:
        content = _bytes(content, rng).data
    members[place] = name, content
    buffer = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")  # warnings about duplicate names
        for each, text in members:
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = each, method
            info.external_attr = rng.choice((0, 0, 0, 0o120777 << 16, 0o644 << 16))
            archive.writestr(info, text)
    whole = buffer.getvalue()
    if rng.random() < 0.3:  # damage the central directory, which is at the end
        place = rng.randrange(len(whole) * 2 // 3, len(whole))
        whole = whole[:place] + rng.randbytes(1) + whole[place + 1 :]
    return Mutation(whole, f"member {name[:20]!r}")


def _text(data, rng):
    """Change whole lines of a text file, or characters in them."""
    lines = data.decode().split("\n")
    place, choice = rng.randrange(len(lines)), rng.randrange(6)
    if choice == 0:
        lines[place] = rng.choice(
            ("", "\t", "\0", "x" * 70_000, "\ud800", "# %%", "# %% x", "é\x85")
        )
    elif choice == 1:
        lines.insert(place, lines[rng.randrange(len(lines))])
    elif choice == 2:
        del lines[place]
    elif choice == 3:
        column = rng.randrange(len(lines[place]) + 1)
        added = rng.choice(
            ("[", "]", "(" * 300, "(" * _DEEP, "[" * 300, '"', "'", "=", "{", "1e999", "%")
        )
        lines[place] = lines[place][:column] + added + lines[place][column:]
    elif choice == 4:
        lines[place] = lines[place][: rng.randrange(len(lines[place]) + 1)]
    else:
        words = lines[place].split(" ")
        rng.shuffle(words)
        lines[place] = " ".join(words)
    return Mutation("\n".join(lines).encode("utf-8", "surrogatepass"), f"line {place + 1} changed")


FORMATS = {
    "bytes": _bytes, "idx": _idx, "json": _json, "jsonl": _jsonl, "safetensors": _safetensors,
    "state": _state, "text": _text, "toml": _toml, "wav": _wav,
    "zip": _zip,
}  # fmt: skip
