"""`python -m benchmarks gpu`: test and measure on a GPU, unattended, in under 35 minutes.

The parts run one after another, each in its own process with a time limit. After each part, the
results are written to `benchmarks/results/gpu-NAME.json` and to the tables in `docs/devices.md`, so
an interrupted run keeps its results. If you name some of the parts on the command line, the stored
results of the other parts are kept. Without a GPU, the command prints a message and does nothing.
The parts:

    kernels       every kernel against its composed version (the tests in `tests/kernels`)
    workloads     W1 to W7: time, device calls, FLOP/s, bandwidth and memory, and PyTorch's time
    kernel-times  every kernel: its time, and the time of its composed version
    attention     attention by sequence length: time, FLOP/s and memory, and PyTorch's time
    graphs        a step as a CUDA graph, and the same step launched call by call
    tests         the test suite with `--device=cupy`
"""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .page import END, START, table

__all__ = ["LIMITS", "PARTS", "main"]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "devices.md"
LIMITS = {  # seconds; all together less than 34 minutes
    "kernels": 300, "workloads": 330, "kernel-times": 120, "attention": 120, "graphs": 120,
    "tests": 960,
}  # fmt: skip
PARTS = tuple(LIMITS)
MINUTES = 34  # time limit of a run
TO_STORE = 15  # seconds that a process gets after its time limit, to finish its last item
WITHOUT_DEVICE = (
    "course",
    "grader",
    "lessons",
    "docs",
    "tools",
    "kernels",
    "test_lecture_numbers.py",
)
TESTS = {"kernels": ["tests/kernels"], "tests": [f"--ignore=tests/{x}" for x in WITHOUT_DEVICE]}


def _tested(part, seconds):
    """Run the tests of a part on the GPU, in a separate pytest process.

    Return the status ("passed", "failed" or "stopped"), pytest's summary line and the failed tests.
    """
    command = [
        sys.executable, "-m", "pytest", "-q", "-m", "not serial", "--device=cupy", *TESTS[part]
    ]  # fmt: skip
    if importlib.util.find_spec("xdist"):
        command += ["-n", "4"]  # processes that share the GPU
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
        )
        output, status = done.stdout, "passed" if done.returncode == 0 else "failed"
    except subprocess.TimeoutExpired as stopped:
        output, status = (stopped.stdout or b"").decode(errors="replace"), "stopped"
    lines = output.strip().splitlines() or [""]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    summary = lines[-1]
    if status == "stopped":
        done = re.findall(r"\[ *(\d+%)\]", output)
        summary = f"stopped after {seconds:.0f} s, {done[-1] if done else '0%'} done"
    return {"status": status, "summary": summary, "failed": failed[:50]}


def _measured(part, seconds, quick=False):
    """Run a part in a separate process. Return what it stored before it ended or was stopped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        command = [sys.executable, "-m", "benchmarks.gpu.parts", part, str(path), str(seconds)]
        try:
            done = subprocess.run(
                [*command, *(["--quick"] if quick else [])], cwd=ROOT, timeout=seconds + TO_STORE,
                stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            end = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [""])[-1]
        except subprocess.TimeoutExpired:
            end = f"stopped after {seconds + TO_STORE:.0f} s"
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {**found, **({"end": {"failed": end or "no results"}} if end or not found else {})}


def run(part, seconds, quick=False):
    """Run one of the `PARTS` of the command, and return its results."""
    if part in TESTS:
        return _tested(part, seconds)
    return _measured(part, seconds, quick)


def _stored(path, machine):
    """Return the stored results of other parts if they are from the same GPU and CuPy version."""
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return stored if all(stored.get(key) == machine[key] for key in machine) else dict(machine)


def _store(results, path, page):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{START}\n{table(results)}\n{END}{after}", encoding="utf-8")


def main(words, page=PAGE, folder=RESULTS, run=run):
    """Run the parts named on the command line, or all parts. Return the exit status."""
    import minitorch_attn as mt

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    parser.add_argument(
        "--quick", action="store_true",
        help="small sizes and one step each, to try the command; stores nothing",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=MINUTES,
        help=f"time limit for all parts together, in minutes (default: {MINUTES})",
    )  # fmt: skip
    args = parser.parse_args(words)
    if not mt.cuda.is_available():
        print("There is no GPU: nothing was measured. `mta doctor` shows what is missing.")
        return 0
    name, version = mt.cuda.get_device_name(), importlib.import_module("cupy").__version__
    path = folder / f"gpu-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.json"
    results, started = _stored(path, {"name": name, "cupy": version}), time.monotonic()
    for part in args.parts or PARTS:
        left = 60 * args.minutes - (time.monotonic() - started)
        if left < TO_STORE:
            results[part] = {} if part in TESTS else {"end": {"failed": "no time left"}}
        else:
            before = time.monotonic()
            results[part] = run(part, min(LIMITS[part], left - TO_STORE), args.quick)
            print(f"{part:14}{time.monotonic() - before:8.0f} s", flush=True)
        if not args.quick:
            _store(results, path, page)
    print(table(results))
    return 0
