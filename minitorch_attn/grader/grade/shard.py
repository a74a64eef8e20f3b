"""Shard of a class: the part of the submissions that one of several machines grades.

The hash of a submission's file name determines its shard. A submission therefore always belongs to
the same shard, even if other submissions are added later.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import ArgumentError, DataError
from ...files import write_json
from ...schema import (
    FLAG,
    NON_NEGATIVE,
    SIZE,
    TEXT,
    Kind,
    check,
    choice,
    list_of,
    map_of,
    read_json,
    record,
)  # fmt: skip
from .document import VERSION

__all__ = ["MAX_SHARDS", "SHARD_FILE", "Shard", "begin_shard", "read_shard", "write_shard"]

MAX_SHARDS, SHARD_FILE = 10_000, "shard.json"
_TEXT = re.compile(r"([1-9]\d{0,4})/([1-9]\d{0,4})")
_SLUG = re.compile(r"[\w-]{1,60}-[0-9a-f]{12}")  # see `slug`
_FOLDER = Kind(
    "the name of a student's folder", lambda text: TEXT.accepts(text) and _SLUG.fullmatch(text)
)
_BEGUN = record({"version": choice(VERSION), "shard": SIZE, "of": SIZE, "listed": FLAG})
_ENTRY = record({"name": TEXT, "what": TEXT, "points": NON_NEGATIVE, "hidden": FLAG})
_LISTED = record({
    "assignment": record({
        "name": TEXT, "title": TEXT, "version": TEXT, "points": NON_NEGATIVE,
        "entries": list_of(_ENTRY),
    }),
    "digest": TEXT, "why": TEXT, "roster": list_of(TEXT),
    "submissions": list_of(record({"folder": _FOLDER, "name": TEXT, "submission": TEXT})),
    "passed_over": list_of(record({"name": TEXT, "why": TEXT})),
    "results": map_of(TEXT),
})  # fmt: skip


@dataclass(frozen=True)
class Shard:
    """Part of a class of students. Each part is graded on its own machine.

    Attributes
    ----------
    number : int
        Number of this shard, from 1 to `of`.
    of : int
        Number of shards.

    Examples
    --------
    >>> shard = Shard.parse("3/8")
    >>> shard.number, str(shard)
    (3, '3/8')
    >>> [Shard(number, 2).contains("Ada-d6e6ac8c4a1c") for number in (1, 2)]
    [True, False]
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text):
        """Parse text such as "3/8", the third of eight shards."""
        found = _TEXT.fullmatch(text)
        number, of = map(int, found.groups()) if found else (1, 0)
        if not number <= of <= MAX_SHARDS:
            raise ArgumentError(
                "the shard must be K/N with K from 1 to N", got=text,
                expected=f"for example 3/8; N must be at most {MAX_SHARDS:,}",
            )  # fmt: skip
        return cls(number, of)

    @classmethod
    def of_submission(cls, folder, of):
        """Return a submission's shard, given its report folder and the number of shards `of`."""
        return cls(int(folder[-12:], 16) % of + 1, of)

    def contains(self, folder):
        """Return whether this shard grades a submission, given the name of its report folder."""
        return self == Shard.of_submission(folder, self.of)

    def __str__(self):
        return f"{self.number}/{self.of}"


def begin_shard(out, shard):
    """Check that a results folder is unused or belongs to `shard`, and mark an unused folder.

    The mark is an unfinished `shard.json`. A run for the whole class does not write one.

    Parameters
    ----------
    out : path
        Folder of results.
    shard : Shard or None
        None for a run that grades the whole class.

    Raises
    ------
    ArgumentError
        If the folder contains the results of another shard, or of the whole class.
    """
    path, wanted = Path(out) / SHARD_FILE, f"shard {shard}" if shard else "the whole class"
    held = None
    if path.exists():
        found = read_shard(path)
        held = f"shard {found['shard']}/{found['of']}"
    elif (Path(out) / "run.json").exists():
        held = "the whole class"
    if held not in (None, wanted):
        raise ArgumentError(
            f"grade: the results in {out} are for {held}", got=wanted, expected=held,
            hint="grade into another folder; each shard needs its own",
        )  # fmt: skip
    if shard is not None and held is None:
        write_shard(out, shard, listed=False)


def write_shard(out, shard, *, listed, **fields):
    """Write `shard.json`: the number of a shard and, once it is graded, its results.

    Parameters
    ----------
    out : path
        Folder of results.
    shard : Shard
    listed : bool
        Whether the run has ended and `fields` contain the list of results. It is False while
        submissions are graded, and stays False if the process is killed.
    **fields
        All other fields of the file.
    """
    begun = {"version": VERSION, "shard": shard.number, "of": shard.of, "listed": listed}
    write_json(Path(out) / SHARD_FILE, {**begun, **fields})


def read_shard(path):
    """Read `shard.json`.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict

    Raises
    ------
    DataError
        If the file could not be read or is malformed.
    """
    hint = "copy the folder again, or grade this shard into another folder"
    found = read_json(path)
    check(found, _BEGUN, path, hint=hint)
    if found["listed"]:
        check(found, _LISTED, path, hint=hint)
    if not found["shard"] <= found["of"] <= MAX_SHARDS:
        raise DataError(
            f"{path}: the number of the shard is out of range", hint=hint,
            got=f"{found['shard']}/{found['of']}", expected="K/N with K from 1 to N",
        )  # fmt: skip
    for folder in found.get("results", ()):
        check({"folder": folder}, record({"folder": _FOLDER}), path, hint=hint)
    return found
