"""kill -9 of a random worker at a random moment: the run ends, resumes and ends with equal bytes.

MTA_KILLS sets the number of kills, and MTA_KILL_SEED the seed of their moments.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from distributed.ranks import needs_mpi

from minitorch_attn.training import RunFolder
from minitorch_attn.training.checkpoint import Checkpoints

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("MTA_KILLS", "2"))
SEED = int(os.environ.get("MTA_KILL_SEED", "1"))
STEPS, LIMIT = 120, 30
SETTINGS = (
    "train gpt --layers 1 --heads 2 --dim 8 --context 8 --batch 6 --warmup 3 --dropout 0.1 "
    f"--eval-every 10 --steps {STEPS}"
).split()

pytestmark = [
    needs_mpi,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def start(folder, workers, *more):
    """Start a run in a new process; its marker finds all its processes again."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MTA_MARKER": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "minitorch_attn", *SETTINGS,
         "--workers", str(workers), "--out", str(folder), *more],
        env=environment, cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def processes_of(folder):
    """Return {pid: environment} of the processes of the runs in a folder."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
            is_dead = (path / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if f"MTA_MARKER={folder}".encode() in variables and not is_dead:
            found[int(path.name)] = variables
    return found


def workers_of(folder):
    """Return {rank: pid} of the workers, without the process that waits for each."""
    found = {}
    for pid, variables in processes_of(folder).items():
        rank = rank_of(variables)
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if rank is not None and b"worker_parent.py" not in command:
            found[rank] = pid
    return found


def rank_of(variables):
    """Return the rank of a process, or None for mpiexec and the process that started it."""
    ranks = [v for v in variables if v.startswith((b"PMI_RANK=", b"OMPI_COMM_WORLD_RANK="))]
    return int(ranks[0].partition(b"=")[2]) if ranks else None


def wait_until_empty(folder, seconds=10):
    limit = time.monotonic() + seconds
    while (left := processes_of(folder)) and time.monotonic() < limit:
        time.sleep(0.05)
    return left


def content(folder):
    """Return the bytes of the metrics and of the last checkpoint, without the seconds it took."""
    run = RunFolder.open(folder)
    step, state = run.checkpoints.load()
    state.pop("seconds")
    state["config"]["options"].pop("out", None)
    return (folder / "metrics.jsonl").read_bytes(), step, flat(state)


def flat(value, prefix=""):
    """Return nested values as a dict of bytes and plain values."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return {prefix: value.numpy().tobytes() if hasattr(value, "numpy") else value}
    found = {}
    for key, item in items:
        found |= flat(item, f"{prefix}.{key}")
    return found


def finish(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    return out


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The content of an unbroken run with a number of workers, run once."""
    found = {}

    def run(workers):
        if workers not in found:
            folder = tmp_path_factory.mktemp("unbroken") / "run"
            finish(start(folder, workers))
            found[workers] = content(folder)
        return found[workers]

    return run


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_worker_ends_the_run_which_resumes(number, unbroken, tmp_path):
    rng = random.Random(1000 * SEED + number)
    workers = rng.choice((2, 3))
    folder = tmp_path / "run"
    expected = unbroken(workers)
    process = start(folder, workers)
    limit = time.monotonic() + 60
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < limit:
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 3))
    victims = workers_of(folder)
    rank = rng.choice(range(workers))
    if rank in victims:  # otherwise the run has ended already, and there is nothing to kill
        os.kill(victims[rank], signal.SIGKILL)
    killed = time.monotonic()
    out, _ = process.communicate(timeout=LIMIT)
    assert time.monotonic() - killed < LIMIT
    assert wait_until_empty(folder) == {}
    if process.returncode:
        assert f"worker {rank} of {workers} was ended by SIGKILL" in out, out
        assert "--resume" in out
        finish(start(folder, workers, "--resume"))
    assert content(folder) == expected
    assert wait_until_empty(folder) == {}
    assert list(folder.glob("**/*.tmp*")) == []


def test_a_killed_worker_of_a_tensor_split(tmp_path):
    """The hint continues with the same split, and the run ends with the bytes of another run."""
    split = ["--split", "tensor"]
    finish(start(tmp_path / "whole", 2, *split))
    folder = tmp_path / "run"
    process = start(folder, 2, *split)
    limit = time.monotonic() + 60
    while len(Checkpoints(folder / "checkpoints").steps()) < 2:
        assert time.monotonic() < limit
        time.sleep(0.005)
    os.kill(workers_of(folder)[1], signal.SIGKILL)
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode and "worker 1 of 2 was ended by SIGKILL" in out, out
    assert f"train gpt --split=tensor --out {folder} --workers 2 --resume" in out
    assert wait_until_empty(folder) == {}
    finish(start(folder, 2, *split, "--resume"))
    assert content(folder) == content(tmp_path / "whole")


@pytest.mark.parametrize("victim", ["starter", "mpiexec"])
def test_no_process_outlives_what_started_it(victim, tmp_path):
    folder = tmp_path / "run"
    process = start(folder, 2)
    limit = time.monotonic() + 60
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert len(processes_of(folder)) >= 4  # the starter, mpiexec and two workers
    pid = process.pid
    if victim == "mpiexec":
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pid = int(children[0])
    os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    assert wait_until_empty(folder) == {}


def test_resumes_with_other_numbers_of_workers(unbroken, tmp_path):
    folder = tmp_path / "run"
    for workers in (3, 1, 2):
        more = ["--resume"] if workers != 3 else []
        process = start(folder, workers, *more)
        before = len(RunFolder.open(folder).metrics()) if more else 0
        limit = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
            metrics = folder / "metrics.jsonl"
            if workers != 2 and metrics.exists():
                if metrics.read_bytes().count(b"\n") > before + 2:
                    process.send_signal(signal.SIGTERM)
                    break
        out, _ = process.communicate(timeout=60)
        assert process.returncode == (0 if workers == 2 else 143), out
    got, expected = (
        [entry["loss"] for entry in entries if "loss" in entry]
        for entries in (RunFolder.open(folder).metrics(), as_entries(unbroken(2)[0]))
    )
    assert got == pytest.approx(expected, rel=1e-4)  # float32


def as_entries(raw):
    import json

    return [json.loads(line) for line in raw.splitlines()]
