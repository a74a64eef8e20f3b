"""`results.json`: collect the results of a class in one file, the source of all reports."""

import csv
import shutil
from datetime import UTC, datetime
from pathlib import Path

from ...errors import DataError, MiniTorchError
from ...files import write_json
from ...schema import (
    FLAG,
    NON_NEGATIVE,
    TEXT,
    check,
    choice,
    list_of,
    read_json,
    record,
)  # fmt: skip
from ..grade.archive import name_of, passed_over, shown, submissions_in
from ..grade.document import VERSION, checked, read_document
from ..grade.grade_class import is_outdated, slug
from ..grade.run_file import run_id

__all__ = [
    "collect", "described", "forget_others", "listed", "read_results", "read_roster", "statistics",
    "write_results",
]  # fmt: skip

_ENTRY = record({"name": TEXT, "what": TEXT, "points": NON_NEGATIVE, "hidden": FLAG})
_RESULTS = record({
    "version": choice(VERSION),
    "assignment": record({
        "name": TEXT, "title": TEXT, "version": TEXT, "points": NON_NEGATIVE,
        "entries": list_of(_ENTRY),
    }),
    "complete": FLAG,
    "submissions": list_of(record({"folder": TEXT}, {"outdated": FLAG})),
    "not_graded": list_of(record(dict.fromkeys(("folder", "name", "submission", "message"), TEXT))),
}, {"shard": TEXT})  # fmt: skip


def collect(task, folder, out, why="not graded yet", roster=(), shard=None):
    """Collect the results of all submissions, and write them to `results.json`.

    Parameters
    ----------
    task : Task
    folder : path
        Folder of submissions. The results include every submission, graded or not.
    out : path
        Results folder. A student whose submission was removed remains in the result until
        `forget_others` removes the document.
    why : str
        Message for submissions that were not graded.
    roster : sequence of str
        Names of all students in the class.
    shard : Shard, optional
        Part of the submissions to include.

    Returns
    -------
    dict
        The content of `results.json`.
    """
    found = {
        "submissions": listed(folder), "roster": list(roster),
        "passed_over": [{"name": name, "why": reason} for name, reason in passed_over(folder)],
    }  # fmt: skip
    return write_results(task, found, out, lambda entry: why, shard)


def listed(folder):
    """List the submissions in a folder, sorted by the name of the student's report folder.

    Parameters
    ----------
    folder : path

    Returns
    -------
    list of dict
        Fields `folder`, `name` and `submission` (file name).
    """
    entries = [
        {"folder": slug(path.name), "name": name_of(path), "submission": shown(path.name)}
        for path in submissions_in(folder)
    ]
    return sorted(entries, key=lambda entry: entry["folder"])


def write_results(task, found, out, why, shard=None):
    """Write `results.json` from the JSON documents in the results folder, one per submission.

    Parameters
    ----------
    task : Task
    found : dict
        Fields `submissions` (see `listed`), `passed_over` (entries of the folder that are not
        graded, with the reasons) and `roster` (names of all students).
    out : path
        Results folder.
    why : callable
        Function that takes an entry of `submissions`, and returns the reason why it was not graded.
    shard : Shard, optional
        Part of the submissions to include.

    Returns
    -------
    dict
        The content of `results.json`.
    """
    out, run = Path(out), run_id(out)
    known = {
        entry["folder"]: entry for entry in found["submissions"]
        if shard is None or shard.contains(entry["folder"])
    }  # fmt: skip
    submissions, missing = [], []
    for name in sorted({*known, *(path.stem for path in (out / "state").glob("*.json"))}):
        try:
            document = read_document(out / "state" / f"{name}.json")
            outdated = is_outdated(document, task, run)
            submissions.append({"folder": name, **document, "outdated": outdated})
        except MiniTorchError:
            if name in known:
                missing.append({**known[name], "message": why(known[name])})
    submissions.sort(key=lambda document: document["submission"]["name"])
    results = {
        "version": VERSION,
        "assignment": described(task),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": not missing and all(d["status"] != "not graded" for d in submissions),
        "submissions": submissions,
        "not_graded": missing,
        "passed_over": found["passed_over"],
        **_compared(found, submissions),
        **({} if shard is None else {"shard": str(shard)}),
    }  # fmt: skip
    write_json(out / "results.json", results)
    return results


