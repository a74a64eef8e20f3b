"""Folders of a worker, for any temporary folder of the grader."""

import tempfile

from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade import sandbox_folders
from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.sandbox import Sandbox


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


def test_a_file_behind_a_relative_link_is_linked_itself(tmp_path):
    """Debian's `python3.11/config-3.11-.../libpython3.11.so` is such a link."""
    (tmp_path / "library").write_bytes(b"code")
    link = tmp_path / "config" / "library"
    link.parent.mkdir()
    link.symlink_to("../library")
    copy = tmp_path / "copy" / "deeper" / "library"
    copy.parent.mkdir(parents=True)
    sandbox_folders._link(link, copy)
    assert copy.read_bytes() == b"code" and not copy.is_symlink()
