"""Try the answers of a lesson: `python tests/lesson_answers.py LESSON.py [WRONG.toml]`.

It runs the lesson's cells in fast mode, up to the last check, and checks every function that a
learner writes: unanswered, with each wrong answer of the file, and answered. It prints JSON: for
each function a list of [what, passed, text].
"""

import json
import sys
import tempfile
import tomllib
from pathlib import Path

from minitorch_attn.course.lesson_list import Lesson
from minitorch_attn.course.run_cells import LessonRun

HERE = Path(__file__).resolve().parent / "lessons" / "wrong_answers"


def wrong_answers(number):
    """The planted mistakes of a lesson: function -> list of tables with mistake, old and new."""
    path = HERE / f"{number}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def results(lesson, wrong, folder):
    """Check all functions of a lesson, with every answer."""
    found, turns = {}, {turn.at: turn for turn in lesson.turns}
    run = LessonRun(lesson, fast=True)
    while len(found) < len(turns):
        turn = turns.get(len(run.outputs))
        if turn is None:
            run.run_next(sys.stderr)
            continue
        rows = found[turn.name] = [("unanswered", *run.check_turn(turn))]
        planted = [
            (entry["mistake"], turn.answer.replace(entry["old"], entry["new"]))
            for entry in wrong.get(turn.name, ())
        ]
        for what, code in [*planted, ("answered", turn.answer)]:
            (folder / turn.path).write_text(code, encoding="utf-8")
            rows.append((what, *run.check_turn(turn, folder / turn.path)))
    return found


if __name__ == "__main__":
    lesson = Lesson(Path(sys.argv[1]).resolve())
    planted = wrong_answers(lesson.number)
    if len(sys.argv) > 2:
        planted = tomllib.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(results(lesson, planted, Path(folder)), indent=1))
