"""Read and check the document that the grader writes for each submission."""

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
        If the file could not be read, has another version, or is malformed.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} could not be read", got=str(error)) from None
    return checked(document, str(path))


def checked(document, where="the document"):
    """Check the version and the fields of a document.

    Parameters
    ----------
    document : dict
    where : str
        Name of the document in error messages.

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
            f"{where}: version must be {VERSION}", got=repr(got), expected=str(VERSION),
            hint="use the release of this package that wrote the document, or run the grader again",
        )  # fmt: skip
    _compare(document, _FIELDS, where)
    for part, fields in _PARTS.items():
        _compare(document[part], fields, f"{where}: {part}")
    for number, line in enumerate(document["checks"], 1):
        label = f"{where}: check {number}"
        if not isinstance(line, dict):
            raise DataError(f"{label} must be an object", got=type(line).__name__)
        _compare(line, _CHECK, label)
        if line["status"] not in _STATUSES:
            raise DataError(f"{label}: status is unknown", got=line["status"])
        if not 0 <= line["points"] <= line["max_points"]:
            raise DataError(
                f"{label}: points are out of range", got=str(line["points"]),
                expected=f"from 0 to {line['max_points']}",
            )  # fmt: skip
    total = sum(line["points"] for line in document["checks"])
    if total != document["score"]:
        raise DataError(
            f"{where}: score does not match the sum of the points", got=str(document["score"]),
            expected=str(total), hint="run the grader again with the same --out",
        )  # fmt: skip
    return document


def _compare(table, fields, where):
    for name, types in fields.items():
        value = table.get(name)
        if not isinstance(value, types) or (bool not in types and isinstance(value, bool)):
            raise DataError(
                f"{where}: {name} is missing or malformed", got=repr(value)[:80],
                expected=" or ".join(kind.__name__ for kind in types),
            )  # fmt: skip


def hidden_part(line):
    """Remove the information that must be hidden until grades are published.

    A hidden check keeps its name, its points and its status. Its message is removed, because it
    can contain the inputs.

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
