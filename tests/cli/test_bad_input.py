"""Invalid texts, disks and numbers: one clear error, exit status 1, and nothing is lost."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import minitorch_attn as mt
from minitorch_attn.training import RunFolder


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02" * 100, "is a binary file"),
        (b"caf\xe9 " * 500, "is not UTF-8"),
        (b"Hello, world.", "is too short for a context of 8"),
        (None, "could not be read"),
    ],
)
def test_texts_that_cannot_be_used(content, what, mta, tiny, text, tmp_path):
    text.unlink() if content is None else text.write_bytes(content)
    code, out, err = mta(*tiny, "--steps", 2)
    assert code == 1 and out == ""
    assert err.startswith("error: ") and str(text) in err and what in err
    assert not (tmp_path / "runs").exists()


def test_texts_that_are_not_english_are_fine(mta, tiny, text):
    text.write_text("日本語のテキスト。🙂 [bold]x[/bold]\n" * 60, encoding="utf-8")
    code, out, err = mta(*tiny, "--steps", 2)
    assert (code, err) == (0, "")
    written = Path("runs/gpt-1/sample.txt").read_text(encoding="utf-8")
    assert all(line in out for line in written.splitlines())


def test_nan_ends_the_run_and_keeps_the_checkpoints(mta, tiny, tmp_path):
    code, out, err = mta(*tiny, "--steps", 200, "--lr", 1e18, "--warmup", 30, "--clip", 0)
    assert code == 1
    assert err.startswith("error: training stopped: the ")
    assert "--lr" in err and "RuntimeWarning" not in err
    run = RunFolder.open("runs/gpt-1")
    for step in run.checkpoints.steps():
        state = run.checkpoints.load(step)[1]
        assert all(mt.isfinite(value).all() for value in state["model"].values())


def refuse(code):
    def call(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_made(code, mta, tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "mkdir", refuse(code))
    exit_code, out, err = mta(*tiny, "--steps", 2, "--out", "somewhere")
    assert exit_code == 1
    assert err.startswith("error: somewhere could not be written") and os.strerror(code) in err
    assert err.count("\n") == 3 and "  try  " in err


@pytest.mark.slow
def test_a_disk_that_fills_up_during_the_run(mta, tiny, monkeypatch, tmp_path):
    """The third checkpoint does not fit; the first two are there, and the run goes on later."""
    real, calls = os.fsync, []

    def fsync(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}") if os.path.exists("/proc") else ""
        calls.extend([1] if "step-" in name else [])
        if len(calls) >= 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor)

    assert mta(*tiny, "--steps", 40, "--out", "whole")[0] == 0
    monkeypatch.setattr(os, "fsync", fsync)
    code, out, err = mta(*tiny, "--steps", 40, "--out", "a")
    assert code == 1 and "step-00000030.safetensors could not be written" in err
    assert "No space left on device" in err and "free some space" in err
    monkeypatch.setattr(os, "fsync", real)
    assert RunFolder.open("a").checkpoints.steps() == [10, 20]
    assert mta("train", "gpt", "--out", "a", "--resume")[0] == 0
    assert (tmp_path / "a/metrics.jsonl").read_bytes() == (
        tmp_path / "whole/metrics.jsonl"
    ).read_bytes()


@pytest.fixture
def small_disk(tmp_path):
    """A real disk of 160 KiB; only root can have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_real_disk_that_is_full(mta, tiny, small_disk, tmp_path):
    filler = small_disk / "filler"
    filler.write_bytes(bytes(100_000))
    code, out, err = mta(*tiny, "--steps", 40, "--dim", 16, "--out", small_disk / "run")
    assert code == 1 and "No space left on device" in err and "Traceback" not in err
    kept = RunFolder.open(small_disk / "run").checkpoints
    assert all(kept.load(step) for step in kept.steps())
    filler.unlink()
    arguments = ["--out", small_disk / "run", "--resume"]
    code, out, err = mta("train", "gpt", *arguments)
    assert "resuming from step" in out
    steps = RunFolder.open(small_disk / "run").checkpoints.steps()
    assert steps and (code == 0 or "No space left" in err)  # the pictures may not fit


def test_a_text_that_changed_before_the_run_goes_on(mta, tiny, text):
    assert mta(*tiny, "--steps", 10)[0] == 0
    before = RunFolder.open("runs/gpt-1").metrics()
    text.write_text(text.read_text() + "more")
    code, out, err = mta("train", "gpt", "--resume", "--steps", 20)
    assert code == 1 and "is not the text that this run was started with" in err
    assert RunFolder.open("runs/gpt-1").metrics() == before
