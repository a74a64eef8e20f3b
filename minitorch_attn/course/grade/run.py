"""A whole class: submissions graded side by side, every result kept as soon as it is there.

The folder of results holds `run.json` (what is graded, and the seed of the inputs) and
`state/NAME.json`, one document for each submission. Started again, a run goes on with the
submissions whose document is missing, or belongs to other files, other checks or another grader.
"""

import json
import os
import queue
import re
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import numpy as np

from ...errors import ArgumentError, DataError
from ...files import write_json
from .archive import read_submission, submissions_in
from .sandbox import Limits, Sandbox
from .session import Session

__all__ = ["ChecksFailed", "Stopped", "grade_class", "grade_one", "slug"]

VERSION = 1  # of the documents
_PACKAGE = sys.modules[__name__.partition(".")[0]]


class ChecksFailed(Exception):
    """The checks of an assignment could not be made, so nobody can be graded."""


class Stopped(Exception):
    """The run ends before a submission is graded."""


def grade_class(task, folder, out, *, level=None, jobs=1, limits=None, report=None):
    """Grade every submission in a folder.

    Parameters
    ----------
    task : Task
    folder : path
        Holds a folder or an archive for each student.
    out : path
        The folder of results, made if it is not there.
    level : {1, 2, 3}, optional
        Of the sandbox; the highest that works by default.
    jobs : int
        How many submissions are graded at once.
    limits : Limits, optional
    report : callable, optional
        `report(document, done, total, how)` after each submission: "new", "kept" from an earlier
        run, or graded again since the submission has "changed", or the checks are "others".

    Returns
    -------
    list of dict
        The documents, by name.

    Raises
    ------
    ArgumentError
        If that level does not work here, or nothing was handed in.
    ChecksFailed
        If `checks.py` raises an error.

    Notes
    -----
    Whatever else is raised, Ctrl-C or a full disk: what was graded is kept.
    """
    level = Sandbox.best() if level is None else level
    why = Sandbox(level).works()
    if why is not None:
        raise ArgumentError(
            f"grade: sandbox level {level} does not work here.", got=why,
            hint="`mta doctor` says what is missing",
        )  # fmt: skip
    paths = submissions_in(folder)
    if not paths:
        raise ArgumentError(
            "grade: there are no submissions.", got=f"{folder}",
            expected="a folder or an archive for each student",
        )  # fmt: skip
    out = Path(out)
    (out / "state").mkdir(parents=True, exist_ok=True)
    checks = _checks(task, _seed(task, out))
    places = queue.SimpleQueue()
    for place in range(jobs):
        places.put(place)
    documents, stop = [], threading.Event()

    def work(path):
        place = places.get()
        try:
            if stop.is_set():
                raise Stopped
            sandbox = Sandbox(level, limits or Limits(), place)
            return _kept(task, checks, path, out, sandbox, stop)
        except BaseException:  # what is next would take up the place before anybody sees this
            stop.set()
            raise
        finally:
            places.put(place)

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, path) for path in paths]
        try:
            for future in as_completed(futures):
                document, how = future.result()
                documents.append(document)
                if report is not None:
                    report(document, len(documents), len(paths), how)
        except BaseException:  # Ctrl-C, a full disk: what runs ends with the check at hand
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return sorted(documents, key=lambda document: document["submission"]["name"])


def _checks(task, seed):
    try:
        return task.checks(seed)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).name == "checks.py"]
        place = f"checks.py, line {lines[-1]}: " if lines else "checks.py: "
        raise ChecksFailed(f"{place}{type(error).__name__}: {error}") from error


def _seed(task, out):
    """The seed of this run's inputs: drawn by the operating system once, then kept."""
    path = out / "run.json"
    if path.exists():
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
            same = run["assignment"] == task.name and run["assignment_version"] == task.version
            seed = int(run["seed"], 16)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}: this is not the file of a grading run.", got=str(error),
                hint="grade into another folder",
            ) from None  # fmt: skip
        if not same:
            raise ArgumentError(
                f"grade: {out} holds the results of another assignment.",
                got=f"{run['assignment']} {run['assignment_version']}",
                expected=f"{task.name} {task.version}",
                hint="grade into another folder",
            )
        return seed
    seed = int.from_bytes(os.urandom(16), "big")
    started = datetime.now(UTC).isoformat(timespec="seconds")
    run = {
        "version": VERSION, "assignment": task.name, "assignment_version": task.version,
        "seed": f"{seed:032x}", "started": started,
    }  # fmt: skip
    write_json(path, run)
    return seed


