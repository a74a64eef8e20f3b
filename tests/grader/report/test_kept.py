"""Stored results: listed, combined with new results, and removed only on request."""

import csv
import errno
import os
import shutil
import signal
import threading
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import replace

import pytest
from grader.grade.conftest import FILE, RIGHT, limits, task  # noqa: F401
from grader.report.test_grading import (  # noqa: F401
    EXPECTED,
    complete,
    folder,
    grade,
    hand_in,
    scores,
)

from minitorch_attn.cli import main
from minitorch_attn.grader.build import assignment as assignment_module
from minitorch_attn.grader.build import task as task_module
from minitorch_attn.grader.grade import grade_class as run
from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.report.results import read_results

WRONG = RIGHT.replace(b"y * (g -", b"y * (g +")


@pytest.fixture
def mta(capsys, task, monkeypatch):  # noqa: F811
    """The command, with a tiny task that a test can change in the place of every assignment."""
    made = {"task": task}
    monkeypatch.setattr(assignment_module, "find_assignment", lambda name: name)
    monkeypatch.setattr(task_module, "task_of", lambda name, room: made["task"])

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    call.made = made
    return call


def marks(mta, folder, out, *words):  # noqa: F811
    return mta("course", "grade", "x", folder, "--out", out, "--sandbox", 1, *words)


def rows(out):
    with open(out / "grades.csv", newline="", encoding="utf-8") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def progress(said):
    """Name -> the line of the run; the count aside."""
    lines = [line.split("  ", 1)[1] for line in said.splitlines() if "/" in line.split(" ")[0]]
    return {line.split()[0]: line for line in lines}


