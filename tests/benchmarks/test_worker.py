"""Benchmark workers: each engine runs in its own process."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measure import read_arrays

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def worker():
    """Starts a worker; the function given back asks it."""
    started = []

    def start(*command):
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", *command], cwd=ROOT, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)

        def ask(**request):
            if request:
                process.stdin.write(json.dumps(request) + "\n")
            return json.loads(process.stdout.readline())

        return ask

    yield start
    for process in started:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()


def test_a_worker_steps_and_reports(worker, tmp_path):
    ask = worker("w6", "minitorch_attn", "1")
    assert ask()["first_step"] > 0
    assert ask(do="evidence", path=str(tmp_path / "found")) == {}
    found = read_arrays(tmp_path / "found")
    assert set(found) == {*"xabcd", "y"} and np.abs(found["x"]).max() > 0
    steps = ask(do="steps", steps=3)
    assert len(steps["times"]) == 3 and steps["operations"] == 1000
    # A process that was started by a large one is not as large.
    assert 10 < ask(do="memory")["peak_mb"] < 150


@pytest.mark.slow
def test_an_optional_engine_that_does_not_work_says_why(worker):
    pytest.importorskip("torch")  # w6 has no engine of that name
    assert "KeyError" in worker("w6", "torch_compile", "1")()["unavailable"]
