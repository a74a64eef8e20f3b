"""Schema: read JSON and TOML files, and check their fields against a table of types.

Each file format has one table, which maps the names of the fields to kinds of values, such as
`SIZE` or `list_of(TEXT)`. `check` compares a whole file with the table of its format. If a field
does not match, it raises an error that names the first such field.
"""

import json
import math
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass

from .errors import DataError
from .files import read_error

__all__ = [
    "ANY", "COUNT", "FLAG", "INTEGER", "NON_NEGATIVE", "NUMBER", "SHARE", "SIZE", "TEXT", "Kind",
    "check", "choice", "either", "like", "list_of", "map_of", "number_from", "optional",
    "parse_json", "read_json", "read_toml", "read_utf8", "record",
]  # fmt: skip

_LARGEST = 2**63 - 1  # the largest int64, the dtype of sizes and ids


def read_json(path, error=DataError):
    """Read a JSON object from a file.

    Parameters
    ----------
    path : str or path
    error : class, default DataError
        Class of the error to raise if the file could not be read or is not a JSON object.

    Returns
    -------
    dict

    Raises
    ------
    DataError, or the class `error`
        If the file could not be read, or is not a JSON object. NaN and infinities are not JSON.
    """
    value = parse_json(read_utf8(path, error), os.fspath(path), error)
    if not isinstance(value, dict):
        raise error(
            f"{os.fspath(path)} must contain a JSON object",
            got=_shown(value), expected="{...}", hint="copy the file from its source again",
        )  # fmt: skip
    return value


