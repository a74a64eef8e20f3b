"""Time the steps of a workload's engines, which take turns, and compare them round by round."""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

__all__ = ["compare", "difference", "read_arrays", "run_workload", "write_arrays"]

TOLERANCE = 2e-4  # largest relative difference (ratio of root mean squares) in float32
FLOOR = 1e-2  # errors are divided by at least this fraction of the largest root mean square
REFERENCES = ("torch_fused", "torch")  # ratios are relative to the faster of these two
OPTIONAL = ("torch_compile", "jax")  # skipped if they do not work; the reason is stored
TINY = 1e-30
EVERY = 3  # optional engines take part in every third round
LONG = 4.0  # if the first step takes more seconds than this, warm up with one step, not two
BUSY_ELSEWHERE = 0.25  # a round is discarded if other programs use more cores than this


class Engine:
    """One engine of a workload, in a worker process that answers requests."""

    def __init__(self, workload, name, threads):
        command = [sys.executable, "-m", "benchmarks.worker", workload, name, str(threads)]
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        start = self._read()
        self.unavailable = start.get("unavailable")
        self.first_step = start.get("first_step")

    def ask(self, **request):
        """Send a request to the worker, and return the worker's answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        return self._read()

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.name} worker exited with status {self.process.wait()}")
        return json.loads(line)

    def close(self):
        """Stop the worker."""
        self.process.stdin.close()
        self.process.wait()


def compare(engines):
    """Return the largest relative difference between the engines' results and gradients.

    Parameters
    ----------
    engines : list of Engine
        Engines to compare. The last engine of the list is the reference. An optional engine whose
        results differ is marked as unavailable.

    Raises
    ------
    RuntimeError
        If the results of an engine that is not optional differ from those of the reference.
    """
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        *others, expected = [_evidence(engine, folder) for engine in engines]
    for engine, arrays in zip(engines, others, strict=False):
        error, name = difference(arrays, expected)
        if error < TOLERANCE:
            worst = max(worst, error)
            continue
        message = f"{engine.name} differs in {name}: relative difference {error:.1e}"
        if engine.name not in OPTIONAL:
            raise RuntimeError(message)
        engine.unavailable = message
    return worst


def _evidence(engine, folder):
    path = os.path.join(folder, engine.name)
    engine.ask(do="evidence", path=path)
    return read_arrays(path)


def write_arrays(path, arrays):
    """Write arrays to a file. `np.savez` would copy them, which would increase the peak memory."""
    with open(path, "wb") as file:
        for name, array in arrays.items():
            np.save(file, np.array(name), allow_pickle=False)
            np.save(file, array, allow_pickle=False)


def read_arrays(path):
    """Return the arrays that `write_arrays` has written, as {name: ndarray}."""
    arrays, size = {}, os.path.getsize(path)
    with open(path, "rb") as file:
        while file.tell() < size:
            name = str(np.load(file, allow_pickle=False))
            arrays[name] = np.load(file, allow_pickle=False)
    return arrays


def difference(found, expected):
    """Return the largest relative difference between arrays of the same name, and their name.

    Parameters
    ----------
    found, expected : dict of str to ndarray

    Returns
    -------
    error : float
        Root mean square (RMS) of the difference, divided by the RMS of the expected array, or by
        `FLOOR` times the largest RMS of all expected arrays if that is greater. Infinite if the
        names or the shapes differ, or if a number is not finite.
    name : str
        Name of the array with this difference. If the names differ, a text that lists them.
    """
    if set(found) != set(expected):
        return math.inf, f"its names {sorted(set(found) ^ set(expected))[:5]}"
    sizes = {name: _root_mean_square(array) for name, array in expected.items()}
    floor = FLOOR * max(sizes.values())
    worst = (0.0, "")
    for name, array in expected.items():
        if found[name].shape != array.shape:
            return math.inf, name
        # The floor is for the gradient of the key bias, which is 0 except for rounding errors.
        error = _root_mean_square(found[name] - array) / max(sizes[name], floor, TINY)
        worst = max(worst, (error if error < math.inf else math.inf, name))
    return worst


def _root_mean_square(array):
    return float(np.sqrt(np.mean(np.square(array, dtype="float64")))) if array.size else 0.0


def run_workload(name, module, *, rounds, seconds, threads, leave_out=(), contended=False):
    """Time one workload.

    Parameters
    ----------
    name : str
        Name of the workload's module.
    module : module
    rounds : int
        Number of rounds to keep.
    seconds : float
        Approximate duration of an engine's steps in one round.
    threads : int
        Number of threads for PyTorch.
    leave_out : sequence of str
        Engines not to run.
    contended : bool
        Whether to keep rounds during which other programs were busy.

    Returns
    -------
    dict
        Medians, ratios and memory of each engine, and the numbers of kept and discarded rounds.
    """
    names = [n for n in module.ENGINES if n not in leave_out]
    started = [Engine(name, engine, threads) for engine in names]
    try:
        worst = compare([e for e in started if not e.unavailable])
        engines = [e for e in started if not e.unavailable]
        steps = {e.name: _steps_of_a_turn(e, seconds) for e in engines}
        turns, discarded = [], 0
        while len(turns) < rounds and discarded <= 3 * rounds:
            all_engines = len(turns) % EVERY == 0
            taking_part = [e for e in engines if all_engines or e.name not in OPTIONAL]
            turn, quiet = _one_round(taking_part, steps)
            if quiet or contended:
                turns.append(turn)
            else:
                discarded += 1
        memory = {e.name: e.ask(do="memory")["peak_mb"] for e in engines}
    finally:
        for engine in started:
            engine.close()
    if not turns:
        raise RuntimeError(f"{name}: other programs kept the processor busy in every round")
    reference = reference_of(turns)
    return {
        "workload": name, "title": module.TITLE, "rounds": len(turns), "discarded": discarded,
        "reference": reference, "largest_difference": worst,
        "engines": [_summary(e, turns, memory, reference) for e in engines],
        "unavailable": {e.name: e.unavailable for e in started if e.unavailable},
    }  # fmt: skip


def _steps_of_a_turn(engine, seconds):
    """Return how many steps together take about `seconds`, measured after a warm-up.

    If `seconds` is 0, return 1 without a warm-up.
    """
    if not seconds:
        return 1
    warm = engine.ask(do="steps", steps=1 if engine.first_step > LONG else 2)["times"]
    return max(1, round(seconds / warm[-1]))


def reference_of(turns):
    """Return the name of the faster of the engines in `REFERENCES`."""
    names = [name for name in REFERENCES if name in turns[0]]
    return min(names, key=lambda name: statistics.median(t[name]["median"] for t in turns))


def _one_round(engines, steps):
    """Give each engine one turn. Return the answers, and whether other programs were idle."""
    turn, quiet = {}, True
    for engine in engines:
        time.sleep(0.3)  # let the threads of the previous engine go to sleep
        before, start = _busy_ticks(), time.perf_counter()
        answer = engine.ask(do="steps", steps=steps[engine.name])
        elapsed = time.perf_counter() - start
        all_cores = (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / elapsed
        quiet = quiet and all_cores - answer["cores_used"] < BUSY_ELSEWHERE
        answer["median"] = statistics.median(answer["times"])
        turn[engine.name] = answer
    return turn, quiet


def _busy_ticks():
    """Return the busy time of all processors, summed, in clock ticks."""
    with open("/proc/stat") as file:
        fields = [int(value) for value in file.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return user + nice + system + irq + softirq


def _summary(engine, turns, memory, reference):
    own = [turn for turn in turns if engine.name in turn]
    medians = [turn[engine.name]["median"] for turn in own]
    ratios = [turn[engine.name]["median"] / turn[reference]["median"] for turn in own]
    answer = own[-1][engine.name]
    return {
        "engine": engine.name,
        "step_ms": statistics.median(medians) * 1e3,
        "us_per_operation": statistics.median(medians) * 1e6 / answer["operations"],
        "ratio": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
        "rounds": len(own),
        "peak_mb": memory[engine.name],
        "memory_ratio": memory[engine.name] / memory[reference],
        "page_faults_per_step": answer["page_faults"],
        "cores_used": answer["cores_used"],
        "first_step_s": engine.first_step,
    }
