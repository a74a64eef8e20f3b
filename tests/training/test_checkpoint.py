"""Checkpoints of a run: only the last few are kept, and damaged ones are reported."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minitorch_attn import serialization
from minitorch_attn.errors import ArgumentError, CheckpointError
from minitorch_attn.files import temporary_path
from minitorch_attn.training import Checkpoints


@pytest.fixture
def checkpoints(tmp_path):
    found = Checkpoints(tmp_path / "run" / "checkpoints", keep=3)
    for step in (10, 20, 30, 40):
        found.save(step, {"step": step})
    return found


def damage(path):
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 1
    path.write_bytes(raw)


def test_the_newest_are_kept(checkpoints):
    assert checkpoints.steps() == [20, 30, 40]
    assert checkpoints.load() == (40, {"step": 40})
    assert checkpoints.load("previous") == (30, {"step": 30})
    assert checkpoints.load(20) == (20, {"step": 20})


def test_saving_a_step_again_replaces_it(checkpoints):
    checkpoints.save(40, "again")
    assert checkpoints.steps() == [20, 30, 40]
    assert checkpoints.load() == (40, "again")


def test_a_damaged_newest_is_named_with_the_way_back(checkpoints):
    damage(checkpoints.path(40))
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load()
    assert str(checkpoints.path(40)) in str(caught.value)
    assert "is damaged" in str(caught.value)
    assert "resume from step 30 with --resume previous" in str(caught.value)
    assert checkpoints.load("previous") == (30, {"step": 30})


def test_previous_passes_over_damaged_ones(checkpoints):
    damage(checkpoints.path(30))
    assert checkpoints.load("previous") == (20, {"step": 20})
    damage(checkpoints.path(20))
    with pytest.raises(CheckpointError, match="step-00000030.safetensors: its SHA-256"):
        checkpoints.load("previous")
    assert checkpoints.load() == (40, {"step": 40})


def test_what_is_not_there(tmp_path, checkpoints):
    with pytest.raises(
        CheckpointError, match="the latest checkpoint is missing.*\n.*no checkpoints"
    ):
        Checkpoints(tmp_path / "nowhere").load()
    with pytest.raises(CheckpointError, match="step 15.*\n.*20, 30, 40"):
        checkpoints.load(15)
    with pytest.raises(ArgumentError, match="at least 2"):
        Checkpoints(tmp_path, keep=1)


def test_going_back_keeps_the_later_ones_under_another_name(checkpoints):
    checkpoints.set_aside(after=20)
    assert checkpoints.steps() == [20]
    assert (checkpoints.folder / "step-00000040.safetensors.replaced").exists()


def test_a_failed_save_deletes_nothing(checkpoints, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        checkpoints.save(50, {"step": 50})
    monkeypatch.undo()
    assert checkpoints.steps() == [20, 30, 40]
    assert checkpoints.load() == (40, {"step": 40})


def test_an_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="could not be written"):
        Checkpoints(tmp_path / "file" / "checkpoints").save(1, {})


def test_half_written_files_are_cleaned_and_never_loaded(checkpoints):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    alive = Path(temporary_path(checkpoints.folder, "step-00000050.safetensors"))
    left = alive.with_name(alive.name.replace(f"-{os.getpid()}-", f"-{process.pid}-"))
    for path in (alive, left):
        path.write_bytes(b"half")
    other = checkpoints.folder / "notes.tmp"
    other.write_bytes(b"mine")
    assert checkpoints.load()[0] == 40
    checkpoints.clean()
    assert not left.exists() and other.exists()
    assert alive.exists()  # a process that runs is still writing it
    assert serialization.load(checkpoints.path(40)) == {"step": 40}
