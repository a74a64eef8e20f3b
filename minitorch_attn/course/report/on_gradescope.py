"""Grade one submission where Gradescope runs the autograder; NumPy is all it needs.

python -m minitorch_attn.course.report.on_gradescope ASSIGNMENT SUBMISSION RESULTS.json
"""

import os
import sys
import tempfile
import traceback
from pathlib import Path

from ...files import write_json
from ..build.assignment import find_assignment
from ..build.task import task_of
from ..grade.archive import read_submission
from ..grade.run import grade_one
from ..grade.sandbox import Sandbox
from .gradescope import gradescope

__all__ = ["main"]

_FAILED = "The grader itself failed: this is no mark. Tell your instructor."


def main(name, submission, path):
    """Grade a folder and write the result, whatever happens.

    Parameters
    ----------
    name : str
        Of the assignment.
    submission, path : path

    Returns
    -------
    int
        0, or 4 after a mistake of the grader.
    """
    Path(path).unlink(missing_ok=True)  # one that somebody else has put there
    try:
        with tempfile.TemporaryDirectory(prefix="minitorch-attn-task-") as room:
            document = _graded(name, submission, Path(room))
        write_json(path, gradescope(document))
    except Exception:
        traceback.print_exc()
        write_json(path, {"score": 0, "output": _FAILED, "stdout_visibility": "hidden"})
        return 4
    return 0


def _graded(name, submission, room):
    task = task_of(find_assignment(name), room)
    checks = task.checks(int.from_bytes(os.urandom(16), "big"))
    read = read_submission(submission, task.files)
    return grade_one(task, checks, read, Sandbox(Sandbox.best()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