def described(task):
    """Return the fields of `results.json` that describe the assignment."""
    return {
        "name": task.name, "title": task.title, "version": task.version, "points": task.points,
        "entries": [
            {"name": e.name, "what": e.what, "points": e.points, "hidden": e.hidden}
            for e in task.entries
        ],
    }  # fmt: skip


def _compared(found, submissions):
    """Return the students without a submission, and the names that are not on the roster."""
    names, roster = {document["submission"]["name"] for document in submissions}, found["roster"]
    names |= {entry["name"] for entry in found["submissions"]}
    return {
        "not_handed_in": [name for name in roster if name not in names],
        "not_on_roster": sorted(names.difference(roster)) if roster else [],
    }


def read_roster(path):
    """Read the students' names: one on each line, or the column `name` of a CSV file.

    Parameters
    ----------
    path : path

    Returns
    -------
    list of str
        Names without duplicates, in the order of the file.

    Raises
    ------
    DataError
        If the file is not UTF-8 text or does not contain any names.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: the roster could not be read", got=str(error)) from None
    heads = [head.lower() for head in rows[0]] if rows else []
    if "name" in heads:
        place, rows = heads.index("name"), rows[1:]
        names = [row[place] for row in rows if len(row) > place]
    else:
        names = [",".join(row) for row in rows]
    names = list(dict.fromkeys(name for name in names if name))
    if not names:
        raise DataError(
            f"{path}: the roster does not contain any names", got=f"{len(rows)} lines",
            expected="a name on each line, or a CSV file with the column `name`",
        )  # fmt: skip
    return names


def forget_others(folder, out):
    """Remove the results and reports of students who are not among the submissions.

    Parameters
    ----------
    folder : path
        Folder of submissions.
    out : path
        Folder of results.

    Returns
    -------
    list of str
        Names of the report folders that were removed.
    """
    present = {slug(path.name) for path in submissions_in(folder)}
    gone = [
        path for path in sorted((Path(out) / "state").glob("*.json")) if path.stem not in present
    ]
    for path in gone:
        path.unlink()
        shutil.rmtree(Path(out) / "students" / path.stem, ignore_errors=True)
    return [path.stem for path in gone]


def read_results(folder):
    """Read `results.json` from a results folder.

    Parameters
    ----------
    folder : path

    Returns
    -------
    dict

    Raises
    ------
    DataError
        If the file is missing, has a different version, or is malformed.
    """
    path = Path(folder) / "results.json"
    if not path.exists():
        raise DataError(
            f"{folder}: results.json is missing", expected="the --out folder of `mta course grade`",
            hint="mta course grade ASSIGNMENT SUBMISSIONS --out DIR",
        )  # fmt: skip
    results = read_json(path)
    check(results, _RESULTS, path, hint="run the grader again")
    for number, document in enumerate(results["submissions"], 1):
        checked(document, f"{path}: submission {number}")
    return results


def statistics(results):
    """Compute the statistics of a graded class, overall and for each check.

    Parameters
    ----------
    results : dict

    Returns
    -------
    dict
        Fields `scores`, `mean`, `median` and `entries`. An entry has `name`, `points`, `hidden`,
        `of` (number of graded submissions), `passed` (how many passed), `reached` (passed / of).
    """
    documents = [d for d in results["submissions"] if d["status"] != "not graded"]
    scores = sorted(document["score"] for document in documents)
    middle = len(scores) // 2
    median = mean = None
    if scores:
        mean = sum(scores) / len(scores)
        median = (scores[middle] + scores[~middle]) / 2
    entries = []
    for entry in results["assignment"]["entries"]:
        lines = [
            line for d in documents for line in d["checks"] if line["name"] == entry["name"]
        ]  # fmt: skip
        passed = sum(line["status"] == "passed" for line in lines)
        entries.append({
            "name": entry["name"], "points": entry["points"], "hidden": entry["hidden"],
            "passed": passed, "of": len(lines),
            "reached": passed / len(lines) if lines else None,
        })  # fmt: skip
    return {"scores": scores, "mean": mean, "median": median, "entries": entries}
