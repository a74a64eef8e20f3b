"""Measure how long a class takes to grade: `python -m tools.grade_class --out DIR`.

The program generates a class of correct and incorrect submissions, grades them in parallel, and
prints the time per submission in seconds. With --slice SECONDS, it stops after that time, and
continues when you run it again. So a large class can be measured in several short runs.

With --shards N, it also grades the class in N shards with the same seed, merges the results, and
compares the files with those of a single run. `--assignment quick` selects an assignment that
consists of one small file.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from minitorch_attn.grader.build.assignment import find_assignment
from minitorch_attn.grader.build.task import task_of
from minitorch_attn.grader.grade.run_file import read_seed_file, write_seed_file
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.grade.shard import Shard
from minitorch_attn.grader.report.grading import grade_and_report
from minitorch_attn.grader.report.merge import merge_shards
from minitorch_attn.grader.report.sample import sample_class

from .compare_marks import compare, summary
from .quick_class import quick_class, quick_task


def main(arguments=None):
    """Start or continue grading, and print the elapsed time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--assignment", default="attention")
    parser.add_argument("--count", type=int, default=200, help="number of submissions")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--level", type=int, help="sandbox level; default: the highest that works")
    parser.add_argument("--shards", type=int, default=0, help="grade in N shards, too, and compare")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--slice", type=float, default=float("inf"), metavar="SECONDS")
    options = parser.parse_args(arguments)
    options.level, options.start = options.level or Sandbox.best(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="minitorch-attn-task-") as room:
        task = _task_and_class(options, Path(room))
        seed = options.out / "seed.json"
        if not seed.exists():
            write_seed_file(seed, task.name, task.version)
        complete = _graded(task, options, "marks")
        shards = [Shard(number, options.shards) for number in range(1, options.shards + 1)]
        done = complete and all(_graded(task, options, f"shard-{s.number}", s) for s in shards)
    if not done:
        return 1
    return _compared(options, shards) if shards else 0


def _task_and_class(options, room):
    """Return the assignment's Task. Generate the submissions if they do not exist yet."""
    place, quick = options.out / "class", options.assignment == "quick"
    made = None if quick else find_assignment(options.assignment)
    if not place.exists():
        options.out.mkdir(parents=True, exist_ok=True)
        if quick:
            quick_class(place, options.count)
        else:
            sample_class(made, place, options.count)
    return quick_task(room) if quick else task_of(made, room)


def _graded(task, options, name, shard=None):
    """Continue one run until it is complete or the time is up. Return True if it is complete."""
    spent = _timed(task, options, options.out / name, shard)
    path = options.out / ("seconds.json" if shard is None else f"seconds-{name}.json")
    slices = json.loads(path.read_text()) if path.exists() else []
    slices.append(spent)
    path.write_text(json.dumps(slices))
    seconds, done = (sum(part[key] for part in slices) for key in ("seconds", "graded"))
    print(f"{name}: level {options.level}, {options.jobs} at once: {done} of {spent['all']} graded")
    print(f"{seconds:.1f} s in all, {seconds / max(done, 1):.2f} s for each submission", flush=True)
    return spent["complete"]


def _timed(task, options, out, shard):
    """Grade until all submissions are graded or the time limit of the slice is reached."""
    start, known = time.monotonic(), len(list((out / "state").glob("*.json")))

    def report(document, done, total, how):
        if time.monotonic() - options.start > options.slice:
            raise KeyboardInterrupt

    outcome = grade_and_report(
        task, options.out / "class", out, level=options.level, jobs=options.jobs, report=report,
        shard=shard, run=read_seed_file(options.out / "seed.json", task),
    )  # fmt: skip
    results = outcome.results
    return {
        "seconds": time.monotonic() - start, "graded": len(results["submissions"]) - known,
        "all": len(results["submissions"]) + len(results["not_graded"]),
        "complete": results["complete"],
    }  # fmt: skip


def _compared(options, shards):
    """Merge the shards, and compare every file with that of the run without shards."""
    start, out = time.monotonic(), options.out / "merged"
    merged = merge_shards([options.out / f"shard-{shard.number}" for shard in shards], out)
    graded = len(merged.results["submissions"])
    print(f"merged {graded} results of {len(shards)} shards in {time.monotonic() - start:.1f} s")
    found = compare(options.out / "marks", out)
    print(summary(found))
    exact = all(Path(name) in found["equal"] for name in ("grades.csv", "run.json"))
    print(f"grades.csv and run.json: {'equal byte for byte' if exact else 'NOT EQUAL'}")
    return 0 if exact and merged.results["complete"] and not (
        found["different"] or found["alone"] or merged.failures
    ) else 1  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
