"""Ctrl-C, kill -9 and damage: a resumed run ends with the same bytes as an uninterrupted run."""

import signal
import sys
import time
from pathlib import Path

import pytest

from minitorch_attn import viz
from minitorch_attn.training import RunFolder

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")


def metrics(name):
    return Path(name, "metrics.jsonl").read_bytes()


def wait_for(condition, process, seconds=60):
    """Poll until `condition()`, or until the process has ended."""
    limit = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.005)


def lines_in(name):
    path = Path(name, "metrics.jsonl")
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for_a_line(name, process):
    before = lines_in(name)
    wait_for(lambda: lines_in(name) != before, process)


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_saves_and_stops(number, code, start, mta, tiny, tmp_path):
    process = start(*tiny, "--steps", 100_000, "--out", "a", cwd=tmp_path)
    wait_for(lambda: lines_in("a") >= 3, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "stopping after this step" in err and "Traceback" not in err
    step = RunFolder.open("a").checkpoints.steps()[-1]
    assert f"stopped; saved at step {step:,} of 100,000 in a" in out
    assert "continue with: python -m minitorch_attn train gpt --out a --resume" in out

    assert mta("train", "gpt", "--out", "a", "--resume", "--steps", step + 7)[0] == 0
    assert RunFolder.open("a").metrics()[-1]["step"] == step + 7


@pytest.mark.slow
@posix
def test_a_stopped_run_equals_an_unbroken_one(start, mta, tiny, tmp_path):
    assert mta(*tiny, "--steps", 300, "--out", "whole")[0] == 0
    process = start(*tiny, "--steps", 300, "--out", "a", cwd=tmp_path)
    wait_for(lambda: lines_in("a") >= 5, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    code, out, err = mta("train", "gpt", "--out", "a", "--resume")
    assert (code, err) == (0, "") and "a: resuming from step" in out
    assert metrics("a") == metrics("whole")
    assert Path("a/sample.txt").read_bytes() == Path("whole/sample.txt").read_bytes()


@posix
def test_a_second_ctrl_c_stops_at_once(start, tiny, tmp_path):
    arguments = [*tiny, "--steps", 10, "--out", "a", "--dim", 512, "--context", 200, "--batch", 64]
    process = start(*arguments, cwd=tmp_path)
    wait_for(lambda: lines_in("a") >= 1, process)  # the first step, of several seconds, has begun
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert "stopping after this step" in process.stderr.readline() + process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped immediately" in out and "Traceback" not in err
    assert time.monotonic() - started < 10


def test_ctrl_c_after_the_training(mta, tiny, monkeypatch):
    """While the pictures are drawn, say: the training is saved, and --resume draws them."""

    def interrupt(*args):
        raise KeyboardInterrupt

    real = viz.attention_figure
    monkeypatch.setattr(viz, "attention_figure", interrupt)
    code, out, err = mta(*tiny, "--steps", 10, interrupted=True)
    assert code == 130 and "stopped immediately; saved at step 10 of 10" in out
    assert not Path("runs/gpt-1/attention.png").exists()
    monkeypatch.setattr(viz, "attention_figure", real)
    assert mta("train", "gpt", "--resume")[0] == 0
    assert Path("runs/gpt-1/attention.png").exists()


@posix
@pytest.mark.slow
def test_killed_at_any_moment(start, mta, tiny, tmp_path, rng):
    """kill -9 while Python starts, while the run is made, in steps, evaluations and saves."""
    assert mta(*tiny, "--steps", 150, "--out", "whole")[0] == 0
    kills = 0
    for attempt in range(40):
        begun = Path("a/config.json").exists()
        arguments = ["--resume"] if begun else ["--steps", 150]
        process = start(*tiny, *arguments, "--out", "a", cwd=tmp_path)
        if attempt % 2 and begun:
            wait_for_a_line("a", process)
        longest = 0.6 if attempt % 2 == 0 else 0.04 * attempt
        delay = (longest if begun else 0.6 + 0.1 * attempt) * rng.random()
        try:
            process.wait(timeout=delay)
        except Exception:
            process.kill()
            kills += 1
        process.communicate()
        if process.returncode == 0 or (begun and lines_in("a") == lines_in("whole")):
            break
    if process.returncode != 0:
        assert mta("train", "gpt", "--out", "a", "--resume")[0] == 0
    assert kills >= 3
    assert metrics("a") == metrics("whole")
    assert not list(Path("a").rglob(".step-*.tmp"))


@pytest.mark.slow
def test_a_finished_run_can_be_made_longer(mta, tiny):
    assert mta(*tiny, "--steps", 20)[0] == 0
    code, out, err = mta("train", "gpt", "--resume")
    assert code == 0 and "resuming from step 20 of 20" in out
    assert mta("train", "gpt", "--resume", "--steps", 30)[0] == 0
    run = RunFolder.open("runs/gpt-1")
    assert run.config["options"]["steps"] == 30
    assert [m["step"] for m in run.metrics()] == [0, 10, 20, 30]
    code, out, err = mta("train", "gpt", "--resume", "--steps", 15)
    assert code == 2 and "must be at least 30" in err
    assert RunFolder.open("runs/gpt-1").config["options"]["steps"] == 30


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used_when_asked(mta, tiny):
    assert mta(*tiny, "--steps", 30)[0] == 0
    before = metrics("runs/gpt-1")
    newest = RunFolder.open("runs/gpt-1").checkpoints.path(30)
    raw = bytearray(newest.read_bytes())
    raw[-4] ^= 4  # in the tensors, not in the header
    newest.write_bytes(raw)
    code, out, err = mta("train", "gpt", "--resume")
    assert code == 1 and "step-00000030.safetensors is damaged" in err
    assert "resume from step 20 with --resume previous" in err
    assert metrics("runs/gpt-1") == before
    code, out, err = mta("train", "gpt", "--resume", "previous")
    assert (code, err) == (0, "") and "resuming from step 20 of 30" in out
    assert metrics("runs/gpt-1") == before


@pytest.mark.parametrize(
    ("option", "value", "has"), [("--layers", 2, "has 1"), ("--lr", 0.5, "has 0.003")]
)
@pytest.mark.slow
def test_a_resumed_run_keeps_its_settings(option, value, has, mta, tiny):
    assert mta(*tiny, "--steps", 10)[0] == 0
    code, out, err = mta("train", "gpt", "--resume", option, value)
    assert code == 2 and has in err and "only change --steps, --minutes and --device" in err
    assert mta(*tiny, "--resume")[0] == 0  # the same values are no change


def test_a_folder_without_a_run(mta, tmp_path):
    code, out, err = mta("tour", "--out", "nothing", "--resume")
    assert code == 1 and "is not a run folder" in err
