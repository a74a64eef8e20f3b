"""An assignment as the grader wants it."""

from functools import partial
from pathlib import Path

from ..grade.task import Entry, Task
from .package import write_package

__all__ = ["task_of"]


def task_of(assignment, folder):
    """Make the package that submissions complete, and the task that goes with it.

    Parameters
    ----------
    assignment : Assignment
    folder : path
        For the package; it has to be there as long as the task is graded.

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
        Path(folder),
    )  # fmt: skip
