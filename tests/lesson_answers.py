"""Run a lesson as a script, and try the answers of its checks in passing.

    python tests/lesson_answers.py LESSON.py RESULTS.json [WRONG.toml]

The script runs in fast mode from its first line to its last. At each check, the function is also
tried unanswered, and with each wrong answer of the TOML file. RESULTS.json is written at the end:
for each function a list of [what, passed, text].
"""

import contextlib
import io
import json
import os
import runpy
import sys
import tomllib
from pathlib import Path

from minitorch_attn.backend import get_rng_state, set_rng_state
from minitorch_attn.course import your_turn
from minitorch_attn.course.lesson_list import Lesson

HERE = Path(__file__).resolve().parent / "lessons" / "wrong_answers"


def wrong_answers(number):
    """The planted mistakes of a lesson: function -> list of tables with mistake, old and new."""
    path = HERE / f"{number}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def run(lesson, wrong):
    """Run a lesson with a `check` that tries all answers, and return what they gave."""
    found, turns = {}, {turn.name: turn for turn in lesson.turns}
    correct_check = your_turn.check

    def check(function, *arguments, **named):
        turn, namespace = turns[function.__name__], sys._getframe(1).f_globals
        planted = [
            (entry["mistake"], turn.answer.replace(entry["old"], entry["new"]))
            for entry in wrong.get(turn.name, ())
        ]
        state, rows = get_rng_state(), []
        for what, code in [("unanswered", turn.unanswered), *planted]:
            version = defined(code, turn, namespace)
            namespace[turn.name] = version  # the properties call it by its name
            rows.append((what, *outcome(correct_check, version, *arguments, **named)))
            set_rng_state(state)
        namespace[turn.name] = function
        rows.append(("answered", *outcome(correct_check, function, *arguments, **named)))
        found[turn.name] = rows
        print(rows[-1][-1], end="")

    your_turn.check = check
    sys.argv, sys.path[0] = [str(lesson.path)], str(lesson.path.parent)  # as of a script
    runpy.run_path(str(lesson.path), run_name="__main__")
    return found


def defined(code, turn, namespace):
    """Define another version of a function, in a copy of the lesson's namespace."""
    names = {name: value for name, value in namespace.items() if name != turn.name}
    exec(compile(code, str(turn.path), "exec"), names)
    return names[turn.name]


def outcome(check, function, *arguments, **named):
    """Whether a function passes its check, and what is printed; nothing if it is not written."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            check(function, *arguments, **named)
    except your_turn.CheckFailed as error:
        return False, f"{printed.getvalue()}{error}\n" if error.is_written else ""
    return True, printed.getvalue()


if __name__ == "__main__":
    os.environ["MTA_FAST"] = "1"
    lesson, results, *planted = (Path(argument).resolve() for argument in sys.argv[1:])
    lesson = Lesson(lesson)
    wrong = wrong_answers(lesson.number)
    if planted:
        wrong = tomllib.loads(planted[0].read_text(encoding="utf-8"))
    results.write_text(json.dumps(run(lesson, wrong), indent=1), encoding="utf-8")
