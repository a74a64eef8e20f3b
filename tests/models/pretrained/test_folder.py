"""Saving a folder: what is removed, and what a process leaves that is killed while it saves."""

import json
import subprocess
import sys

import numpy as np
import pytest

from minitorch_attn.errors import CheckpointError
from minitorch_attn.models.pretrained import folder as folders
from minitorch_attn.models.pretrained.folder import read_tensors, saved_tensors

INDEX = "model.safetensors.index.json"


def tensors(value, count=4):
    return {f"t{i}": np.full(10, value, dtype="float32") for i in range(count)}


def save(folder, value, per_shard, count=4):
    with saved_tensors(folder, tensors(value, count), max_shard_size=40 * per_shard):
        pass


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_only_shards_of_an_earlier_save_are_removed(tmp_path):
    save(tmp_path, 1.0, per_shard=1)
    index = json.loads((tmp_path / INDEX).read_text())
    others = ["config.json", "precious.txt", "sub", "model.safetensors.bak", "adapter.safetensors"]
    for name in (*others, "model-1-of-2.safetensors.txt"):
        (tmp_path / name).write_text("kept") if name != "sub" else (tmp_path / name).mkdir()
    for i, name in enumerate(
        (*others, "../outside", str(tmp_path / "precious.txt"), 5, None, ["x"])
    ):
        index["weight_map"][f"x{i}"] = name
    (tmp_path / INDEX).write_text(json.dumps(index))
    save(tmp_path, 2.0, per_shard=4)
    assert files(tmp_path) == sorted([*others, "model-1-of-2.safetensors.txt", "model.safetensors"])


@pytest.mark.parametrize(
    "index", ["", "5", "[]", "{}", '{"weight_map": 5}', '{"weight_map": []}', "\xff",
              '{"weight_map": {"a": {}}}', '{"weight_map": {"a": null}}'],
)  # fmt: skip
@pytest.mark.parametrize("per_shard", [1, 4])
def test_a_malformed_old_index_is_replaced(index, per_shard, tmp_path):
    (tmp_path / INDEX).write_bytes(index.encode("latin-1"))
    save(tmp_path, 2.0, per_shard)
    assert {float(a[0]) for a in read_tensors(tmp_path).values()} == {2.0}
    assert (tmp_path / INDEX).exists() == (per_shard == 1)


def ended_process():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


class Killed(BaseException):
    """Ends a save as a signal would: no handler of errors sees it."""


@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("after", [1, 2, 4])
@pytest.mark.slow
def test_a_save_that_is_killed_never_mixes_two_models(before, after, tmp_path, monkeypatch):
    """The process ends at each of its changes to the folder in turn."""
    changes = ["os.replace", "pathlib.Path.unlink", "os.unlink"]
    seen, last, dead = set(), None, ended_process()
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        save(folder, 1.0, before)
        left = [number]

        def counted(function, left=left):
            def call(*args, **kwargs):
                if left[0] <= 0:
                    raise Killed  # also in the handlers, which a killed process does not run
                left[0] -= 1
                return function(*args, **kwargs)

            return call

        with monkeypatch.context() as patch:
            patch.setattr(folders.os, "getpid", lambda: dead)
            for name in changes:
                owner, attribute = name.rsplit(".", 1)
                module = {"os": folders.os, "pathlib.Path": folders.Path}[owner]
                patch.setattr(module, attribute, counted(getattr(module, attribute)))
            try:
                save(folder, 2.0, after)
                last = "whole"
            except Killed:
                last = "killed"
        try:
            values = {float(a[0]) for a in read_tensors(folder).values()}
            assert len(read_tensors(folder)) == 4
        except CheckpointError:
            values = {"refused"}
        assert len(values) == 1, f"after {number} changes: {values}"
        seen |= values
        if last == "whole":
            break
        save(folder, 3.0, after)  # the next save clears up
        assert {float(a[0]) for a in read_tensors(folder).values()} == {3.0}
        assert not [name for name in files(folder) if name.endswith(".tmp")]
    assert last == "whole" and values == {2.0} and {1.0, 2.0} <= seen


def test_an_error_in_the_block_leaves_the_old_model(tmp_path):
    save(tmp_path, 1.0, per_shard=1)
    before = files(tmp_path)
    with pytest.raises(KeyError), saved_tensors(tmp_path, tensors(2.0), 40):
        raise KeyError
    assert files(tmp_path) == before
    assert {float(a[0]) for a in read_tensors(tmp_path).values()} == {1.0}
