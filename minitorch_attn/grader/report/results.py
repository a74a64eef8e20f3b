"""`results.json`: collect the results of a class in one file, the source of all reports."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

from ...errors import DataError, MiniTorchError
from ...files import write_json
from ..grade.archive import name_of, submissions_in
from ..grade.grade_class import slug
from .document import VERSION, checked, read_document

__all__ = ["collect", "forget_others", "read_results", "statistics"]


def collect(task, folder, out, why="not graded yet"):
    """Collect all documents in the results folder, and write `results.json`.

    Parameters
    ----------
    task : Task
    folder : path
        Folder of submissions. The result includes all of them, graded or not.
    out : path
        Results folder. A student whose submission was removed remains in the result until
        `forget_others` removes the document.
    why : str
        Message for submissions that were not graded.

    Returns
    -------
    dict
        The content of `results.json`.
    """
    out = Path(out)
    paths = {slug(path.name): path for path in submissions_in(folder)}
    submissions, missing = [], []
    for name in sorted({*paths, *(path.stem for path in (out / "state").glob("*.json"))}):
        try:
            document = read_document(out / "state" / f"{name}.json")
            same = document["assignment"].get("digest", "") == task.digest
            submissions.append({"folder": name, **document, "outdated": not same})
        except MiniTorchError:
            if name in paths:
                missing.append(_missing(name, paths[name], why))
    submissions.sort(key=lambda document: document["submission"]["name"])
    results = {
        "version": VERSION,
        "assignment": {
            "name": task.name, "title": task.title, "version": task.version, "points": task.points,
            "entries": [
                {"name": e.name, "what": e.what, "points": e.points, "hidden": e.hidden}
                for e in task.entries
            ],
        },
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": not missing and all(d["status"] != "not graded" for d in submissions),
        "submissions": submissions,
        "not_graded": missing,
    }  # fmt: skip
    write_json(out / "results.json", results)
    return results


def _missing(name, path, why):
    shown = path.name.encode(errors="replace").decode()
    return {"folder": name, "name": name_of(path), "submission": shown, "message": why}


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
    """Read `results.json` in a folder.

    Parameters
    ----------
    folder : path

    Returns
    -------
    dict

    Raises
    ------
    DataError
        If the file is missing, has another version, or is malformed.
    """
    path = Path(folder) / "results.json"
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"{folder}: results.json is missing", expected="the --out folder of `mta course grade`",
            hint="mta course grade ASSIGNMENT SUBMISSIONS --out DIR",
        ) from None  # fmt: skip
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} could not be read",
            got=str(error),
            hint="run `mta course grade ASSIGNMENT SUBMISSIONS --out DIR` to write it again",
        ) from None
    if not isinstance(results, dict) or results.get("version") != VERSION:
        got = results.get("version") if isinstance(results, dict) else type(results).__name__
        hint = "run the grader again"
        raise DataError(f"{path}: version must be {VERSION}", got=repr(got), hint=hint)
    for name, kind in (("assignment", dict), ("submissions", list), ("not_graded", list)):
        if not isinstance(results.get(name), kind):
            raise DataError(f"{path}: {name} is missing or malformed", hint="run the grader again")
    for number, document in enumerate(results["submissions"], 1):
        checked(document, f"{path}: submission {number}")
    return results


def statistics(results):
    """Compute the statistics of a class, overall and for each check.

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
