"""Ending a worker also ends every process that it has started."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.grade.sandbox_folders import new_folder, remove_leftovers
from minitorch_attn.grader.grade.sandbox_users import FIRST, user_in
from minitorch_attn.grader.grade.time_limit import state


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


GRADER = """
import signal, sys, time
from pathlib import Path
from grader.grade.conftest import FILE, LIMIT
from minitorch_attn.grader.grade.sandbox import Limits, Sandbox
from minitorch_attn.grader.grade.submission_process import Worker
from minitorch_attn.grader.grade.sandbox_folders import remove_leftovers
from minitorch_attn.grader.grade.time_limit import watched

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, also for the tests
remove_leftovers()
sandbox = Sandbox(int(sys.argv[1]), Limits(), 7)
worker = Worker(sandbox, Path(sys.argv[2]), {FILE: b""})
worker.start()
print(worker.process.pid, watched(worker.process.pid).worker, worker.folder, flush=True)
time.sleep(100)
"""


@pytest.fixture
def temporary_folder(monkeypatch):
    """Temporary folder of this test only: every grader removes the leftovers that it finds."""
    folder = new_folder(user=FIRST if os.geteuid() == 0 else None)
    folder.chmod(0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
@pytest.mark.slow
def test_no_worker_outlives_a_grader_that_is_killed(number, task, level, temporary_folder):
    paths = [str(Path(__file__).resolve().parents[2]), *sys.path]
    command = [sys.executable, "-c", GRADER, str(level), str(task.package_folder)]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(temporary_folder)
    }  # fmt: skip
    grader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    root, worker, folder = grader.stdout.readline().split()
    assert state(int(worker)) not in (None, "Z") and Path(folder).is_dir()
    assert temporary_folder in Path(folder).parents
    grader.send_signal(number)
    assert grader.wait(timeout=30) == -number
    grader.stdout.close()
    until = time.monotonic() + 20
    while {state(int(root)), state(int(worker))} - {None, "Z"} and time.monotonic() < until:
        time.sleep(0.05)
    assert {state(int(root)), state(int(worker))} <= {None, "Z"}
    assert Path(folder).is_dir()  # nobody was left to remove it
    remove_leftovers()
    assert not Path(folder).exists()


def test_the_folder_of_a_living_grader_stays(level, limits):
    folder = Sandbox(level, limits, place=7).new_folder()
    remove_leftovers()
    assert folder.is_dir()
    folder.rmdir()
