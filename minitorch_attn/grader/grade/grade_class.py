"""Grade a class: run submissions in parallel, and save each result immediately.

The results folder contains `run.json` (the assignment and the seed for the inputs) and one document
`state/NAME.json` for each submission. A second run grades only the submissions whose document is
missing, or was made from different files, with different checks or by a different grader.
"""

import queue
import re
import sys
import threading
import time
import traceback
import unicodedata
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import numpy as np

from ...errors import ArgumentError, DataError
from ...files import write_json
from ...folder_lock import FolderLock
from .archive import read_submission, submissions_in
from .document import VERSION, read_document
from .remarks import remarks
from .run_file import run_id, run_seed
from .sandbox import Limits, Sandbox
from .sandbox_folders import remove_leftovers
from .session import Session
from .shard import begin_shard, write_shard

__all__ = [
    "ChecksFailed", "Stopped", "fits_task", "grade_class", "grade_one", "is_outdated", "slug",
]  # fmt: skip

_PACKAGE = sys.modules[__name__.partition(".")[0]]


class ChecksFailed(Exception):
    """The assignment's `checks.py` raised an error, so nothing can be graded."""


class Stopped(Exception):
    """The run was stopped before a submission was graded."""


def grade_class(
    task, folder, out, *, level=None, jobs=1, limits=None, report=None, shard=None, run=None
):  # fmt: skip
    """Grade every submission in a folder, or only the submissions in one shard.

    Parameters
    ----------
    task : Task
    folder : path
        Folder with a folder or an archive for each student.
    out : path
        Results folder, created if missing.
    level : {1, 2, 3}, optional
        Sandbox level. Defaults to the highest level that works.
    jobs : int
        Number of submissions to grade at the same time.
    limits : Limits, optional
    report : callable, optional
        Callback `report(document, done, total, how)` for each submission. `how` is "new", "kept"
        (the result of an earlier run was kept), "changed" (graded again because the submission
        changed) or "others" (graded again because the checks or the grader changed).
    shard : Shard, optional
        Part of the class to grade. It may be empty.
    run : dict, optional
        Run whose seed determines the inputs; see `read_seed_file`. Defaults to a new seed.

    Returns
    -------
    list of dict
        Documents of all submissions, sorted by name.

    Raises
    ------
    ArgumentError
        If the sandbox level does not work on this machine, or there are no submissions.
    ChecksFailed
        If `checks.py` raises an error.

    Notes
    -----
    If grading is interrupted, for example by Ctrl-C or a full disk, the finished results are kept.
    """
    level = Sandbox.best() if level is None else level
    why = Sandbox(level).works()
    if why is not None:
        raise ArgumentError(
            f"grade: sandbox level {level} is unavailable", got=why,
            hint="run `mta doctor` to see what is missing",
        )  # fmt: skip
    paths = submissions_in(folder)
    if not paths:
        raise ArgumentError(
            "grade: the folder contains no submissions", got=f"{folder}",
            expected="a folder or an archive for each student",
        )  # fmt: skip
    paths = [path for path in paths if shard is None or shard.contains(slug(path.name))]
    out = Path(out)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)  # only the instructor may read the marks
    (out / "state").mkdir(mode=0o700, exist_ok=True)
    remove_leftovers()
    with FolderLock(out, "grading folder"):
        begin_shard(out, shard)
        seed = run_seed(task, out, run)
        if shard is not None:
            write_shard(out, shard, listed=False)
        checks = _checks(task, seed)
        documents = _graded(task, checks, paths, out, level, limits, jobs, report)
    return sorted(documents, key=lambda document: document["submission"]["name"])


def _graded(task, checks, paths, out, level, limits, jobs, report):
    """Grade all submissions, `jobs` of them at a time; see `grade_class`."""
    places = queue.SimpleQueue()
    for place in range(jobs):
        places.put(place)
    documents, stop, run = [], threading.Event(), run_id(out)

    def work(path):
        place = places.get()
        try:
            if stop.is_set():
                raise Stopped
            sandbox = Sandbox(level, limits or Limits(), place)
            return _kept(task, checks, path, out, run, sandbox, stop)
        except BaseException:  # stop before the next submission starts here
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
        except BaseException:  # such as Ctrl-C: workers stop after their current check
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return documents


def _checks(task, seed):
    try:
        return task.checks(seed)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).name == "checks.py"]
        place = f"checks.py, line {lines[-1]}: " if lines else "checks.py: "
        raise ChecksFailed(f"{place}{type(error).__name__}: {error}") from error


def _kept(task, checks, path, out, run, sandbox, stop):
    """Return a submission's document and `how` it was obtained.

    A stored document is returned if it is up to date. Otherwise, the submission is graded. The
    values of `how` are explained at the parameter `report` of `grade_class`.
    """
    submission = read_submission(path, task.files)
    place = out / "state" / f"{slug(path.name)}.json"
    known, how = _stored(place, task), "new"
    if known is not None:
        if known["submission"]["digest"] != submission.digest:
            how = "changed"
        elif is_outdated(known, task, run):
            how = "others"
        else:
            return known, "kept"
    try:
        document = grade_one(task, checks, submission, sandbox, stop)
        document["assignment"]["run"] = run
    except Stopped:
        raise
    except Exception:  # an error in the grader must not affect other submissions
        document = _document(task, submission, sandbox, [], "", 0.0)
        document["status"] = "not graded"
        document["detail"] = traceback.format_exc()
    write_json(place, document)
    return document, how