def read_utf8(path, error=DataError):
    """Read a text file in UTF-8. The parameters and errors are those of `read_json`."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as found:
        raise read_error(path, found, error) from None
    except ValueError as found:  # not UTF-8, or a path that contains a null character
        raise error(f"{os.fspath(path)} could not be read as text", got=str(found)) from None


def parse_json(text, where, error=DataError):
    """Parse JSON text. `where` names the source of the text in error messages."""
    try:
        return json.loads(text, parse_constant=_not_finite, parse_float=_finite)
    except (ValueError, RecursionError) as found:
        raise error(
            f"{where} is not valid JSON",
            got=_reason(found), hint="the file may be incomplete: copy or download it again",
        ) from None  # fmt: skip


def read_toml(path, error=DataError):
    """Read a TOML file as a dict. The parameters and errors are those of `read_json`."""
    try:
        return tomllib.loads(read_utf8(path, error))
    except (ValueError, RecursionError) as found:
        raise error(f"{os.fspath(path)} is not valid TOML", got=_reason(found)) from None


def _reason(error):
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _not_finite(text):
    raise ValueError(f"{text} is not a JSON number")


def _finite(text):
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text[:40])


# Kinds of values


@dataclass(frozen=True)
class Kind:
    """Set of the values that a field may have.

    Attributes
    ----------
    expected : str
        Description of the values for error messages.
    accepts : callable
        Function that returns whether a value is accepted. It does not look at the value's parts.
    parts : callable
        Function that returns (name, value, kind) for each part of a value, such as the items of a
        list.
    """

    expected: str
    accepts: Callable
    parts: Callable = lambda value: ()

    def problem(self, value, name):
        """Return (name, value, expected) for the first invalid value, or None.

        `value` itself is checked first, then its parts, which have dotted names.
        """
        if not self.accepts(value):
            return name, value, self.expected
        for part, inner, kind in self.parts(value):
            found = kind.problem(inner, f"{name}.{part}" if name else str(part))
            if found:
                return found
        return None


def check(value, kind, where, error=DataError, hint=None):
    """Raise an error that names the first field whose value does not match its kind.

    Parameters
    ----------
    value : object
        Content of a file.
    kind : Kind
    where : str
        Name of the file for error messages.
    error : class, default DataError
    hint : str, optional

    Examples
    --------
    >>> table = record({"layers": SIZE}, {"names": list_of(TEXT)})
    >>> check({"layers": 2, "names": ["a"]}, table, "config.json")
    >>> check({"layers": True}, table, "config.json")
    Traceback (most recent call last):
    ...
    minitorch_attn.errors.DataError: config.json: the value of layers is invalid
      got       True
      expected  a positive integer
    """
    found = kind.problem(value, "")
    if not found:
        return
    name, value, expected = found
    if value is _MISSING:
        raise error(f"{where}: {name} is missing", expected=expected, hint=hint)
    message = f"the value of {name} is invalid" if name else "the content is invalid"
    raise error(f"{where}: {message}", got=_shown(value), expected=expected, hint=hint)


def _shown(value):
    """Format the start of a value. Formatting all of a huge integer or a deep list would fail."""
    if isinstance(value, int) and abs(value) > 10**40:
        return "an integer of more than 40 digits"
    if isinstance(value, dict | list):
        return f"{'a table' if isinstance(value, dict) else 'a list'} of {len(value)} entries"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


_MISSING = object()


def _is_integer(value, low=-_LARGEST - 1):
    return type(value) is int and low <= value <= _LARGEST


def _is_number(value):
    return type(value) in (int, float) and -1.7e308 < value < 1.7e308  # so NaN is rejected


ANY = Kind("any value", lambda value: True)
TEXT = Kind("a string", lambda value: isinstance(value, str) and _is_unicode(value))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
INTEGER = Kind("an integer", _is_integer)
COUNT = Kind("a non-negative integer", lambda value: _is_integer(value, 0))
SIZE = Kind("a positive integer", lambda value: _is_integer(value, 1))
NUMBER = Kind("a finite number", _is_number)
NON_NEGATIVE = Kind("a non-negative number", lambda value: _is_number(value) and value >= 0)
_OBJECT = Kind("an object {...}", lambda value: isinstance(value, dict))


def _is_unicode(text):
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def number_from(low, high):
    """Return a Kind that accepts the numbers from `low` to `high`."""
    return Kind(f"a number from {low} to {high}", lambda n: _is_number(n) and low <= n <= high)


SHARE = number_from(0, 1)


def optional(kind):
    """Return a Kind that accepts null and the values that `kind` accepts."""
    return Kind(
        f"{kind.expected}, or null",
        lambda value: value is None or kind.accepts(value),
        lambda value: () if value is None else kind.parts(value),
    )


def either(*kinds):
    """Return a Kind that accepts the values that at least one of `kinds` accepts."""
    return Kind(
        " or ".join(kind.expected for kind in kinds),
        lambda value: any(kind.accepts(value) for kind in kinds),
        lambda value: next(kind for kind in kinds if kind.accepts(value)).parts(value),
    )


def choice(*values):
    """Return a Kind that accepts only values equal to one of `values`.

    True does not match 1, but a member of an IntEnum matches an equal integer.
    """
    known = {(isinstance(value, bool), value) for value in values}
    return Kind(
        f"one of {', '.join(map(repr, values))}",
        lambda value: isinstance(value, str | int) and (isinstance(value, bool), value) in known,
    )


def list_of(kind, *lengths):
    """Return a Kind that accepts lists and tuples whose items match `kind`.

    With `lengths`, the number of items must be one of `lengths`.
    """
    several = f" of {' or '.join(map(str, lengths))}" if lengths else ""
    return Kind(
        f"a list{several}, each item {kind.expected}",
        lambda value: isinstance(value, list | tuple) and (not lengths or len(value) in lengths),
        lambda value: ((i, item, kind) for i, item in enumerate(value)),
    )


def map_of(kind):
    """Return a Kind that accepts JSON objects with any keys, whose values match `kind`."""
    return Kind(
        f"an object, each value {kind.expected}",
        _OBJECT.accepts,
        lambda value: ((key, item, kind) for key, item in value.items()),
    )


def like(value):
    """Return a Kind for values of the same type as `value`; if `value` is None, for any value.

    Examples
    --------
    >>> like(0.1).expected, like((2, 2)).expected
    ('a finite number', 'a list, each item an integer')
    """
    for kind, types in (
        (FLAG, bool),
        (INTEGER, int),
        (NUMBER, float),
        (TEXT, str),
        (_OBJECT, dict),
    ):
        if isinstance(value, types):
            return kind
    return list_of(like(value[0])) if isinstance(value, list | tuple) and value else ANY


def record(required, others=None, closed=False):
    """Return a Kind that accepts objects with the `required` fields and, optionally, the `others`.

    Parameters
    ----------
    required, others : dict of str to Kind
    closed : bool, default False
        Whether to reject all other fields. If False, other fields may have any value.
    """
    table = {**(others or {}), **required}
    unknown = Kind(f"only the fields {', '.join(table)}", lambda value: not closed)

    def parts(value):
        for name in {**value, **required}:
            yield name, value.get(name, _MISSING), table.get(name, unknown)

    return Kind(_OBJECT.expected, _OBJECT.accepts, parts)
