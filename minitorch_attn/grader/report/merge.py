"""Merge the shards of a graded class: write the files that a single run would have written.

Before anything is written, two conditions are checked. Each result must have the hash that its
shard recorded. All shards must have the same assignment, checks, grader, seed and list of
submissions.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ...errors import ArgumentError, DataError
from ...files import atomic_file, read_error
from ...folder_lock import FolderLock
from ..grade.document import read_document
from ..grade.grade_class import fits_task
from ..grade.run_file import fingerprint, read_run, run_seed
from ..grade.shard import SHARD_FILE, Shard, begin_shard, read_shard
from ..grade.task import Entry, Task
from .grading import Outcome, write_reports
from .results import write_results

__all__ = ["Merged", "merge_shards"]

_AGAIN = "copy the folder again, or run the command of this shard again"


@dataclass
class Merged(Outcome):
    """Result of a merge.

    Attributes
    ----------
    waiting : dict of str to list of str
        Names of the students who are not graded, by reason. Each reason names the students' shard.
    notes : list of str
        Differences between shards that do not prevent a merge, such as in the NumPy version.
    """

    waiting: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)


@dataclass
class _Part:
    """One shard to merge: its folder, `shard.json`, `run.json` and result documents."""

    folder: Path
    shard: Shard
    lists: dict
    run: dict
    data: dict = field(default_factory=dict)  # name -> content of the file
    graded: int = 0
    graders: set = field(default_factory=set)  # (sandbox level, Python, NumPy) of each document


def merge_shards(folders, out):
    """Merge the results of shards into one folder, and write all reports.

    Parameters
    ----------
    folders : list of path
        Results folder of each shard, in any order. Shards may be missing.
    out : path
        Folder to write to, created if missing. It may contain an earlier merge of the same class.

    Returns
    -------
    Merged

    Raises
    ------
    ArgumentError
        If the shards do not belong together, or one of them is given twice.
    DataError
        If a folder is not a shard, or is damaged.
    """
    parts, out = sorted(map(_part, folders), key=lambda part: part.shard.number), Path(out)
    _check_numbers(parts)
    lists = _common_lists(parts)
    task = _task(lists)
    for part in parts:
        _read_documents(part, task)
    merged = Merged(notes=_differences(parts))
    merged.how["new"] = sum(part.graded for part in parts)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)  # only the instructor may read the marks
    with FolderLock(out, "grading folder"):
        begin_shard(out, None)
        run_seed(task, out, parts[0].run)
        (out / "state").mkdir(mode=0o700, exist_ok=True)
        for part in parts:
            for name, data in part.data.items():
                _write_new(out / "state" / f"{name}.json", data)
        why = _reasons(parts)
        write_reports(merged, out, lambda: write_results(task, lists, out, why))
    for entry in merged.results["not_graded"] if merged.results else ():
        merged.waiting.setdefault(entry["message"], []).append(entry["name"])
    return merged


def _part(folder):
    """Read `shard.json` and `run.json` in the results folder of a shard."""
    folder = Path(folder)
    path = folder / SHARD_FILE
    if not path.exists():
        raise DataError(
            f"{folder} is not the folder of a shard", got=f"{SHARD_FILE} is missing",
            expected="the --out folder of `mta course grade --shard K/N`",
        )  # fmt: skip
    lists = read_shard(path)
    return _Part(folder, Shard(lists["shard"], lists["of"]), lists, read_run(folder / "run.json"))


def _check_numbers(parts):
    """Check that all folders state the same total number of shards, and no shard is given twice."""
    for before, part in zip(parts, parts[1:], strict=False):
        if part.shard.of != before.shard.of:
            raise ArgumentError(
                "merge: the folders come from runs with different numbers of shards",
                got=f"{before.folder}: {before.shard}, {part.folder}: {part.shard}",
                expected="the same N in every --shard K/N",
            )  # fmt: skip
        if part.shard == before.shard:
            raise ArgumentError(
                f"merge: shard {part.shard} is given twice", got=f"{before.folder}, {part.folder}"
            )


def _common_lists(parts):
    """Check that the shards belong together. Return the `shard.json` of the first finished shard.

    All shards must have the same assignment and seed. All finished shards must also have the same
    checks, grader, submissions, skipped entries and roster.
    """
    known = [part for part in parts if part.lists["listed"]]
    if not known:
        raise ArgumentError(
            "merge: no shard is finished", got=", ".join(str(part.shard) for part in parts),
            hint="run the command of each shard again",
        )  # fmt: skip
    first = known[0]
    for part in parts:
        for what, value in (
            ("assignment", lambda p: f"{p.run['assignment']} {p.run['assignment_version']}"),
            ("seed", lambda p: f"the fingerprint {fingerprint(p.run)}"),
        ):
            _check_same(what, part, first, value)
    for part in known:
        _check_same("text of the assignment", part, first, lambda p: str(p.lists["assignment"]))
        _check_same("version of the checks or of the grader", part, first,
                    lambda p: p.lists["digest"])  # fmt: skip
        for what, key in (
            ("list of submissions", "submissions"), ("list of skipped entries", "passed_over"),
            ("roster", "roster"),
        ):  # fmt: skip
            _check_same_entries(what, part, first, key)
    return first.lists


def _check_same(what, part, first, value):
    got, expected = value(part), value(first)
    if got != expected:
        raise ArgumentError(
            f"merge: the {what} of {part.folder} differs from that of {first.folder}",
            got=_short(got), expected=_short(expected),
            hint="grade all shards with the same release, assignment and --seed-file",
        )  # fmt: skip


def _check_same_entries(what, part, first, key):
    got, expected = part.lists[key], first.lists[key]
    if got != expected:
        only = [entry for entry in got + expected if (entry in got) != (entry in expected)]
        names = [entry if isinstance(entry, str) else entry["name"] for entry in only]
        raise ArgumentError(
            f"merge: the {what} of {part.folder} differs from that of {first.folder}",
            got=_short(f"in only one of them: {', '.join(sorted(set(names))) or 'the order'}"),
            expected="the same submissions and roster for all shards",
            hint="run the command of every shard again; existing results are kept",
        )  # fmt: skip


def _short(text, width=200):
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _task(lists):
    """Make a task that describes the assignment for the reports. It does not contain checks."""
    made = lists["assignment"]
    entries = [
        Entry(entry["name"], entry["points"], None, entry["what"], entry["hidden"])
        for entry in made["entries"]
    ]
    return Task(made["name"], made["title"], made["version"], [], entries, None, lists["digest"])


def _read_documents(part, task):
    """Read a shard's result documents. Check that they are unchanged and match the task."""
    for name, digest in part.lists.get("results", {}).items():
        path = part.folder / "state" / f"{name}.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise read_error(path, error, DataError) from None
        if sha256(data).hexdigest() != digest:
            raise DataError(f"{path} does not match {SHARD_FILE}: it is damaged or has changed",
                            hint=_AGAIN)  # fmt: skip
        document = read_document(path)
        current = document["assignment"].get("digest") == task.digest
        if document["status"] != "not graded" and current and not fits_task(document, task):
            raise DataError(f"{path}: the checks do not match the assignment", hint=_AGAIN)
        if not part.shard.contains(name):
            raise DataError(f"{path} does not belong to shard {part.shard}", hint=_AGAIN)
        part.data[name] = data
        part.graded += document["status"] != "not graded"
        grader = document["grader"]
        part.graders.add((grader["sandbox"], str(grader.get("python")), str(grader.get("numpy"))))


def _differences(parts):
    """List the sandbox levels and software versions that differ between the shards."""
    used = set().union(*(part.graders for part in parts))
    titles = ("sandbox levels", "Python versions", "NumPy versions")
    each = [sorted({str(grader[place]) for grader in used}) for place in range(len(titles))]
    return [
        f"submissions were graded with different {title}: {', '.join(values)}"
        for title, values in zip(titles, each, strict=True) if len(values) > 1
    ]  # fmt: skip


def _reasons(parts):
    """Return a function that gives the reason why a submission is not graded."""
    given = {part.shard: part for part in parts}

    def why(entry):
        shard = Shard.of_submission(entry["folder"], parts[0].shard.of)
        if shard not in given:
            return f"not graded yet: shard {shard} is missing"
        if not given[shard].lists["listed"]:
            return f"not graded yet: shard {shard} did not finish"
        return f"shard {shard}: {given[shard].lists['why']}"

    return why


def _write_new(path, data):
    """Write a file, unless it already has this content."""
    if not path.exists() or path.read_bytes() != data:
        with atomic_file(path) as file:
            file.write(data)
