"""`python -m benchmarks gpu`: test and measure on a GPU, unattended, in under 35 minutes.

The parts run one after another, and the results are stored after each, so that a run that is cut
short keeps what it has: `benchmarks/results/gpu-NAME.json`, and the table in `docs/devices.md`.
Without a GPU, the command says so and does nothing. The parts:

    kernels     every kernel against its composed version (the tests in `tests/kernels`)
    workloads   time of a step of W1, W4b, W5 and W7, and the largest memory in use
    attention   forward and backward pass by length, with its memory and FLOP/s
    tests       the test suite with `--device=cupy`
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main", "measure", "table"]

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PAGE = ROOT / "docs" / "devices.md"
START, END = "<!-- gpu: start -->", "<!-- gpu: end -->"
PARTS = ("kernels", "workloads", "attention", "tests")
LIMITS = {"kernels": 300, "tests": 1200}  # seconds
BATCHES = {"w1": {"batch": 12}, "w4b": {"batch": 4}, "w5": {"batch": 4}, "w7": {}}
LENGTHS = (256, 1024, 4096, 16384)
HEADS, DIM = 8, 64


def measure(step, repeats=20):
    """Time a step on the device.

    Parameters
    ----------
    step : callable
    repeats : int

    Returns
    -------
    dict
        Median, smallest and largest milliseconds, and the megabytes that the steps need.
    """
    import cupy

    pool = cupy.get_default_memory_pool()
    for _ in range(3):  # kernels are compiled, and the pool filled
        step()
    cupy.cuda.Device().synchronize()
    pool.free_all_blocks()
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        step()
        cupy.cuda.Device().synchronize()
        found.append(1e3 * (time.perf_counter() - started))
    return {
        "ms": statistics.median(found), "least_ms": min(found), "most_ms": max(found),
        "mb": pool.total_bytes() / 1e6,
    }  # fmt: skip


def _workloads(repeats):
    from .device_calls import WORKLOADS

    return {name: measure(make(**BATCHES[name]), repeats) for name, make in WORKLOADS.items()}


def _attention(repeats, lengths=LENGTHS):
    """Return the times of attention by number of tokens, for one sequence of 8 heads of 64."""
    import minitorch_attn as mt
    from minitorch_attn.nn import functional as F

    found = {}
    for length in lengths:
        shape = (1, HEADS, length, DIM)
        inputs = [mt.randn(*shape, device="cuda", requires_grad=True) for _ in range(3)]

        def forward(inputs=inputs):
            with mt.no_grad():
                F.scaled_dot_product_attention(*inputs, is_causal=True)

        def both(inputs=inputs):
            for x in inputs:
                x.grad = None
            F.scaled_dot_product_attention(*inputs, is_causal=True).sum().backward()

        products = 2 * 2 * HEADS * DIM * length * length / 2  # two products, half of the scores
        found[str(length)] = {"forward": measure(forward, repeats), "both": measure(both, repeats)}
        for name, factor in (("forward", 1), ("both", 3.5)):
            row = found[str(length)][name]
            row["tflops"] = factor * products / (row["ms"] * 1e9)
    return found


def _pytest(part, *arguments):
    """Run tests on the GPU in a process of their own; return the last line of the output."""
    command = [sys.executable, "-m", "pytest", "-q", "--device=cupy", *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=LIMITS[part], check=False
        )
    except subprocess.TimeoutExpired:
        return {"status": "stopped", "summary": f"after {LIMITS[part]} s", "failed": []}
    lines = done.stdout.strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    status = "passed" if done.returncode == 0 else "failed"
    return {"status": status, "summary": lines[-1] if lines else "", "failed": failed[:50]}


def _run(part, repeats):
    if part == "workloads":
        return _workloads(repeats)
    if part == "attention":
        return _attention(repeats)
    if part == "kernels":
        return _pytest("kernels", "tests/kernels")
    return _pytest(
        "tests", "tests/backend", "tests/ops", "tests/autograd", "tests/nn", "tests/optim"
    )


def table(results):
    """Return the results as Markdown."""
    lines = [f"{results['name']}, CuPy {results['cupy']}:", ""]
    for part in PARTS:
        if "summary" in results.get(part, {}):
            lines.append(f"* {part}: {results[part]['summary']}")
    measured = {part for part in PARTS if part in results and "summary" not in results[part]}
    if "workloads" in measured:
        lines += [
            "",
            "| workload | median, ms | range, ms | memory, MB |",
            "| --- | --- | --- | --- |",
        ]
        for name, row in results["workloads"].items():
            span = f"{row['least_ms']:.2f} to {row['most_ms']:.2f}"
            lines.append(f"| {name.upper()} | {row['ms']:.2f} | {span} | {row['mb']:.0f} |")
    if "attention" in measured:
        lines += [
            "", "| tokens | forward, ms | TFLOP/s | with backward, ms | TFLOP/s | memory, MB |",
            "| --- | --- | --- | --- | --- | --- |",
        ]  # fmt: skip
        for length, rows in results["attention"].items():
            one, both = rows["forward"], rows["both"]
            cells = (
                length, f"{one['ms']:.2f}", f"{one['tflops']:.1f}", f"{both['ms']:.2f}",
                f"{both['tflops']:.1f}", f"{both['mb']:.0f}",
            )  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _store(results, path, page):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{START}\n{table(results)}\n{END}{after}", encoding="utf-8")


def main(words, page=PAGE, folder=RESULTS):
    """Run the parts that are named on the command line, by default all; return the exit status."""
    import minitorch_attn as mt

    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    parser.add_argument("--repeats", type=int, default=20, help="steps to time (default: 20)")
    args = parser.parse_args(words)
    if not mt.cuda.is_available():
        print("There is no GPU: nothing was measured. `mta doctor` says what is missing.")
        return 0
    import cupy

    name = mt.cuda.get_device_name()
    path = folder / f"gpu-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.json"
    results = {"name": name, "cupy": cupy.__version__}
    for part in args.parts or PARTS:
        started = time.perf_counter()
        try:
            results[part] = _run(part, args.repeats)
        except Exception as error:  # the other parts are worth having
            results[part] = {"status": "failed", "summary": f"{type(error).__name__}: {error}"}
        print(f"{part:12}{time.perf_counter() - started:8.0f} s", flush=True)
        _store(results, path, page)
    print(table(results))
    return 0
