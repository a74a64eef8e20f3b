"""Measure how long a class takes to grade: `python -m tools.grade_class --out DIR`.

The program generates a class of correct and incorrect submissions, grades them in parallel,
and prints the time per submission in seconds. With --slice SECONDS it stops after that time. When
it is run again, it continues, so that a large class can be measured in several short runs.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from minitorch_attn.grader.build.assignment import find_assignment
from minitorch_attn.grader.build.task import task_of
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.report.grading import grade_and_report
from minitorch_attn.grader.report.sample import sample_class


def main(arguments=None):
    """Start or continue grading, and print the elapsed time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--assignment", default="attention")
    parser.add_argument("--count", type=int, default=200, help="number of submissions")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--slice", type=float, default=float("inf"), metavar="SECONDS")
    options = parser.parse_args(arguments)
    made = find_assignment(options.assignment)
    if not (options.out / "class").exists():
        sample_class(made, options.out / "class", options.count)
    spent = _timed(made, options)
    path = options.out / "seconds.json"
    slices = json.loads(path.read_text()) if path.exists() else []
    slices.append(spent)
    path.write_text(json.dumps(slices))
    seconds, done = (sum(part[key] for part in slices) for key in ("seconds", "graded"))
    print(f"level {Sandbox.best()}, {options.jobs} at once: {done} of {options.count} graded")
    print(f"{seconds:.1f} s in all, {seconds / max(done, 1):.2f} s for each submission")
    return 0 if spent["complete"] else 1


def _timed(made, options):
    """Grade until all submissions are graded or the slice's time limit is reached."""
    out = options.out / "marks"
    start, known = time.monotonic(), len(list((out / "state").glob("*.json")))

    def report(document, done, total, how):
        if time.monotonic() - start > options.slice:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory(prefix="minitorch-attn-task-") as room:
        outcome = grade_and_report(
            task_of(made, Path(room)), options.out / "class", out, level=Sandbox.best(),
            jobs=options.jobs, report=report,
        )  # fmt: skip
    graded = len(outcome.results["submissions"]) - known
    seconds = time.monotonic() - start
    return {"seconds": seconds, "graded": graded, "complete": outcome.results["complete"]}


if __name__ == "__main__":
    sys.exit(main())
