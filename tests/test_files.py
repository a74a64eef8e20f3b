"""JSON files are written completely or not at all."""

import contextlib
import json
import os

import pytest

from minitorch_attn.errors import CheckpointError
from minitorch_attn.files import write_json

OLD = {"marks": ["ada", "bob"]}


@pytest.fixture
def path(tmp_path):
    """A file that is there already."""
    write_json(tmp_path / "marks.json", OLD)
    return tmp_path / "marks.json"


def still_whole(path):
    return json.loads(path.read_text("utf-8")) == OLD and os.listdir(path.parent) == [path.name]


def test_what_is_written_is_read(path):
    content = {"name": "Gödel", "points": [1, 2.5, None], "nested": {"ok": True}}
    write_json(path, content)
    text = path.read_text("utf-8")
    assert json.loads(text) == content and "Gödel" in text and text.endswith("}\n")
    write_json(path, {"name": "half a \ud83d"})  # what a submission prints may hold that
    assert json.loads(path.read_text("utf-8")) == {"name": "half a ?"}


@contextlib.contextmanager
def short_disk(size):
    """No file gets larger: the system refuses in the middle of a write, as on a full disk."""
    resource = pytest.importorskip("resource")  # Unix only
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_is_interrupted_leaves_the_old_file_whole(path):
    with pytest.raises(CheckpointError, match="unchanged"), short_disk(10_000):
        write_json(path, {"marks": ["somebody"] * 10_000})
    assert still_whole(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}])
def test_what_is_no_json_leaves_the_old_file_whole(path, value):
    with pytest.raises((ValueError, TypeError)):
        write_json(path, {"marks": ["ada"] * 10_000, "mean": value})
    assert still_whole(path)
