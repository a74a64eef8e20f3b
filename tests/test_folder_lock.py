"""The lock on a folder: one holder at a time, named to others, and free once its process ends."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from minitorch_attn.errors import CheckpointError
from minitorch_attn.folder_lock import FolderLock, holder_of
from minitorch_attn.training.run_folder import RunFolder

HOLD = """
    import sys, time
    from minitorch_attn.training.run_folder import RunFolder
    run = RunFolder.create(sys.argv[1], {"options": {"steps": 5}})
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(tmp_path):
    """A process that holds the run folder `tmp_path / "run"`."""
    command = [sys.executable, "-c", textwrap.dedent(HOLD), str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.wait()


def test_a_folder_in_use_is_refused_and_its_holder_named(other, tmp_path):
    run = RunFolder.open(tmp_path / "run")
    assert run.is_running()
    with pytest.raises(
        CheckpointError, match=f"another process uses this run(.|\n)*process {other.pid}"
    ):
        run.lock()
    with pytest.raises(CheckpointError, match=f"another process uses(.|\n)*process {other.pid}"):
        RunFolder.create(tmp_path / "run", {})
    other.kill()
    other.wait()
    with pytest.raises(CheckpointError, match="is not empty"):
        RunFolder.create(tmp_path / "run", {})


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_its_process_releases_a_lock(other, tmp_path, how):
    os.kill(other.pid, how)
    other.wait()
    run = RunFolder.open(tmp_path / "run")
    assert not run.is_running()
    run.lock()
    assert holder_of(run.path)["pid"] == os.getpid()
    run.unlock()
    assert not run.is_running()


def test_two_folders_created_at_once_are_not_both_accepted(tmp_path):
    code = """
        import sys, time
        from minitorch_attn.errors import CheckpointError
        from minitorch_attn.training.run_folder import RunFolder
        try:
            run = RunFolder.create(sys.argv[1], {"a": 1})
            print("created", flush=True)
            sys.stdin.read()
        except CheckpointError as error:
            print("refused", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "run")]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]
    said = sorted(process.stdout.readline() for process in processes)
    for process in processes:
        process.communicate()
    assert said == ["created\n", "refused\n", "refused\n", "refused\n"]


def test_a_lock_is_held_once_and_released_twice(tmp_path):
    with FolderLock(tmp_path, "run") as lock:
        with pytest.raises(CheckpointError):
            FolderLock(tmp_path, "run").acquire()
        lock.release()
        assert holder_of(tmp_path) is None
    assert holder_of(tmp_path) is None and holder_of(tmp_path / "missing") is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pid": {}}', "\x00"])
@pytest.mark.slow
def test_a_malformed_entry_does_not_disturb(tmp_path, text):
    with FolderLock(tmp_path, "run"):
        (tmp_path / ".lock.json").write_text(text)
        assert isinstance(holder_of(tmp_path), dict)
        with pytest.raises(CheckpointError, match="another process uses this run"):
            FolderLock(tmp_path, "run").acquire()
