"""Run folders: never overwritten, files always complete, metrics cut where a run resumes."""

import errno
import json

import pytest

from minitorch_attn.errors import CheckpointError
from minitorch_attn.training import RunFolder
from minitorch_attn.training.recipes import check_run
from minitorch_attn.training.run_folder import free_name, newest_run


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"seed": 3, "text": "é\n"})
    for step in (10, 20, 30):
        run.log({"step": step, "loss": 1 / step})
    return run


def test_the_configuration_comes_back(run):
    assert RunFolder.open(run.path).config == {"seed": 3, "text": "é\n"}


def test_each_line_is_one_entry(run):
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == run.metrics()
    assert run.metrics()[2] == {"step": 30, "loss": 1 / 30}


def test_a_used_folder_is_refused(run, tmp_path):
    before = run.metrics()
    run.unlock()
    with pytest.raises(CheckpointError, match="is not empty.*\n.*config.json, metrics.jsonl"):
        RunFolder.create(run.path, {})
    assert RunFolder.open(run.path).config["seed"] == 3 and run.metrics() == before
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / ".config.json.0123abcd.tmp").write_text("{")  # left by a killed process
    assert RunFolder.create(empty, {"a": 1}).config == {"a": 1}


def test_cutting_gives_the_bytes_of_a_run_that_stopped_there(run, tmp_path):
    shorter = RunFolder.create(tmp_path / "shorter", {})
    for step in (10, 20):
        shorter.log({"step": step, "loss": 1 / step})
    run.cut_metrics(after=25)
    path = "metrics.jsonl"
    assert (run.path / path).read_bytes() == (shorter.path / path).read_bytes()
    run.cut_metrics(after=-1)
    assert (run.path / path).read_bytes() == b""


def test_a_line_that_was_cut_off_is_left_out(run):
    with open(run.path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 40, "lo')
    assert [m["step"] for m in run.metrics()] == [10, 20, 30]
    run.cut_metrics(after=30)
    run.log({"step": 40})
    assert [m["step"] for m in run.metrics()] == [10, 20, 30, 40]


def test_damage_in_the_middle_is_named(run):
    path = run.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"step": 20', b"\x00\x00"))
    with pytest.raises(CheckpointError, match="metrics.jsonl is damaged.*\n.*line 2"):
        run.metrics()


def test_a_missing_and_a_damaged_configuration(run, tmp_path):
    with pytest.raises(CheckpointError, match="is not a run folder"):
        RunFolder.open(tmp_path / "nowhere")
    (run.path / "config.json").write_text('{"seed": ')
    with pytest.raises(CheckpointError, match="config.json is not valid JSON"):
        RunFolder.open(run.path)


def test_a_full_disk_while_logging(run, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(CheckpointError, match="metrics.jsonl could not be written(.*\n)+.*free"):
        run.log({"step": 40})
    monkeypatch.undo()
    assert len(run.metrics()) == 3


def test_names_of_runs(tmp_path):
    assert newest_run(tmp_path / "none", "tour") is None
    for number in (1, 2, 10):
        RunFolder.create(tmp_path / f"tour-{number}", {})
    (tmp_path / "tour-12").mkdir()  # no run in it
    RunFolder.create(tmp_path / "tour-x", {})
    assert free_name(tmp_path, "tour") == tmp_path / "tour-3"
    assert newest_run(tmp_path, "tour") == tmp_path / "tour-10"


@pytest.mark.parametrize("line", ['{"step": "1"}', '{"step": true}', '{"step": 1, "loss": "x"}'])
def test_metrics_of_the_wrong_type(run, line):
    run.log({"step": 1, "loss": 2.5})
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write(line + "\n")
    with pytest.raises(CheckpointError, match="line 5"):
        run.cut_metrics(after=1)


@pytest.mark.parametrize(
    "config",
    [{}, {"options": 5}, {"options": {"dim": "6"}}, {"options": {"dropout": float("nan")}},
     {"options": {"dtype": "int8"}}, {"options": {}, "command": "train x"},
     {"options": {}, "command": 5}, {"options": {}, "vocabulary": 5}],
    ids=str,
)  # fmt: skip
def test_a_configuration_of_the_wrong_types(config, tmp_path):
    run = RunFolder(tmp_path, config)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        check_run(run)


def test_missing_options_have_their_defaults(tmp_path):
    assert check_run(RunFolder(tmp_path, {"options": {"dim": 6}}))["heads"] == 4