def _kept(task, checks, path, out, sandbox, stop):
    """The document of a submission, the one that is kept or else a new one; and which it is."""
    submission = read_submission(path, task.files)
    place = out / "state" / f"{slug(path.name)}.json"
    known, how = _stored(place), "new"
    if known is not None:
        if known["submission"]["digest"] != submission.digest:
            how = "changed"
        elif known["assignment"].get("digest") != task.digest:
            how = "others"
        else:
            return known, "kept"
    try:
        document = grade_one(task, checks, submission, sandbox, stop)
    except Stopped:
        raise
    except Exception:  # a mistake of the grader costs no other submission its result
        document = _document(task, submission, sandbox, [], "", 0.0)
        document["status"] = "not graded"
        document["detail"] = traceback.format_exc()
    write_json(place, document)
    return document, how


def _stored(place):
    try:
        document = json.loads(place.read_text(encoding="utf-8"))
        usable = document["version"] == VERSION and document["status"] in ("graded", "not readable")
        return document if usable and "digest" in document["submission"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def grade_one(task, checks, submission, sandbox, stop=None):
    """Grade one submission.

    Parameters
    ----------
    task : Task
    checks : list
        What `task.checks` returned.
    submission : Submission
    sandbox : Sandbox
    stop : threading.Event, optional
        Set where the run has to end.

    Returns
    -------
    dict
        Its document.

    Raises
    ------
    Stopped
        If `stop` was set before the last check.
    """
    start, lines = time.monotonic(), []
    with Session(sandbox, task.package_folder, submission.files, steps=True) as session:
        for entry, parts in checks:
            if stop is not None and stop.is_set():
                raise Stopped
            if submission.problems:
                lines.append(_line(entry, "not run", "; ".join(submission.problems)))
                continue
            lines.append(_entry_line(entry, parts, session))
    seconds = time.monotonic() - start
    return _document(task, submission, sandbox, lines, session.output, seconds)


def _entry_line(entry, parts, session):
    """All checks of an entry, up to the first that does not pass."""
    seconds = 0.0
    for check in parts:
        verdict = session.verdict(check)
        seconds += verdict.seconds
        if not verdict.passed:
            message = f"{check.what or check.name}: {verdict.message}"
            line = _line(entry, verdict.status, message, seconds)
            more = {
                name: getattr(verdict, name)
                for name in ("first_difference", "gradcheck", "first_step")
            }
            return {**line, **more}
    # An entry without checks would be points for nothing.
    status = "passed" if parts else "not run"
    return _line(entry, status, "", seconds)


def _line(entry, status, message="", seconds=0.0):
    return {
        "name": entry.name, "what": entry.what, "of": list(entry.of), "hidden": entry.hidden,
        "points": entry.points if status == "passed" else 0.0, "max_points": entry.points,
        "status": status, "message": message[:5000], "seconds": round(seconds, 3),
        "first_difference": None, "gradcheck": None, "first_step": None,
    }  # fmt: skip


def _document(task, submission, sandbox, lines, output, seconds):
    files = [
        {"path": name, "bytes": len(data), "sha256": sha256(data).hexdigest()}
        for name, data in submission.files.items()
    ]
    return {
        "version": VERSION,
        "assignment": {
            "name": task.name, "title": task.title, "version": task.version, "points": task.points,
            "digest": task.digest,
        },
        "grader": {
            "version": _PACKAGE.__version__, "sandbox": sandbox.level,
            "limits": asdict(sandbox.limits),
            "python": sys.version.split()[0], "numpy": np.__version__,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        },
        "submission": {
            "name": submission.name, "folder": submission.folder, "digest": submission.digest,
            "files": files, "problems": submission.problems,
        },
        "status": "not readable" if submission.problems else "graded",
        "score": sum(line["points"] for line in lines),
        "max_score": task.points,
        "checks": lines,
        "output": output,
        "seconds": round(seconds, 3),
    }  # fmt: skip


def slug(name):
    """A file name for anybody's name: short, plain, and different for different names.

    With less of the digest somebody could search for a name that takes another one's place.

    Examples
    --------
    >>> slug("Ada Lovelace")
    'Ada-Lovelace-767402161715'
    >>> slug("../../etc/passwd")
    'etc-passwd-3754d6cb3a38'
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "submission"
    return f"{plain}-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:12]}"
