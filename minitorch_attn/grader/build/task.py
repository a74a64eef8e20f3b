"""Build a grader task from an assignment."""

import sys
from functools import partial
from hashlib import sha256
from pathlib import Path

from ..grade.task import Entry, Task
from .package import write_package

__all__ = ["task_of"]

_PACKAGE = sys.modules[__name__.partition(".")[0]]


def task_of(assignment, folder):
    """Write the stripped package for submissions, and return the task for the grader.

    Parameters
    ----------
    assignment : Assignment
    folder : path
        Folder for the package. It must exist until grading is finished.

    Returns
    -------
    Task
    """
    write_package(assignment, folder, stripped=True)
    targets = {blank.name: [str(blank.target)] for blank in assignment.blanks}
    entries = [
        Entry(
            entry.name, float(entry.points), partial(assignment.draw, entry), entry.what,
            entry.hidden, targets[entry.of],
        )
        for entry in assignment.checks
    ]  # fmt: skip
    return Task(
        assignment.name, assignment.title, str(assignment.version), list(assignment.files), entries,
        Path(folder), _digest(assignment),
    )  # fmt: skip


def _digest(assignment):
    """Hash all files that determine the points: the manifest, the checks and the grader."""
    known = sha256(_PACKAGE.__version__.encode())
    files = [assignment.folder / name for name in ("assignment.toml", "checks.py")]
    for name in ("grade", "build"):
        files += sorted((Path(__file__).resolve().parents[1] / name).glob("*.py"))
    for path in files:
        data = path.read_bytes() if path.is_file() else b""
        known.update(f"{path.name} {len(data)}\n".encode() + data)
    return known.hexdigest()
