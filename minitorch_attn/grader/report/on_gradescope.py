"""Program that grades one submission on Gradescope. It requires only NumPy.

python -m minitorch_attn.grader.report.on_gradescope ASSIGNMENT SUBMISSION RESULTS.json
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
from ..grade.grade_class import grade_one
from ..grade.sandbox import Sandbox
from .gradescope import gradescope

__all__ = ["main"]

_FAILED = "The grader itself failed. This is not a grade. Tell your instructor."


def main(name, submission, path):
    """Grade a submission and write the result, even after an error.

    Parameters
    ----------
    name : str
        Name of the assignment.
    submission : path
        Folder of the submission.
    path : path
        Path of the `results.json` file to write.

    Returns
    -------
    int
        Exit status: 0 on success, 4 after an error in the grader.
    """
    Path(path).unlink(missing_ok=True)  # a submission may have put a file there
    try:
        with tempfile.TemporaryDirectory(prefix="minitorch-attn-task-") as folder:
            document = _graded(name, submission, Path(folder))
        write_json(path, gradescope(document))
    except Exception:
        traceback.print_exc()
        write_json(path, {"output": _FAILED, "stdout_visibility": "hidden"})  # no score
        return 4
    return 0


def _graded(name, submission, folder):
    task = task_of(find_assignment(name), folder)
    checks = task.checks(int.from_bytes(os.urandom(16), "big"))
    read = read_submission(submission, task.files)
    return grade_one(task, checks, read, Sandbox(Sandbox.best()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
