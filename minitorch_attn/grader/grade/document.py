"""Read and check the document that the grader writes for each submission."""

from ...errors import DataError
from ...schema import (
    COUNT,
    FLAG,
    NON_NEGATIVE,
    TEXT,
    check,
    choice,
    list_of,
    optional,
    read_json,
    record,
)  # fmt: skip

__all__ = ["VERSION", "checked", "hidden_part", "read_document"]

VERSION = 1
_STATUSES = (
    "passed", "failed", "error", "timeout", "crashed", "misbehaved", "not run",
)  # fmt: skip
_TEXTS, _MAY_TEXT, _PLACE = list_of(TEXT), optional(TEXT), optional(list_of(COUNT))
_STEP = record({
    **dict.fromkeys(("file", "text", "name", "what", "kind", "got", "expected", "given"), TEXT),
    **dict.fromkeys(("line", "before", "count", "size"), COUNT),
    **dict.fromkeys(("own", "left", "all_before", "forward", "sampled"), FLAG),
    "in": _MAY_TEXT, "path": _MAY_TEXT, "until": optional(COUNT), "differ": _TEXTS,
    "agree": _TEXTS, "index": _PLACE, "shape": list_of(COUNT), "dtype": TEXT, "largest": _MAY_TEXT,
})  # fmt: skip
_DIFFERENCE = record({}, {"array": TEXT, "index": _PLACE, "got": _MAY_TEXT, "expected": _MAY_TEXT})
_CHECK = record({
    "name": TEXT, "what": TEXT, "of": _TEXTS, "hidden": FLAG, "points": NON_NEGATIVE,
    "max_points": NON_NEGATIVE, "status": choice(*_STATUSES), "message": TEXT,
    "seconds": NON_NEGATIVE,
}, {
    "gradcheck": _MAY_TEXT, "first_step": optional(_STEP),
    "first_difference": optional(_DIFFERENCE), "same_as": _MAY_TEXT, "follows": _MAY_TEXT,
})  # fmt: skip
_FILE = record({"path": TEXT, "bytes": COUNT, "sha256": TEXT})
_DOCUMENT = record({
    "assignment": record(
        {"name": TEXT, "title": TEXT, "version": TEXT, "points": NON_NEGATIVE}, {"digest": TEXT}
    ),
    "grader": record({"version": TEXT, "sandbox": COUNT, "time": TEXT}),
    "submission": record(
        {"name": TEXT, "digest": TEXT, "files": list_of(_FILE), "problems": _TEXTS}
    ),
    "status": TEXT, "score": NON_NEGATIVE, "max_score": NON_NEGATIVE, "checks": list_of(_CHECK),
    "output": TEXT, "seconds": NON_NEGATIVE,
}, {"detail": TEXT})  # fmt: skip


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
        If the file could not be read, has a different version, or is malformed.
    """
    return checked(read_json(path), str(path))


def checked(document, where="the document"):
    """Check the version, the fields and the points of a document, and return it.

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
    if not isinstance(document, dict) or not choice(VERSION).accepts(document.get("version")):
        got = document.get("version") if isinstance(document, dict) else type(document).__name__
        raise DataError(
            f"{where}: version must be {VERSION}", got=repr(got), expected=str(VERSION),
            hint="use the release of this package that wrote the document, or run the grader again",
        )  # fmt: skip
    check(document, _DOCUMENT, where)
    for number, line in enumerate(document["checks"], 1):
        earned = line["max_points"] if line["status"] == "passed" else 0
        if line["points"] != earned:
            raise DataError(
                f"{where}: check {number}: points do not match the status {line['status']}",
                got=str(line["points"]), expected=f"{earned}",
                hint="run the grader again with the same --out",
            )  # fmt: skip
    total = sum(line["points"] for line in document["checks"])
    if document["status"] not in ("graded", "not readable", "not graded"):
        raise DataError(f"{where}: status is unknown", got=document["status"])
    if total != document["score"]:
        raise DataError(
            f"{where}: score does not match the sum of the points", got=str(document["score"]),
            expected=str(total), hint="run the grader again with the same --out",
        )  # fmt: skip
    return document


def hidden_part(line):
    """Remove from a check's result what must be hidden until grades are published.

    A hidden check keeps its name, its points and its status. Its message and explanations are
    removed, because they can contain the inputs.

    Parameters
    ----------
    line : dict

    Returns
    -------
    dict
    """
    if not line["hidden"]:
        return line
    nothing = dict.fromkeys(("gradcheck", "first_difference", "first_step", "same_as", "follows"))
    return {**line, "message": "", **nothing}
