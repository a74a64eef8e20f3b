"""Grading a class: in parallel, saved, resumed; no submission affects another's result."""

import json
import os
import time
from dataclasses import replace

import numpy as np
import pytest
from grader.grade.conftest import FILE, RIGHT, hand_in

from minitorch_attn.errors import ArgumentError, CheckpointError, DataError
from minitorch_attn.folder_lock import FolderLock
from minitorch_attn.grader.grade import grade_class as run
from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.document import checked
from minitorch_attn.grader.grade.grade_class import grade_class, slug
from minitorch_attn.grader.grade.sandbox import Sandbox

WRONG = RIGHT.replace(b"y * (g -", b"y * (g +")
BEST = Sandbox.best()


@pytest.fixture
def folder(tmp_path):
    hand_in(tmp_path / "in", **{"ada": RIGHT, "Bob Ünï": WRONG, "eve": b"import os; os._exit(0)"})
    (tmp_path / "in" / "zoe").mkdir()  # hands in nothing
    return tmp_path / "in"


def scores(documents):
    return {document["submission"]["name"]: document["score"] for document in documents}


EXPECTED = {"ada": 5.0, "Bob Ünï": 2.0, "eve": 0.0, "zoe": 0.0}


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_class_is_graded(jobs, task, folder, tmp_path, limits):
    seen = []
    documents = grade_class(
        task, folder, tmp_path / "out", level=BEST, jobs=jobs, limits=limits,
        report=lambda document, done, total, how: seen.append((done, total, how)),
    )  # fmt: skip
    assert scores(documents) == EXPECTED
    assert all(checked(document) is document for document in documents)
    assert seen == [(k, 4, "new") for k in (1, 2, 3, 4)]
    assert all(document["grader"]["sandbox"] == BEST for document in documents)
    zoe = documents[-1]
    assert zoe["status"] == "not readable" and len(zoe["checks"]) == 2
    kept = sorted((tmp_path / "out" / "state").glob("*.json"))
    assert sorted(json.loads(path.read_text())["submission"]["name"] for path in kept) == sorted(
        EXPECTED
    )


def test_a_run_goes_on_where_it_stopped(task, folder, tmp_path, limits, monkeypatch):
    out = tmp_path / "out"
    graded, real = [], run.grade_one

    def counting(task, checks, submission, *more):
        graded.append(submission.name)
        if len(graded) == 3:
            raise KeyboardInterrupt
        return real(task, checks, submission, *more)

    monkeypatch.setattr(run, "grade_one", counting)
    with pytest.raises(KeyboardInterrupt):
        grade_class(task, folder, out, level=BEST, limits=limits)
    seed = json.loads((out / "run.json").read_text())["seed"]
    documents = grade_class(task, folder, out, level=BEST, limits=limits)
    assert scores(documents) == EXPECTED
    assert json.loads((out / "run.json").read_text())["seed"] == seed  # the same inputs
    assert sorted(graded) == sorted([*EXPECTED, graded[2]])  # nobody twice but the one cut off


def test_a_changed_submission_is_graded_anew(task, folder, tmp_path, limits):
    out = tmp_path / "out"
    grade_class(task, folder, out, level=BEST, limits=limits)
    (folder / "eve" / FILE).write_bytes(RIGHT)
    documents = grade_class(task, folder, out, level=BEST, limits=limits)
    assert scores(documents) == {**EXPECTED, "eve": 5.0}


def test_a_mistake_of_the_grader_is_written_down(task, folder, tmp_path, limits, monkeypatch):
    real = run.grade_one

    def failing(task, checks, submission, *more):
        if submission.name == "ada":
            raise RuntimeError("out of paper")
        return real(task, checks, submission, *more)

    monkeypatch.setattr(run, "grade_one", failing)
    documents = grade_class(task, folder, tmp_path / "out", level=BEST, limits=limits)
    ada = next(d for d in documents if d["submission"]["name"] == "ada")
    assert ada["status"] == "not graded" and "out of paper" in ada["detail"]
    assert scores(documents)["Bob Ünï"] == 2.0
    monkeypatch.undo()
    documents = grade_class(task, folder, tmp_path / "out", level=BEST, limits=limits)
    assert scores(documents) == EXPECTED  # tried again


def _changed(change):
    def damage(text):
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return damage


