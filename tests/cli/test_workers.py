"""`mta train --workers N`, and the same command under mpiexec."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from distributed.ranks import environment, mpiexec, needs_mpi

from minitorch_attn.training import RunFolder

SMALL = (
    "--layers 1 --heads 2 --dim 8 --context 8 --batch 7 --warmup 3 --dropout 0.1 --clip 0.3 "
    "--dtype float64 --eval-every 10"
).split()


def entries(folder):
    return [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]


def check_equal(folder, other):
    for ours, theirs in zip(entries(folder), entries(other), strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            assert ours[name] == pytest.approx(value, abs=1e-10), name


@pytest.mark.slow
@needs_mpi
def test_trains_as_one_process_does(start, mta, text, tmp_path):
    command = ["train", "gpt", "--text", text, *SMALL, "--steps", 20]
    assert mta(*command, "--out", "one")[0] == 0
    process = start(*command, "--out", "three", "--workers", 3, cwd=tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    check_equal("three", "one")
    assert out.count("step 20/20") == 1 and out.count("What it has learned") == 1
    assert "Abort(" not in err and "BAD TERMINATION" not in out
    assert "train gpt --workers 3 --steps 1500 --out three --resume" in out

    run = [mpiexec(), "-n", "2", sys.executable, "-m", "minitorch_attn"]
    done = subprocess.run(
        [*run, *map(str, command), "--out", "bare"], env=environment(), cwd=tmp_path,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    check_equal("bare", "one")
    assert done.stdout.count("What it has learned") == 1


@needs_mpi
@pytest.mark.slow
def test_other_splits_train_as_one_process_does(start, mta, text, tmp_path):
    """A run by tensor goes on by data, in one process, and by sequence."""
    command = ["train", "gpt", "--text", text, *SMALL, "--layers", 2]
    assert mta(*command, "--steps", 20, "--out", "one")[0] == 0

    def run(*more):
        process = start(*map(str, more), cwd=tmp_path)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 and "What it has learned" in out, out + err
        return out

    for split, workers in (("tensor", 2), ("sequence", 4)):
        two = ["--workers", workers, "--split", split]
        out = run(*command, "--steps", 20, "--out", split, *two)
        check_equal(split, "one")
        line = f"train gpt --workers {workers} --split {split} --steps 1500 --out {split} --resume"
        assert line in out

    again = ["train", "gpt", "--out", "tensor", "--resume", "--steps"]
    for steps in (30, 40, 50):  # the learning rate depends on the number of steps
        assert mta("train", "gpt", "--out", "one", "--resume", "--steps", steps)[0] == 0
    run(*again, 30, "--workers", 2)
    assert mta(*again, 40)[0] == 0
    run(*again, 50, "--workers", 2, "--split", "sequence")
    check_equal("tensor", "one")
    state, expected = (RunFolder.open(name).checkpoints.load()[1] for name in ("tensor", "one"))
    for name, value in expected["model"].items():
        np.testing.assert_allclose(state["model"][name].numpy(), value.numpy(), atol=1e-10)


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_stops(number, code, start, text, tmp_path):
    command = ["train", "gpt", "--text", text, *SMALL, "--steps", 100_000, "--workers", 2]
    process = start(*command, "--out", "a", cwd=tmp_path)
    for line in process.stdout:
        if "step  " in line or "step 1" in line:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    assert err.count("stopping after this step") == 1 and "Traceback" not in err
    step = RunFolder.open("a").checkpoints.steps()[-1]
    assert f"stopped; saved at step {step:,} of 100,000 in a" in out
    assert "train gpt --workers 2 --out a --resume" in out


BROKEN = """
import sys
from minitorch_attn import distributed
from minitorch_attn.cli import main
from minitorch_attn.errors import NumericError
from minitorch_attn.training.recipes import load_recipe

recipe, calls = load_recipe("gpt"), []
loss = recipe.loss

def broken(self, model, batch):
    calls.append(1)
    if len(calls) == 25 and distributed.get_rank() == 1:
        raise {error}
    return loss(self, model, batch)

recipe.loss = broken
sys.exit(main(sys.argv[1:]))
"""


@needs_mpi
@pytest.mark.parametrize("error", ["ZeroDivisionError('drawn')", "NumericError('drawn')"])
@pytest.mark.slow
def test_an_exception_in_one_worker_ends_all(error, text, tmp_path):
    """It prints the rank and the traceback; what was saved stays."""
    script = tmp_path / "broken.py"
    script.write_text(BROKEN.format(error=error))
    command = ["train", "gpt", "--text", text, *SMALL, "--steps", 100, "--out", "a"]
    done = subprocess.run(
        [mpiexec(), "-n", "3", sys.executable, script, *map(str, command)],
        env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode != 0
    assert "[rank 1 of 3] Traceback" in done.stderr
    assert f"{error.partition('(')[0]}: drawn" in done.stderr
    assert "[rank 0" not in done.stderr and "[rank 2" not in done.stderr
    assert RunFolder.open("a").checkpoints.steps() == [10, 20]


@pytest.mark.parametrize("name", ["captions", "clip", "detr", "dino", "nonlocal"])
def test_recipes_for_one_process_refuse(name, mta):
    code, _, err = mta("train", name, "--workers", 2)
    assert code == 2 and f"train {name} runs in one process only: " in err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "1"], "--minutes and --workers cannot be combined"),
        (["--device", "cuda"], "cannot be combined with --device cuda"),
        (["--workers", "0"], "0 is not in the range"),
        (["--split", "layers"], "'layers' is not one of 'data', 'tensor', 'sequence'"),
    ],
)
def test_options_that_do_not_fit(options, message, mta):
    code, _, err = mta("train", "gpt", "--workers", 2, *options)
    assert code == 2 and message in err


@pytest.mark.parametrize(
    ("recipe", "split", "possible"),
    [("dates", "sequence", "data or tensor"), ("bert", "tensor", "data")],
)
def test_recipes_refuse_other_splits(recipe, split, possible, mta):
    code, _, err = mta("train", recipe, "--workers", 2, "--split", split)
    assert code == 2
    assert f"train {recipe} cannot use --split {split}" in err and f"--split {possible}\n" in err
    assert not Path("runs").exists()


@needs_mpi
@pytest.mark.slow
def test_errors_are_reported_once(start, text, tmp_path):
    command = ["train", "gpt", "--text", text, *SMALL, "--workers", 3]
    for more, code, message in (
        (["--batch", 2, "--steps", 5], 1, "fewer examples than there are workers"),
        (["--resume", "--out", "nowhere"], 1, "is not a run folder"),
        (["--threads", 2], 1, "--workers and --threads cannot be combined"),
        (["--processes", 2], 1, "--workers and --processes cannot be combined"),
        (["--split", "tensor", "--out", "a"], 1, "num_heads of blocks.0.attention is not div"),
        (["--split", "sequence", "--out", "a"], 1, "8 tokens for 3 workers"),
    ):
        process = start(*command, *more, cwd=tmp_path)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, out + err
        assert err.count(message) == 1 and "Traceback" not in err, err
    assert not Path("a").exists()


def test_without_mpiexec(mta, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    code, _, err = mta("train", "gpt", "--workers", 2)
    assert code == 2 and "mpiexec was not found" in err
