"""Run the engines of a workload in turn, A B A B ..., and compare them round by round."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

__all__ = ["compare", "run_workload"]

TOLERANCE = 2e-4  # float32, over the largest entry of each array
FLOOR = 1e-2  # or over this share of the largest entry of all, for arrays that are 0 but for noise
LONG = 4.0  # seconds of a first step, from which on one step makes a turn
BUSY_ELSEWHERE = 0.25  # cores in use by others that make a round worthless


class Engine:
    """A worker process and the way to talk to it."""

    def __init__(self, workload, name, threads):
        command = [sys.executable, "-m", "benchmarks.worker", workload, name, str(threads)]
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.first_step = self._read()["first_step"]

    def ask(self, **request):
        """Send a request, wait for its answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        return self._read()

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.name} worker died with code {self.process.wait()}")
        return json.loads(line)

    def close(self):
        """End the worker."""
        self.process.stdin.close()
        self.process.wait()


def compare(engines):
    """Largest difference between the engines' results and gradients, over each array's size.

    Raises
    ------
    RuntimeError
        If they disagree: a wrong result is not timed.
    """
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for engine in engines:
            path = os.path.join(folder, f"{engine.name}.npz")
            engine.ask(do="evidence", path=path)
            with np.load(path, allow_pickle=False) as arrays:
                found.append({name: arrays[name] for name in arrays.files})
    reference = found[-1]
    for engine, arrays in zip(engines[:-1], found[:-1], strict=True):
        if set(arrays) != set(reference):
            raise RuntimeError(f"{engine.name} reports other arrays: {sorted(arrays)[:5]}")
        largest = max(np.abs(array).max(initial=0) for array in reference.values())
        for name, expected in reference.items():
            # The gradient of a key's bias is 0 but for round-off: it has no size of its own.
            scale = max(np.abs(expected).max(initial=0), FLOOR * largest)
            error = np.abs(arrays[name] - expected).max(initial=0) / scale
            worst = max(worst, float(error))
            if not error < TOLERANCE:
                raise RuntimeError(f"{engine.name} differs in {name}: {error:.1e} of its size")
    return worst


def run_workload(name, module, *, rounds, seconds, threads, contended=False):
    """Time one workload.

    Parameters
    ----------
    name : str
        The workload's module name.
    module : module
    rounds : int
        Turns of each engine that count.
    seconds : float
        About how long one turn takes.
    threads : int
    contended : bool
        Count rounds during which other programs were busy, too.

    Returns
    -------
    dict
    """
    engines = [Engine(name, engine, threads) for engine in module.ENGINES]
    try:
        difference = compare([e for e in engines if e.name in module.COMPARE])
        steps = {}
        for engine in engines:
            long = engine.first_step > LONG
            warm = engine.ask(do="steps", steps=1 if long else 3)["times"]
            steps[engine.name] = max(1 if long else 2, round(seconds / statistics.median(warm)))
        turns, discarded = [], 0
        while len(turns) < rounds and discarded <= 3 * rounds:
            turn, quiet = _one_round(engines, steps)
            if quiet or contended:
                turns.append(turn)
            else:
                discarded += 1
        memory = {e.name: e.ask(do="memory")["peak_mb"] for e in engines}
    finally:
        for engine in engines:
            engine.close()
    if not turns:
        raise RuntimeError(f"{name}: other programs kept the processor busy in every round")
    rows = [_summary(e, turns, memory, reference=engines[-1].name) for e in engines]
    return {
        "workload": name, "title": module.TITLE, "rounds": len(turns), "discarded": discarded,
        "largest_difference": difference, "engines": rows,
    }  # fmt: skip


def _one_round(engines, steps):
    """Every engine once; quiet if nobody else used the processor meanwhile."""
    turn, quiet = {}, True
    for engine in engines:
        time.sleep(0.3)  # let the other engine's threads fall asleep
        before, start = _busy_ticks(), time.perf_counter()
        answer = engine.ask(do="steps", steps=steps[engine.name])
        elapsed = time.perf_counter() - start
        all_cores = (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / elapsed
        quiet = quiet and all_cores - answer["cores_used"] < BUSY_ELSEWHERE
        answer["median"] = statistics.median(answer["times"])
        turn[engine.name] = answer
    return turn, quiet


def _busy_ticks():
    """Clock ticks that all processors together have spent working."""
    with open("/proc/stat") as file:
        fields = [int(value) for value in file.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return user + nice + system + irq + softirq


def _summary(engine, turns, memory, reference):
    medians = [turn[engine.name]["median"] for turn in turns]
    ratios = [turn[engine.name]["median"] / turn[reference]["median"] for turn in turns]
    answer = turns[-1][engine.name]
    return {
        "engine": engine.name,
        "step_ms": statistics.median(medians) * 1e3,
        "us_per_operation": statistics.median(medians) * 1e6 / answer["operations"],
        "ratio": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
        "peak_mb": memory[engine.name],
        "memory_ratio": memory[engine.name] / memory[reference],
        "page_faults_per_step": answer["page_faults"],
        "cores_used": answer["cores_used"],
        "first_step_s": engine.first_step,
    }
