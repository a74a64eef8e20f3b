"""Reports are written in all cases: errors in the grader, Ctrl-C, kill -9."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from grader.grade.conftest import RIGHT, hand_in, limits, task  # noqa: F401

from minitorch_attn.cli import main
from minitorch_attn.grader.grade import grade_class as run
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.report import results as results_module
from minitorch_attn.grader.report import write
from minitorch_attn.grader.report.grading import grade_and_report
from minitorch_attn.grader.report.results import read_results

WRONG = RIGHT.replace(b"y * (g -", b"y * (g +")


@pytest.fixture
def folder(tmp_path):
    return hand_in(tmp_path / "in", ada=RIGHT, bob=WRONG, eve=b"import os; os._exit(0)")


EXPECTED = {"ada": 5.0, "bob": 2.0, "eve": 0.0}


def grade(task, folder, out, **more):  # noqa: F811
    return grade_and_report(task, folder, out, level=1, **more)


def scores(out):
    return {d["submission"]["name"]: d["score"] for d in read_results(out)["submissions"]}


def complete(out, count):
    """Every file of every student, and the files of the class."""
    made = [d["folder"] for d in read_results(out)["submissions"]]
    assert len(made) == count
    for name in made:
        assert "</html>" in (out / "students" / name / "feedback.html").read_text("utf-8")
        json.loads((out / "students" / name / "results.json").read_text("utf-8"))
    with open(out / "grades.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.reader(file))) >= count + 1
    assert (out / "junit.xml").stat().st_size > 0


def test_a_class(task, folder, tmp_path):  # noqa: F811
    outcome = grade(task, folder, tmp_path / "out")
    assert outcome.failures == [] and not outcome.stopped and outcome.results["complete"]
    assert scores(tmp_path / "out") == EXPECTED
    complete(tmp_path / "out", 3)


def test_the_wrong_gradient_of_a_student_is_explained(task, folder, tmp_path):  # noqa: F811
    documents = grade(task, folder, tmp_path / "out").results["submissions"]
    bob = next(d for d in documents if d["submission"]["name"] == "bob")
    text = bob["checks"][1]["gradcheck"]
    assert "WRONG  grad" in text and "(3, 11)" in text
    assert bob["checks"][0]["gradcheck"] is None


def test_a_mistake_of_the_grader_leaves_all_reports(
    task, folder, tmp_path, monkeypatch  # noqa: F811
):  # fmt: skip
    real = run.grade_one

    def failing(task, checks, submission, *more):
        if submission.name == "bob":
            raise RuntimeError("out of paper")
        return real(task, checks, submission, *more)

    monkeypatch.setattr(run, "grade_one", failing)
    out = tmp_path / "out"
    outcome = grade(task, folder, out)
    assert len(outcome.failures) == 1 and "out of paper" in outcome.failures[0]
    assert "out of paper" in (out / "grader-errors.txt").read_text()
    assert scores(out) == {**EXPECTED, "bob": 0.0}
    complete(out, 3)
    monkeypatch.undo()
    assert grade(task, folder, out).failures == []  # graded again, and the note is gone
    assert scores(out) == EXPECTED and not (out / "grader-errors.txt").exists()


@pytest.mark.parametrize("name", ["feedback", "gradescope", "grades", "junit"])
@pytest.mark.slow
def test_a_report_that_fails_costs_no_other_one(
    task, folder, tmp_path, monkeypatch, name  # noqa: F811
):  # fmt: skip
    def failing(*arguments):
        raise ZeroDivisionError("a mistake in a report")

    monkeypatch.setattr(write, name, failing)
    out = tmp_path / "out"
    outcome = grade(task, folder, out)
    per_student = name in ("feedback", "gradescope")
    assert len(outcome.failures) == (3 if per_student else 1)
    assert scores(out) == EXPECTED
    written = {path.name for path in out.rglob("*") if path.is_file()}
    lost = {"feedback": "feedback.html", "grades": "grades.csv", "junit": "junit.xml"}.get(name)
    assert lost not in written
    assert {"results.json", "feedback.html", "grades.csv", "junit.xml"} - {lost} <= written


def test_a_full_disk_at_the_end_is_told(task, folder, tmp_path, monkeypatch):  # noqa: F811
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results_module, "write_json", full)
    outcome = grade(task, folder, tmp_path / "out")
    assert outcome.results is None and "No space left" in outcome.failures[0]
    monkeypatch.undo()
    assert grade(task, folder, tmp_path / "out").failures == []
    assert scores(tmp_path / "out") == EXPECTED


def test_ctrl_c_leaves_what_is_graded(task, folder, tmp_path, monkeypatch):  # noqa: F811
    real, seen = run.grade_one, []

    def stopping(task, checks, submission, *more):
        seen.append(submission.name)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(task, checks, submission, *more)

    monkeypatch.setattr(run, "grade_one", stopping)
    out = tmp_path / "out"
    outcome = grade(task, folder, out)
    assert outcome.stopped
    found = read_results(out)
    assert not found["complete"] and "ada" in scores(out)
    names = set(scores(out)) | {missing["name"] for missing in found["not_graded"]}
    assert names == set(EXPECTED)  # nobody is forgotten
    complete(out, len(scores(out)))


def test_half_a_character_in_an_error_stops_nobody(task, folder, tmp_path):  # noqa: F811
    text = b"def softmax(x):\n    raise ValueError('\\ud800 \\u202e \\x1b[31m <b>')\n"
    hand_in(folder, mal=text)
    outcome = grade(task, folder, tmp_path / "out")
    assert outcome.failures == [] and scores(tmp_path / "out") == {**EXPECTED, "mal": 0.0}
    complete(tmp_path / "out", 4)


def start(task, folder, out):  # noqa: F811
    program = Path(__file__).with_name("tiny_class.py")
    return subprocess.Popen(
        [sys.executable, str(program), str(task.package_folder), str(folder), str(out)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_kill_9_half_way_loses_none(task, tmp_path):  # noqa: F811
    names = {f"student{k:02d}": RIGHT if k % 3 else WRONG for k in range(12)}
    folder, out = hand_in(tmp_path / "in", **names), tmp_path / "out"
    process = start(task, folder, out)
    for text in process.stdout:
        if text.startswith("5 "):
            break
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    process.stdout.close()
    kept = {path.name: path.stat().st_mtime_ns for path in (out / "state").glob("*.json")}
    assert 5 <= len(kept) < 12
    again = start(task, folder, out)
    printed = again.communicate(timeout=300)[0].splitlines()
    assert again.returncode == 0 and printed[-1] == "12 12"
    assert scores(out) == {name: 2.0 if code is WRONG else 5.0 for name, code in names.items()}
    complete(out, 12)
    for name, when in kept.items():  # what was graded is not graded again
        assert (out / "state" / name).stat().st_mtime_ns == when
    assert read_results(out)["complete"]
    assert not [path for path in out.rglob("*.tmp") if "state" not in path.parts]


@pytest.fixture
def mta(capsys, task, monkeypatch):  # noqa: F811
    """The command, with the tiny task in the place of every assignment."""
    from minitorch_attn.grader.build import assignment
    from minitorch_attn.grader.build import task as task_module

    monkeypatch.setattr(assignment, "find_assignment", lambda name: name)
    monkeypatch.setattr(task_module, "task_of", lambda made, room: task)

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_the_command(mta, folder, tmp_path):
    out = tmp_path / "out"
    code, said, warned = mta("course", "grade", "x", folder, "--out", out, "--sandbox", 1)
    assert code == 0 and "3 graded" in said and "5/5" in said
    assert "does NOT prevent a submission from reading your files" in " ".join(warned.split())
    code, said, _ = mta("course", "grade", "x", folder, "--out", out, "--sandbox", 1, "--json")
    assert code == 0 and json.loads(said)["complete"] is True
    code, said, _ = mta("course", "report", out)
    assert code == 0 and "3 graded: mean 2.3, median 2.0" in said and "crashed" in said
    assert max(map(len, said.splitlines())) <= 80
    for kind, name in (("csv", "grades.csv"), ("junit", "junit.xml")):
        (out / name).unlink()
        assert mta("course", "export", out, "--format", kind)[0] == 0
        assert (out / name).exists()
    assert mta("course", "export", out, "--format", "prairielearn")[0] == 0
    assert len(list((out / "prairielearn").glob("*/results.json"))) == 3


def test_the_command_s_exit_codes(mta, folder, tmp_path, monkeypatch):
    out = tmp_path / "out"
    (tmp_path / "nobody").mkdir()
    assert mta("course", "grade", "x", tmp_path / "nobody", "--out", out)[0] == 2
    assert mta("course", "grade", "x", tmp_path / "missing", "--out", out)[0] == 2
    assert mta("course", "grade", "x", folder, "--out", folder / "out")[0] == 2
    with monkeypatch.context() as patch:
        patch.setattr(Sandbox, "works", lambda self: None if self.level == 1 else "no namespaces")
        patch.setattr(Sandbox, "best", staticmethod(lambda: 1))
        words = ("course", "grade", "x", folder, "--out", out)
        code, _, said = mta(*words, "--require-sandbox", 2)
        assert code == 3 and "no namespaces" in said and not out.exists()
        assert mta(*words, "--sandbox", 3)[0] == 3 and not out.exists()

    def failing(*arguments):
        raise RuntimeError("out of paper")

    monkeypatch.setattr(run, "grade_one", failing)
    code, _, said = mta("course", "grade", "x", folder, "--out", out, "--sandbox", 1)
    assert code == 4 and "out of paper" in said
    complete(out, 3)


def test_the_results_of_another_assignment_stay_as_they_are(mta, folder, tmp_path):
    out = tmp_path / "out"
    words = ("course", "grade", "x", folder, "--out", out, "--sandbox", 1)
    assert mta(*words)[0] == 0
    run_file = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps({**run_file, "assignment": "other"}))
    before = (out / "results.json").read_bytes()
    code, _, said = mta(*words)
    assert code == 2 and "run.json is for another assignment or version" in said
    assert (out / "results.json").read_bytes() == before


def test_a_name_cannot_move_the_cursor(mta, tmp_path):
    hand_in(tmp_path / "in", **{"a\x1b[2Jb\rc": RIGHT})
    code, said, _ = mta(
        "course", "grade", "x", tmp_path / "in", "--out", tmp_path / "out", "--sandbox", 1
    )
    assert code == 0 and "\x1b" not in said and "\r" not in said
    assert "\x1b" not in mta("course", "report", tmp_path / "out")[1]
