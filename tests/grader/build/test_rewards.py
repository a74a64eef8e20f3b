"""Rewards: what a student sees before the work is done, and the code that all rewards share."""

import json
import os
import re
import subprocess
import sys

import pytest

from minitorch_attn.grader.build.assignment import assignments
from minitorch_attn.grader.build.release import write_release

ASSIGNMENTS = assignments()
MADE = pytest.mark.parametrize("made", ASSIGNMENTS, ids=lambda made: made.name)


def run(folder, *words):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )


@MADE
@pytest.mark.slow
def test_before_the_work_is_done_it_says_what_is_missing_in_two_lines(made, tmp_path):
    write_release(made, tmp_path / "release")
    done = run(tmp_path / "release", "reward.py")
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    first, second = done.stderr.splitlines()
    name, file, line = re.fullmatch(r"(\S+) is not written yet: (\S+), line (\d+)", first).groups()
    (blank,) = (b for b in made.blanks if (b.target.name, b.target.path) == (name, file))
    text = (tmp_path / "release" / file).read_text().splitlines()[int(line) - 1]
    assert text.strip() == f'raise NotYetWritten("{name}")'
    assert second == f"check it with: python check.py {blank.name}"
    checked = run(tmp_path / "release", *second.removeprefix("check it with: python ").split())
    assert checked.returncode == 1 and f"NotYetWritten: {name}" in checked.stdout


def test_a_function_that_was_taken_out_is_named_as_such(release):
    (release / "reward.py").write_text(
        "import sys\nfrom training import run\n"
        "from minitorch_attn.ops.softmax import MaskedSoftmax\n\n"
        "sys.exit(run(lambda: MaskedSoftmax.backward(None, None)))\n"
    )
    done = run(release, "reward.py")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert re.match(r"MaskedSoftmax.backward is removed from this library: minitorch_attn/ops/"
                    r"softmax.py, line \d+$", first)  # fmt: skip
    assert second == "write your function without it"


def test_other_errors_keep_their_traceback_and_results_their_code(release):
    program = "import sys\nfrom training import run\nsys.exit(run(lambda: {}))\n"
    (release / "reward.py").write_text(program.format("1 / 0"))
    done = run(release, "reward.py")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    for code in (0, 1):
        (release / "reward.py").write_text(program.format(code))
        done = run(release, "reward.py")
        assert done.returncode == code and ("has not learned" in done.stdout) is bool(code)


@pytest.mark.slow
def test_a_function_names_its_checks(release):
    done = run(release, "check.py", "Softmax.forward")
    assert done.stdout.startswith("forward") and "of 2 points" in done.stdout
    table = json.loads((release / "public" / "checks.json").read_text())
    names = ("forward", "log forward", "forward, large")
    more = [{**table[0], "name": name, "of": of} for name, of in zip(names, "aab", strict=True)]
    (release / "public" / "checks.json").write_text(json.dumps(more))
    for word, wanted in (
        ("forward", names[:1]), ("log", names[1:2]), ("a", names[:2]), ("ward", names)
    ):  # fmt: skip
        found = json.loads(run(release, "check.py", word, "--json").stdout)
        assert tuple(entry["name"] for entry in found) == wanted
    done = run(release, "check.py", "Softmax.nothing")
    assert done.returncode == 2 and "no check has" in done.stderr


@pytest.fixture
def training(monkeypatch):
    """The module that all rewards share."""
    monkeypatch.syspath_prepend(str(ASSIGNMENTS[0].folder.parent / "student"))
    sys.modules.pop("training", None)
    import training

    yield training
    del sys.modules["training"]


def test_the_text_is_prose(training):
    text = training.prose()
    assert len(text) > 100_000 and set(text) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz .,;:'\"()-\n"
    )
    assert "_" not in text and "   " not in text and text == training.prose()


@pytest.mark.slow
def test_it_writes_more_and_more_like_its_text(training, capsys):
    assert training.learn_to_write(60) == 1  # not learned yet, and not a mistake
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split() == ["step", "loss", "it", "writes"]
    steps = {int(line[:4]): float(line[4:10]) for line in lines[4:] if line[:4].strip().isdigit()}
    assert list(steps) == [1, 20, 50, 60] and steps[60] < steps[20] < steps[1]
    assert max(map(len, lines)) <= 80


def test_drawings(training, capsys):
    tall = training.panel("a picture", [[0, 0.5, 1], [1, 0, 0]])
    assert tall == ["a picture", "|  ++@@|".replace("+", training.SHADES[5]), "|@@    |"]
    assert training.panel("", [[0.5]], top=1.0)[1] == f"|{2 * training.SHADES[5]}|"
    assert training.panel("", [[0.0]])[1] == "|  |"
    training.beside(["ab", "c"], ["d"], gap=1)
    assert capsys.readouterr().out == "  ab d\n  c\n"
