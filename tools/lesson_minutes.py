"""Estimate how many minutes each lesson takes: `python -m tools.lesson_minutes [--measure NN...]`.

The estimate is the time to read the text and the code, to type the answers, to think about the
questions, and to wait for the results. The program writes the estimates to lessons/minutes.json.
With --measure NN..., it also runs the lessons NN... (all lessons if no number is given) and stores
their processor times.
"""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

from minitorch_attn.course.lesson_list import lessons
from minitorch_attn.course.minutes import minutes
from minitorch_attn.course.run_lesson import environment

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "lessons" / "minutes.json"

QUESTIONS = 3  # minutes for the three questions
FIGURE = 0.5  # minutes to look at a figure
# Minutes that a student needed, rounded up to a multiple of 5, where they exceed the estimate.
MEASURED = {"05": 35, "08": 50, "10": 50, "11": 45, "17": 35}


def estimate(lesson, run_seconds):
    """Estimate how many minutes a lesson takes, and return its entry for lessons/minutes.json.

    Parameters
    ----------
    lesson : Lesson
    run_seconds : float
        Processor time of the whole lesson.

    Returns
    -------
    dict
    """
    words = code = typed = figures = 0
    for cell in lesson.cells:
        lines = [line for line in cell.text.splitlines() if line.strip()]
        if cell.kind == "markdown":
            words += len(cell.text.split())
        elif "answer" in getattr(cell, "tags", ()):
            typed += len(lines) - 1
        else:
            code += len(lines)
            figures += len(re.findall(r"\bshow\(", cell.text))  # but not imshow
    other = QUESTIONS + FIGURE * figures + run_seconds / 60
    needed = max(minutes(words, code, typed, other), MEASURED.get(lesson.number, 0))
    return {
        "minutes": needed, "words": words, "code_lines": code,
        "typed_lines": typed, "figures": figures, "run_seconds": run_seconds,
    }  # fmt: skip


def measure(lesson):
    """Run a lesson with its full sizes, and return its processor time in seconds."""
    settings = {**environment(fast=False), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, str(lesson.path)]
    subprocess.run(command, env=settings, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(used, 1)


def rows(measured=()):
    """Measure the lessons in `measured` again, and return all entries of lessons/minutes.json."""
    known = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    found = {}
    for lesson in lessons(ROOT / "lessons"):
        seconds = known.get(lesson.number, {}).get("run_seconds", 0.0)
        if lesson.number in measured:
            seconds = measure(lesson)
        found[lesson.number] = estimate(lesson, seconds)
    return found


def main():
    """Write the estimates for all lessons to lessons/minutes.json."""
    wanted = sys.argv[2:] if sys.argv[1:2] == ["--measure"] else []
    if sys.argv[1:] == ["--measure"]:
        wanted = [lesson.number for lesson in lessons(ROOT / "lessons")]
    lines = [f' "{number}": {json.dumps(row)}' for number, row in rows(wanted).items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
