"""Where a worker lives, whatever the temporary folder of the grader is."""

import ctypes
import os
import tempfile
from pathlib import Path

import pytest
from course.grade.conftest import FILE, RIGHT

from minitorch_attn.course.grade.archive import Submission
from minitorch_attn.course.grade.run import grade_one
from minitorch_attn.course.grade.sandbox import Sandbox
from minitorch_attn.course.grade.users import user_in
from minitorch_attn.errors import ArgumentError


def test_a_temporary_folder_that_nobody_else_may_enter(task, level, limits, tmp_path, monkeypatch):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    sandbox = Sandbox(level, limits, place=5)
    assert sandbox.works() is None
    document = grade_one(task, task.checks(1), Submission("ada", {FILE: RIGHT}), sandbox)
    assert document["score"] == document["max_score"]


def test_nothing_is_left_behind(task, level, limits, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o755)
    grade_one(task, task.checks(1), Submission("a", {FILE: b"def ("}), Sandbox(level, limits))
    left = [path for path in tmp_path.iterdir() if not (path / "python").exists()]
    assert [path.name for path in left if path.name.startswith("minitorch-attn-")] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="without root the user is our own")
def test_no_dead_process_stays_where_nobody_waits_for_it(task, level, limits):
    """In a container the first process often waits for nobody; here this one does not."""
    subreaper = 36  # PR_SET_CHILD_SUBREAPER: orphans come here
    code = (
        "import os, time\nfor _ in range(3):\n    if os.fork() == 0: os.setsid(); time.sleep(99)\n"
    )
    sandbox, libc = Sandbox(level, limits, place=6), ctypes.CDLL(None)
    assert libc.prctl(subreaper, 1, 0, 0, 0) == 0
    try:
        for _ in range(3):
            submission = Submission("ada", {FILE: code.encode() + RIGHT})
            assert grade_one(task, task.checks(1), submission, sandbox)["score"] == 5.0
            left = [path for path in Path("/proc").glob("[0-9]*") if user_in(path) == sandbox.user]
            assert left == []
    finally:
        libc.prctl(subreaper, 0, 0, 0, 0)


def test_there_are_three_levels():
    with pytest.raises(ArgumentError, match="no such level"):
        Sandbox(4)
    assert Sandbox.best() in (1, 2, 3)
