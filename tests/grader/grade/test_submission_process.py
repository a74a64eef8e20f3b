"""Ending a worker also ends every process that it has started."""

import ctypes
import os
from pathlib import Path

import pytest
from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.grade.sandbox_users import user_in


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