DAMAGED = {
    "no JSON": lambda text: "{",
    "a list": lambda text: "[]",
    "a higher score": _changed(lambda d: d.update(score=99.0)),
    "points for a failure": _changed(lambda d: d["checks"][0].update(status="failed")),
    "more points": _changed(lambda d: d["checks"][0].update(points=9.0, max_points=9.0)),
    "checks that are not a list": _changed(lambda d: d.update(checks={})),
    "a check less": _changed(lambda d: (d["checks"].pop(), d.update(score=2.0))),
    "a hidden check": _changed(lambda d: d["checks"][0].update(hidden=True)),
    "another maximum": _changed(lambda d: d.update(max_score=2.0)),
    "another status": _changed(lambda d: d.update(status="perfect")),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_document_is_made_anew(damage, task, folder, tmp_path, limits):
    out = tmp_path / "out"
    folder = hand_in(tmp_path / "one", ada=RIGHT)
    grade_class(task, folder, out, level=1, limits=limits)
    (path,) = (out / "state").glob("ada*")
    before = path.read_text()
    path.write_text(damage(before))
    (document,) = grade_class(task, folder, out, level=1, limits=limits)
    assert document["score"] == 5.0 and json.loads(path.read_text())["score"] == 5.0
    seen = []
    grade_class(task, folder, out, level=1, limits=limits, report=lambda *a: seen.append(a[-1]))
    assert seen == ["kept"]


def test_without_its_seed_a_result_is_graded_again(task, folder, tmp_path, limits):
    out, seen = tmp_path / "out", []
    grade_class(task, folder, out, level=1, limits=limits)
    (out / "run.json").unlink()
    report = lambda *arguments: seen.append(arguments[-1])  # noqa: E731
    grade_class(task, folder, out, level=1, limits=limits, report=report)
    assert set(seen) == {"others"}


def test_a_level_that_does_not_work_is_refused(task, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Sandbox, "works", lambda self: "no namespaces")
    with pytest.raises(ArgumentError, match="no namespaces"):
        grade_class(task, folder, tmp_path / "out", level=3)
    assert not (tmp_path / "out").exists()


def test_results_of_another_assignment_are_not_mixed_in(task, folder, tmp_path, limits):
    out = tmp_path / "out"
    out.mkdir()
    other = {"version": 1, "assignment": "other", "assignment_version": "1", "seed": "ff"}
    (out / "run.json").write_text(json.dumps(other))
    with pytest.raises(ArgumentError, match="is for another assignment or version"):
        grade_class(task, folder, out, level=BEST, limits=limits)
    (out / "run.json").write_text("[]")
    with pytest.raises(DataError):
        grade_class(task, folder, out, level=BEST, limits=limits)


def test_nothing_handed_in(task, tmp_path):
    (tmp_path / "in").mkdir()
    with pytest.raises(ArgumentError, match="contains no submissions"):
        grade_class(task, tmp_path / "in", tmp_path / "out", level=BEST)


def test_inputs_follow_from_the_seed_and_differ_between_entries(task):
    one, same, other = (task.checks(seed) for seed in (1, 1, 2))
    x = [checks[0][1][0].inputs["x"] for checks in (one, same, other)]
    np.testing.assert_array_equal(x[0], x[1])
    assert (x[0] != x[2]).all()


def test_file_names_for_anybody_s_name():
    names = ["Ada", "ada", "../../etc", "数", "", "a" * 500, "con", "\udcff"]
    assert len({slug(name) for name in names}) == len(names)
    assert all(slug(name).replace("-", "").isalnum() and len(slug(name)) < 60 for name in names)


def test_the_process_is_replaced_after_a_failure_and_kept_otherwise(task, folder, limits):
    from minitorch_attn.grader.grade.session import Session

    checks = task.checks(1)
    with Session(Sandbox(BEST, limits), task.package_folder, {FILE: RIGHT}) as session:
        assert session.verdict(checks[0][1][0]).passed
        worker = session._worker
        assert session.verdict(checks[1][1][0]).passed and session._worker is worker
        os.killpg(worker.process.pid, 9)
        time.sleep(0.1)
        assert session.verdict(checks[1][1][1]).status == "crashed"
        assert session.verdict(checks[1][1][1]).passed


@pytest.mark.slow
def test_two_graders_of_one_folder_do_not_run_at_once(task, folder, tmp_path, limits):
    out = tmp_path / "out"
    out.mkdir()
    with FolderLock(out, "grading folder"), pytest.raises(CheckpointError, match="another process"):
        grade_class(task, folder, out, level=1, limits=limits)
    assert scores(grade_class(task, folder, out, level=1, limits=limits)) == EXPECTED


def test_marks_and_the_seed_are_for_the_owner_only(task, folder, tmp_path, limits):
    out = tmp_path / "out"
    grade_class(task, folder, out, level=1, limits=limits)
    assert (out.stat().st_mode | (out / "state").stat().st_mode) & 0o077 == 0
    assert (out / "run.json").stat().st_mode & 0o077 == 0


def test_a_missing_file_costs_its_own_points_only(task, tmp_path, limits):
    made = replace(task, files=[FILE, "minitorch_attn/other.py"])
    submission = Submission("ada", {FILE: RIGHT}, ["minitorch_attn/other.py is missing"])
    document = run.grade_one(made, made.checks(1), submission, Sandbox(1, limits))
    assert (document["status"], document["score"]) == ("graded", 5.0)
    assert document["submission"]["problems"] == ["minitorch_attn/other.py is missing"]


def test_one_cause_is_named_once_and_what_follows_from_a_forward_pass(task, limits):
    forward, backward = task.entries
    entries = [
        replace(forward, of=["Softmax.forward"]), replace(backward, of=["Softmax.backward"]),
        replace(forward, name="again", of=["Other.forward"]),
    ]  # fmt: skip
    made = replace(task, entries=entries)

    def lines(code):
        submission = Submission("ada", {FILE: code})
        document = run.grade_one(made, made.checks(1), submission, Sandbox(1, limits))
        return [(line["same_as"], line["follows"]) for line in document["checks"]]

    assert lines(b"import matplotlib\n") == [(None, None), ("forward", None), ("forward", None)]
    assert lines(RIGHT) == [(None, None)] * 3
    wrong = WRONG.replace(b"return y / y", b"return 2 * y / y")
    assert lines(wrong) == [(None, None), (None, "forward"), (None, None)]
    assert lines(WRONG) == [(None, None)] * 3  # only the backward pass is wrong