def _stored(place, task):
    """Return the document of an earlier run, or None if there is none that can be used.

    A document cannot be used if it is unreadable, or if its submission was not graded. A document
    with the task's digest must also have the task's entries. Otherwise, the grader did not write
    it, and it cannot be used.
    """
    try:
        document = read_document(place)
    except DataError:
        return None
    if document["status"] == "not graded":
        return None
    same = document["assignment"].get("digest") == task.digest
    return document if not same or fits_task(document, task) else None


def fits_task(document, task):
    """Return whether a document has exactly the entries of a task, with their points.

    Parameters
    ----------
    document : dict
    task : Task

    Returns
    -------
    bool
    """
    expected = [(entry.name, entry.points, entry.hidden) for entry in task.entries]
    lines = document["checks"]
    return document["max_score"] == task.points and expected == [
        (line["name"], line["max_points"], line["hidden"]) for line in lines
    ]


def is_outdated(document, task, run):
    """Return whether a document was made by a different grader, or with other checks or inputs."""
    made = document["assignment"]
    is_graded = document["status"] != "not graded"
    return is_graded and (made.get("digest", ""), made.get("run", "")) != (task.digest, run)


def grade_one(task, checks, submission, sandbox, stop=None):
    """Grade one submission.

    Parameters
    ----------
    task : Task
    checks : list
        List returned by `task.checks`.
    submission : Submission
    sandbox : Sandbox
    stop : threading.Event, optional
        Event that stops the run.

    Returns
    -------
    dict
        Document of the submission.

    Raises
    ------
    Stopped
        If `stop` was set before the last check.
    """
    start, lines, session = time.monotonic(), {}, None
    output = []
    # Hidden checks run last and in a separate process. Otherwise, a submission could store their
    # inputs and show them in the message of a later check that is not hidden.
    for hidden in (False, True):
        chosen = [i for i, (entry, _) in enumerate(checks) if entry.hidden == hidden]
        with Session(
            sandbox, task.package_folder, submission.files, steps=True, after=session
        ) as session:
            for i in chosen:
                if stop is not None and stop.is_set():
                    raise Stopped
                lines[i] = _entry_line(*checks[i], session, submission)
        output.append(session.output)
    seconds = time.monotonic() - start
    lines = [lines[i] for i in range(len(checks))]
    _name_causes(lines)
    return _document(task, submission, sandbox, lines, "".join(output), seconds)


def _entry_line(entry, parts, session, submission):
    """Run the checks of one grade entry up to the first failure, and return the entry's result."""
    if not submission.files:
        return _line(entry, "not run", "; ".join(submission.problems))
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
            return {**line, **more, "cause": verdict.message}
    # An entry without checks must not give points.
    status = "passed" if parts else "not run"
    return _line(entry, status, "", seconds)


def _name_causes(lines):
    """For each failed entry, record an earlier failure with the same error, or a possible cause.

    `same_as` names an earlier entry with the same error. For a backward function, `follows` names
    the failed entry of its forward function, which may pass wrong values to the backward function.
    """
    first = {}
    for line in lines:
        cause = line.pop("cause", None)
        if line["status"] in ("error", "crashed", "timeout", "misbehaved"):
            line["same_as"] = first.setdefault((cause, line["hidden"]), line["name"])
            if line["same_as"] == line["name"]:
                line["same_as"] = None
    wrong = {name: line["name"] for line in reversed(lines) if not line["points"]
             and line["status"] != "not run" for name in line["of"]}  # fmt: skip
    for line in lines:
        if line["status"] == "failed":
            forward = [name.replace("backward", "forward") for name in line["of"]]
            known = [wrong[f] for f, name in zip(forward, line["of"], strict=True)
                     if f != name and f in wrong]  # fmt: skip
            line["follows"] = known[0] if known else None


def _line(entry, status, message="", seconds=0.0):
    return {
        "name": entry.name, "what": entry.what, "of": list(entry.of), "hidden": entry.hidden,
        "points": entry.points if status == "passed" else 0.0, "max_points": entry.points,
        "status": status, "message": message[:5000], "seconds": round(seconds, 3),
        "first_difference": None, "gradcheck": None, "first_step": None, "same_as": None,
        "follows": None,
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
            "remarks": remarks(submission.files, _starter(task)),
        },
        "status": "graded" if submission.files else "not readable",
        "score": sum(line["points"] for line in lines),
        "max_score": task.points,
        "checks": lines,
        "output": output,
        "seconds": round(seconds, 3),
    }  # fmt: skip


def _starter(task):
    paths = {name: task.package_folder / name for name in task.files}
    return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}


def slug(name):
    """Make a short, plain and unique folder name from the file name of a submission.

    The name ends with 12 hex digits of a hash of the file name. They distinguish file names that
    become equal in plain form.

    Examples
    --------
    >>> slug("Bence Kovács")
    'Bence-Kovács-e196a48034f5'
    >>> slug("../../etc/passwd")
    'etc-passwd-3754d6cb3a38'
    """
    plain = re.sub(r"[\W_]+", "-", unicodedata.normalize("NFC", name)).strip("-")[:40]
    plain = plain or "submission"
    return f"{plain}-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:12]}"
