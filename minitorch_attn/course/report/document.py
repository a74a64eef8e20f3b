"""The documents of the grader: one for each submission, read and checked here."""

import json
from pathlib import Path

from ...errors import DataError

__all__ = ["VERSION", "checked", "hidden_part", "read_document"]

VERSION = 1
_STATUSES = (
    "passed", "failed", "error", "timeout", "crashed", "misbehaved", "not run",
)  # fmt: skip
_TEXT, _NUMBER = (str,), (int, float)
_FIELDS = {
    "assignment": (dict,), "grader": (dict,), "submission": (dict,), "status": _TEXT,
    "score": _NUMBER, "max_score": _NUMBER, "checks": (list,), "output": _TEXT,
    "seconds": _NUMBER,
}  # fmt: skip
_PARTS = {
    "assignment": {"name": _TEXT, "title": _TEXT, "version": _TEXT, "points": _NUMBER},
    "grader": {"version": _TEXT, "sandbox": (int,), "time": _TEXT},
    "submission": {"name": _TEXT, "digest": _TEXT, "files": (list,), "problems": (list,)},
}
_CHECK = {
    "name": _TEXT, "what": _TEXT, "of": (list,), "hidden": (bool,), "points": _NUMBER,
    "max_points": _NUMBER, "status": _TEXT, "message": _TEXT, "seconds": _NUMBER,
}  # fmt: skip


def read_document(path):
    """Read the document of one submission.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict

    Raises
    ------
    DataError
        If it cannot be read, is of another version, or is not whole.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} could not be read.", got=str(error)) from None
    return checked(document, str(path))


def checked(document, where="the document"):
    """A document, if it is of this version and whole.

    Parameters
    ----------
    document : dict
    where : str
        For the message.

    Returns
    -------
    dict

    Raises
    ------
    DataError
    """
    if not isinstance(document, dict) or document.get("version") != VERSION:
        got = document.get("version") if isinstance(document, dict) else type(document).__name__
        raise DataError(
            f"{where} is of another version.", got=repr(got), expected=str(VERSION),
            hint="use the release of this package that wrote it, or grade again",
        )  # fmt: skip
    _compare(document, _FIELDS, where)
    for part, fields in _PARTS.items():
        _compare(document[part], fields, f"{where}: {part}")
    for number, line in enumerate(document["checks"], 1):
        label = f"{where}: check {number}"
        if not isinstance(line, dict):
            raise DataError(f"{label} is no table.", got=type(line).__name__)
        _compare(line, _CHECK, label)
        if line["status"] not in _STATUSES:
            raise DataError(f"{label} has an unknown status.", got=line["status"])
        if not 0 <= line["points"] <= line["max_points"]:
            raise DataError(f"{label} has impossible points.", got=str(line["points"]))
    total = sum(line["points"] for line in document["checks"])
    if total != document["score"]:
        raise DataError(
            f"{where}: the score is not the sum of its checks.", got=str(document["score"]),
            expected=str(total),
        )  # fmt: skip
    return document


def _compare(table, fields, where):
    for name, types in fields.items():
        value = table.get(name)
        if not isinstance(value, types) or (bool not in types and isinstance(value, bool)):
            raise DataError(
                f"{where} lacks {name}, or has it wrong.", got=repr(value)[:80],
                expected=" or ".join(kind.__name__ for kind in types),
            )  # fmt: skip


def hidden_part(line):
    """What a student may know of an entry before marks are published.

    Of a hidden entry that is its name, its points and its status: a message can hold the inputs.

    Parameters
    ----------
    line : dict

    Returns
    -------
    dict
    """
    if not line["hidden"]:
        return line
    nothing = dict.fromkeys(("gradcheck", "first_difference", "first_step"))
    return {**line, "message": "", **nothing}
