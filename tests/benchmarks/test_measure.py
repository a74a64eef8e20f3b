"""Benchmark harness: what it compares, when it refuses to time, and its statistics."""

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import machine, measure

ROOT = Path(__file__).resolve().parents[2]


class FakeEngine:
    """An engine whose results are given."""

    def __init__(self, name, **arrays):
        self.name, self.arrays, self.unavailable = name, arrays, None

    def ask(self, do, path):
        assert do == "evidence"
        measure.write_arrays(path, self.arrays)


def _arrays(rng):
    return {"loss": np.array(1.5), "grad a": rng.normal(size=(3, 5)), "grad b": rng.normal(size=7)}


def test_equal_results_pass_and_round_off_is_reported(rng):
    arrays = _arrays(rng)
    near = {name: array * (1 + 1e-6) for name, array in arrays.items()}
    worst = measure.compare([FakeEngine("ours", **near), FakeEngine("torch", **arrays)])
    assert worst == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize("name", ["loss", "grad a", "grad b"])
def test_a_wrong_result_is_not_timed(rng, name):
    arrays = _arrays(rng)
    wrong = {**arrays, name: arrays[name] * 1.001}
    with pytest.raises(RuntimeError, match=f"ours differs in {name}"):
        measure.compare([FakeEngine("ours", **wrong), FakeEngine("torch", **arrays)])


def test_an_optional_engine_with_a_wrong_result_is_left_out(rng):
    arrays = _arrays(rng)
    jax = FakeEngine("jax", **{**arrays, "grad a": -arrays["grad a"]})
    measure.compare([FakeEngine("ours", **arrays), jax, FakeEngine("torch", **arrays)])
    assert "differs in grad a" in jax.unavailable


def test_other_names_shapes_and_nan_differ_infinitely(rng):
    arrays = _arrays(rng)
    missing = {name: array for name, array in arrays.items() if name != "grad b"}
    assert measure.difference(missing, arrays)[0] == math.inf
    turned = {**arrays, "grad a": arrays["grad a"].T}
    assert measure.difference(turned, arrays) == (math.inf, "grad a")
    broken = {**arrays, "loss": np.array(np.nan)}
    assert measure.difference(broken, arrays) == (math.inf, "loss")


def test_an_array_that_is_only_noise_has_no_size_of_its_own(rng):
    arrays = {"grad": np.ones(5), "noise": np.full(5, 1e-9)}
    found = {"grad": np.ones(5), "noise": np.full(5, -1e-9)}
    assert measure.difference(found, arrays)[0] < 1e-6


def _turn(**medians):
    shared = {"operations": 10, "page_faults": 0, "cores_used": 1.0}
    return {name: {"median": median, **shared} for name, median in medians.items()}


def test_ratios_are_to_the_faster_of_pytorchs_optimisers():
    turns = [_turn(ours=1.0, torch_fused=2.0, torch=4.0), _turn(ours=3.0, torch_fused=2.5, torch=2)]
    assert measure.reference_of(turns) == "torch_fused"
    assert measure.reference_of([_turn(ours=1.0, torch=4.0)]) == "torch"


def test_a_summary_counts_the_rounds_in_which_the_engine_took_part():
    turns = [_turn(jax=1.0, torch=2.0), _turn(torch=8.0), _turn(jax=3.0, torch=2.0)]
    engine = SimpleNamespace(name="jax", first_step=0.5)
    found = measure._summary(engine, turns, {"jax": 30.0, "torch": 60.0}, "torch")
    assert found["rounds"] == 2
    assert found["ratio"] == 1.0 and found["ratio_range"] == [0.5, 1.5]
    assert found["step_ms"] == 2000.0 and found["us_per_operation"] == 200_000.0
    assert found["memory_ratio"] == 0.5


def test_the_machine_is_described():
    found = machine.describe()
    assert found["cpu"] and found["cores"] >= 1
    assert found["versions"]["numpy"] == np.__version__
    assert "OPENBLAS_CORETYPE" in found["environment"]
    assert machine.peak_memory_mb() > 10


MEASURED = """
import os, sys, time
import numpy as np
from benchmarks import machine
shared = np.ones(40 << 17)  # 40 MiB
before, busy = machine.peak_memory_mb(), machine.processor_seconds()
ready = os.pipe()
child = os.fork()
if child == 0:
    own = np.ones(30 << 17) if sys.argv[1] == "more" else shared.sum()
    while time.process_time() < 0.3:
        pass
    os.write(ready[1], b"x")
    time.sleep(60)
os.read(ready[0], 1)
print(machine.peak_memory_mb() - before, machine.processor_seconds() - busy)
os.kill(child, 9)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("uses, least, most", [("same", 0, 15), ("more", 29, 45)])
def test_forked_workers_count_without_the_memory_that_they_share(uses, least, most):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, uses], cwd=ROOT, capture_output=True, text=True, check=True
    )
    more, busy = map(float, done.stdout.split())
    assert least < more < most and busy > 0.2
