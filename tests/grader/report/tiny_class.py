"""Grade a class with the tiny task: `python tiny_class.py PACKAGE SUBMISSIONS OUT`.

Prints a line after each submission, so that whoever watches can end this process in between.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (3, 2)]


def main(package, submissions, out):
    from grader.grade.conftest import FILE, backward, forward

    from minitorch_attn.grader.grade.task import Entry, Task
    from minitorch_attn.grader.report.grading import grade_and_report

    entries = [Entry("forward", 2.0, forward), Entry("backward", 3.0, backward)]
    task = Task("softmax", "Softmax", "1", [FILE], entries, Path(package))
    grade_and_report(
        task, submissions, out, level=1,
        report=lambda document, done, total, how: print(done, total, flush=True),
    )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