def test_what_is_kept_is_told(mta, folder, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    code, said, _ = marks(mta, folder, out)
    assert code == 0 and "    kept" not in said and "  again" not in said
    (folder / "bob" / FILE).write_bytes(RIGHT)
    hand_in(folder, zoe=WRONG)
    code, said, _ = marks(mta, folder, out)
    lines = progress(said)
    assert "kept" in lines["ada"] and "kept" in lines["eve"]
    assert "again" in lines["bob"] and "kept" not in lines["bob"]
    assert "again" not in lines["zoe"] and "kept" not in lines["zoe"]
    assert "4 graded (2 of them in an earlier run)" in said
    assert max(map(len, said.splitlines())) <= 80 + len(str(out))


def test_a_late_submission_drops_nobody(mta, folder, tmp_path):  # noqa: F811
    out, late = tmp_path / "out", hand_in(tmp_path / "late", zoe=RIGHT)
    assert marks(mta, folder, out)[0] == 0
    code, said, _ = marks(mta, late, out)
    assert code == 0 and "4 graded (3 of them in an earlier run)" in said
    assert scores(out) == {**EXPECTED, "zoe": 5.0} and read_results(out)["complete"]
    complete(out, 4)
    assert set(rows(out)) == {*EXPECTED, "zoe"}
    suites = {suite.get("name") for suite in ET.parse(out / "junit.xml").getroot()}
    assert suites == {*EXPECTED, "zoe"}
    # Handed in anew: one line, and the new mark.
    (hand_in(tmp_path / "later", bob=RIGHT) / "README.txt").write_text("no submission")
    assert marks(mta, tmp_path / "later", out)[0] == 0
    assert scores(out) == {**EXPECTED, "zoe": 5.0, "bob": 5.0}


def test_who_is_removed_leaves_by_order_only(mta, folder, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    assert marks(mta, folder, out)[0] == 0
    eve = next(d["folder"] for d in read_results(out)["submissions"] if d["score"] == 0)
    (folder / "eve" / FILE).unlink()
    for path in sorted((folder / "eve").rglob("*"), reverse=True):
        path.rmdir()
    (folder / "eve").rmdir()
    assert marks(mta, folder, out)[0] == 0 and scores(out) == EXPECTED
    code, said, _ = marks(mta, folder, out, "--forget-others")
    assert code == 0 and "1 removed" in said
    assert set(scores(out)) == set(rows(out)) == {"ada", "bob"}
    assert not list(out.rglob(f"{eve}*"))
    assert " removed:" not in marks(mta, folder, out, "--forget-others")[1]


def test_the_csv_says_which_folder_it_was(mta, tmp_path):
    folder = hand_in(tmp_path / "in", ada=RIGHT)  # noqa: F811
    with zipfile.ZipFile(folder / "Bob Ünï.zip", "w") as archive:
        archive.writestr(FILE, WRONG)
    out = tmp_path / "out"
    assert marks(mta, folder, out)[0] == 0
    assert {n: row["folder"] for n, row in rows(out).items()} == {
        "ada": "ada", "Bob Ünï": "Bob Ünï.zip"
    }  # fmt: skip


@pytest.mark.slow
def test_other_checks_grade_everybody_again(mta, task, folder, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    mta.made["task"] = replace(task, digest="one")
    assert marks(mta, folder, out)[0] == 0
    forward = replace(task.entries[0], points=4.0, hidden=True)
    mta.made["task"] = replace(task, digest="two", entries=[forward, task.entries[1]])
    code, said, _ = marks(mta, folder, out)
    assert code == 0 and "3 graded again because the assignment or the grader has changed" in said
    assert "kept" not in said and all("again" in line for line in progress(said).values())
    assert scores(out) == {"ada": 7.0, "bob": 4.0, "eve": 0.0}
    lines = [d["checks"][0] for d in read_results(out)["submissions"]]
    assert all(line["hidden"] and line["max_points"] == 4.0 for line in lines)
    assert "kept" in marks(mta, folder, out)[1]


def test_a_result_of_other_checks_that_is_not_graded_again_is_named(
    mta, task, folder, tmp_path  # noqa: F811
):  # fmt: skip
    out, late = tmp_path / "out", hand_in(tmp_path / "late", zoe=RIGHT)
    mta.made["task"] = replace(task, digest="one")
    assert marks(mta, folder, out)[0] == 0
    mta.made["task"] = replace(task, digest="two")
    code, said, _ = marks(mta, late, out)
    assert code == 0 and "3 outdated" in said
    assert {name: row["status"] for name, row in rows(out).items()} == {
        "ada": "outdated", "bob": "outdated", "eve": "outdated", "zoe": "graded",
    }  # fmt: skip
    assert "with other checks" in mta("course", "report", out)[1]


@pytest.mark.parametrize("name", ["assignment.toml", "checks.py"])
def test_the_digest_changes_with_what_decides_over_points(name, tmp_path):
    source = assignment_module.assignment_folder() / "softmax"
    copied = shutil.copytree(source, tmp_path / "softmax")

    def digest():
        made = assignment_module.read_assignment(copied)
        return task_module._digest(made)

    before = digest()
    assert before == digest() and len(before) == 64
    text = (copied / name).read_text("utf-8")
    (copied / name).write_text(text + "\n# another\n", "utf-8")
    assert digest() != before


# Mistakes of the grader


def failing_checks(rng):
    return [1 / 0]


def test_checks_that_raise_give_nobody_a_zero(mta, task, folder, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    broken = replace(task.entries[1], make=failing_checks)
    mta.made["task"] = replace(task, entries=[task.entries[0], broken])
    code, said, warned = marks(mta, folder, out)
    assert code == 4 and "ZeroDivisionError: division by zero" in warned
    assert "0 graded, 3 not yet graded" in said
    assert [(row["score"], row["status"]) for row in rows(out).values()] == [("", "not graded")] * 3
    for missing in read_results(out)["not_graded"]:
        assert "checks.py" in missing["message"] and "division by zero" in missing["message"]
    assert "division by zero" in mta("course", "report", out)[1]
    assert "failing_checks" in (out / "grader-errors.txt").read_text()
    mta.made["task"] = task
    assert marks(mta, folder, out)[0] == 0 and scores(out) == EXPECTED


def test_checks_that_raise_later_leave_what_was_graded(mta, task, folder, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    assert marks(mta, folder, out)[0] == 0
    hand_in(folder, zoe=RIGHT)
    mta.made["task"] = replace(task, entries=[replace(task.entries[0], make=failing_checks)])
    assert marks(mta, folder, out)[0] == 4
    assert scores(out) == EXPECTED and rows(out)["zoe"]["status"] == "not graded"
    assert rows(out)["ada"]["score"] == "5"


def test_an_error_of_the_library_in_the_checks_is_no_wrong_usage(
    mta, task, folder, tmp_path  # noqa: F811
):  # fmt: skip
    def refused(rng):
        raise run.ArgumentError("softmax: there is no such axis.")

    mta.made["task"] = replace(task, entries=[replace(task.entries[0], make=refused)])
    code, _, warned = marks(mta, folder, tmp_path / "out")
    assert code == 4 and "no such axis" in warned


def test_a_mistake_with_one_submission_gives_it_no_mark(
    mta, folder, tmp_path, monkeypatch  # noqa: F811
):  # fmt: skip
    real = run.grade_one

    def broken(task, checks, submission, *more):  # noqa: F811
        if submission.name == "ada":
            raise RuntimeError("out of paper")
        return real(task, checks, submission, *more)

    monkeypatch.setattr(run, "grade_one", broken)
    out, late = tmp_path / "out", hand_in(tmp_path / "late", zoe=RIGHT)
    assert marks(mta, late, out)[0] == 0
    code, said, _ = marks(mta, folder, out)
    assert "3 graded (1 of them in an earlier run), 1 not yet graded" in said
    assert code == 4 and "-/5" in progress(said)["ada"]
    assert (rows(out)["ada"]["score"], rows(out)["ada"]["status"]) == ("", "not graded")
    assert not read_results(out)["complete"]
    page = next((out / "students").glob("ada*/feedback.html")).read_text("utf-8")
    assert "This is not a grade" in page


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_full_disk_half_way(jobs, task, folder, tmp_path, monkeypatch):  # noqa: F811
    real, out, written = run.write_json, tmp_path / "out", []

    def full(path, content):
        if path.parent.name == "state":
            if written:
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(path)
        real(path, content)

    monkeypatch.setattr(run, "write_json", full)
    outcome = grade(task, folder, out, jobs=jobs)
    assert len(outcome.failures) == 1 and "No space left" in outcome.failures[0]
    assert len(scores(out)) == 1 and len(read_results(out)["not_graded"]) == 2
    complete(out, 1)
    before = written[0].stat().st_mtime_ns
    monkeypatch.undo()
    assert grade(task, folder, out).failures == [] and scores(out) == EXPECTED
    assert written[0].stat().st_mtime_ns == before  # not graded twice


def test_a_disk_on_which_nothing_can_be_written(mta, folder, tmp_path, monkeypatch):  # noqa: F811
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run, "write_json", full)
    for name in ("write_class", "write_student", "write_text", "collect"):
        monkeypatch.setattr(f"minitorch_attn.grader.report.grading.{name}", full)
    code, _, warned = marks(mta, folder, tmp_path / "out")
    assert code == 4 and "No space left" in warned and "Traceback" not in warned


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.slow
def test_a_signal_leaves_what_was_graded_and_the_run_goes_on(
    number, mta, tmp_path, monkeypatch
):  # fmt: skip
    folder = hand_in(tmp_path / "in", **{f"s{k}": RIGHT for k in range(5)})  # noqa: F811
    real, out, graded = run.grade_one, tmp_path / "out", []

    def signalling(task, checks, submission, *more):  # noqa: F811
        if len(graded) == 2:
            os.kill(os.getpid(), number)
        graded.append(submission.name)
        return real(task, checks, submission, *more)

    with monkeypatch.context() as patch:
        patch.setattr(run, "grade_one", signalling)
        code, said, warned = marks(mta, folder, out)
    assert code == 130 and "run the same command again" in warned
    done = scores(out)
    assert 2 <= len(done) < 5 and set(done.values()) == {5.0}
    complete(out, len(done))
    assert len(read_results(out)["not_graded"]) == 5 - len(done)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    code, said, _ = marks(mta, folder, out)
    assert code == 0 and said.count("    kept") == len(done) and len(scores(out)) == 5


def test_ctrl_c_waits_for_one_check_only(task, limits):  # noqa: F811
    stop, asked = threading.Event(), []

    class Watching(list):
        def __iter__(self):
            for pair in list.__iter__(self):
                asked.append(pair)
                yield pair
                stop.set()

    submission = Submission("ada", {FILE: RIGHT})
    with pytest.raises(run.Stopped):
        run.grade_one(task, Watching(task.checks(1)), submission, Sandbox(1, limits), stop)
    assert len(asked) == 2  # the first was graded


def test_nobody_is_silently_missing(mta, tmp_path):
    folder = hand_in(tmp_path / "in", ada=RIGHT)  # noqa: F811
    (folder / "bob.rar").write_bytes(b"")
    (tmp_path / "roster.csv").write_text("id,Name\n1,ada\n2,Zoë\n3,bob\n")
    out = tmp_path / "out"
    code, said, _ = marks(mta, folder, out, "--roster", tmp_path / "roster.csv")
    assert code == 0 and "2 on the roster did not hand anything in" in said
    assert "not a submission: bob.rar" in said
    assert {name: row["status"] for name, row in rows(out).items()} == {
        "ada": "graded", "Zoë": "not handed in", "bob": "not handed in",
    }  # fmt: skip
    assert rows(out)["Zoë"]["score"] == "" and rows(out)["ada"]["score"] == "5"
    found = read_results(out)
    assert found["not_handed_in"] == ["Zoë", "bob"] and found["not_on_roster"] == []
    report = mta("course", "report", out)[1]
    assert "Zoë" in report and "bob.rar" in report
    (tmp_path / "names.txt").write_text("eve\n\neve\n")
    assert marks(mta, folder, out, "--roster", tmp_path / "names.txt")[0] == 0
    assert read_results(out)["not_on_roster"] == ["ada"]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"name\n", b"\xff\xfe\0"])
def test_a_roster_without_names_is_refused(data, mta, tmp_path):
    folder = hand_in(tmp_path / "in", ada=RIGHT)  # noqa: F811
    (tmp_path / "roster").write_bytes(data)
    code, _, warned = marks(mta, folder, tmp_path / "out", "--roster", tmp_path / "roster")
    assert code == 2 and "roster" in warned and not (tmp_path / "out").exists()


def test_the_table_names_the_feedback_and_what_to_look_at(mta, tmp_path):
    odd = b"import numpy as np\n" + RIGHT + b"def f(x): return x.imag\n"
    out, folder = tmp_path / "out", hand_in(tmp_path / "in", ada=RIGHT, eve=odd)  # noqa: F811
    assert marks(mta, folder, out)[0] == 0
    for row in rows(out).values():
        assert (out / row["feedback"]).is_file()
    assert rows(out)["ada"]["look at"] == "" and "complex numbers" in rows(out)["eve"]["look at"]
    assert "complex numbers" in mta("course", "report", out)[1]


def test_all_submissions_to_look_at_can_be_listed(mta, tmp_path):
    place = tmp_path / "in"
    for number in range(25):
        (place / f"student {number:02d}").mkdir(parents=True)
    assert marks(mta, place, tmp_path / "out")[0] == 0
    short = mta("course", "report", tmp_path / "out")[1]
    assert "student 19" in short and "student 20" not in short and "and 5 more" in short
    assert "--all" in short
    whole = mta("course", "report", tmp_path / "out", "--all")[1]
    assert "student 24" in whole and "more" not in whole


def test_a_submission_without_a_result_is_an_error(mta, folder, tmp_path, monkeypatch):  # noqa: F811
    out = tmp_path / "out"
    monkeypatch.setattr(run, "write_json", lambda *arguments: None)  # nothing is kept
    monkeypatch.setattr(run, "run_seed", lambda *arguments: 1)
    code, said, warned = marks(mta, folder, out)
    assert code == 4 and "not every submission is graded" in warned and "0 graded" in said
