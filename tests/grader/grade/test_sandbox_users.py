"""Each sandbox slot of each grader has a separate user; two graders do not interfere."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from grader.grade.conftest import FILE, RIGHT, levels

from minitorch_attn.errors import DataError
from minitorch_attn.grader.grade import sandbox_users as users
from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.sandbox import Sandbox

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
BOMB = b"import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
TAKE = """
import sys
from minitorch_attn.grader.grade.sandbox_users import user_of
print(user_of(0), user_of(1), user_of(0), flush=True)
sys.stdin.read()
"""
GRADER = """
import sys
from grader.grade import test_sandbox_users as tests
tests.other_grader(int(sys.argv[1]), sys.argv[2])
"""
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Four users, whose locks lie in a folder of this test."""
    monkeypatch.setattr(users, "COUNT", 4)
    monkeypatch.setattr(users, "_PLACES", (str(tmp_path),))
    monkeypatch.setattr(users, "_taken", {})
    monkeypatch.setattr(users, "_known", lambda user: False)
    return tmp_path / "minitorch-attn-users"


def start(program, *words):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def test_every_place_has_its_user(small):
    found = [users.user_of(place) for place in (0, 1, 2, 3, 1, 0)]
    assert len(set(found[:4])) == 4 and found[4:] == [found[1], found[0]]
    assert set(found) == set(range(users.FIRST, users.FIRST + 4))
    with pytest.raises(DataError, match="all sandbox users are in use"):
        users.user_of(4)


def test_a_user_with_a_name_or_a_process_is_somebody_else_s(small, monkeypatch):
    monkeypatch.undo()
    assert users._known(0) and users._known(os.stat("/proc/self").st_uid)
    free = next(u for u in range(users.FIRST, users.FIRST + users.COUNT) if not users._known(u))
    held = subprocess.Popen(["setpriv", f"--reuid={free}", "sleep", "60"])
    try:
        while users.owner(Path(f"/proc/{held.pid}")) != free:
            pass
        assert users._known(free)
    finally:
        held.kill()
        held.wait()
    assert not users._known(free)


def test_two_graders_have_different_users_and_their_ends_free_them():
    one, other = start(TAKE), start(TAKE)
    found = [list(map(int, process.stdout.readline().split())) for process in (one, other)]
    assert all(line[0] == line[2] for line in found)
    assert len({*found[0], *found[1]}) == 4
    path = users._folder() / str(found[0][0])
    assert users._locked(path) is None
    one.kill()  # however it ends
    one.wait()
    descriptor = users._locked(path)
    assert descriptor is not None
    os.close(descriptor)
    other.communicate("")
    assert other.returncode == 0


def test_a_folder_that_somebody_else_has_made_is_not_used(small, tmp_path, monkeypatch):
    small.mkdir(mode=0o777)
    os.chown(small, users.FIRST, users.FIRST)
    monkeypatch.setattr(users.tempfile, "gettempdir", lambda: str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    assert users._folder() == tmp_path / "own" / "minitorch-attn-users"
    assert not list(small.iterdir())


def other_grader(level, folder):
    """Grade a fork bomb again and again, in another process."""
    from grader.grade.conftest import backward, forward

    from minitorch_attn.grader.grade.sandbox import Limits
    from minitorch_attn.grader.grade.task import Entry, Task

    entries = [Entry("forward", 2.0, forward), Entry("backward", 3.0, backward)]
    task = Task("softmax", "Softmax", "1", [FILE], entries, Path(folder))
    sandbox = Sandbox(level, Limits(memory_bytes=1 << 30, import_seconds=0.5))
    while True:
        print("one more", flush=True)
        grade_one(task, task.checks(1), Submission("bomb", {FILE: BOMB + RIGHT}), sandbox)


@pytest.mark.serial
@pytest.mark.parametrize("level", [entry for entry in levels() if entry.values[0] > 1])
def test_a_fork_bomb_in_another_grader_costs_nothing(level, task, limits):
    other, bombs = start(GRADER, level, task.package_folder), []
    reader = threading.Thread(
        target=lambda: [bombs.append(line) for line in other.stdout], daemon=True
    )
    reader.start()
    submission, until = Submission("ada", {FILE: RIGHT}), time.monotonic() + 60
    try:
        while len(bombs) < 4 and time.monotonic() < until:
            document = grade_one(task, task.checks(1), submission, Sandbox(level, limits))
            assert document["score"] == 5.0, [document["output"], document["checks"]]
    finally:
        other.kill()
        other.wait()
        reader.join()
    assert len(bombs) > 1


def test_a_process_that_has_ended_is_nobody_s():
    held = subprocess.Popen(["true"])
    os.waitid(os.P_PID, held.pid, os.WEXITED | os.WNOWAIT)  # its parent takes no note of it
    try:
        assert Path(f"/proc/{held.pid}").exists()
        assert users.owner(Path(f"/proc/{held.pid}")) is None
    finally:
        held.wait()
