"""`python -m benchmarks`: compare the workloads with PyTorch, and store the measurements.

The command requires the `parity` extra. It stores the measurements in `benchmarks/results/` and
writes them as a table into `benchmarks/README.md`. `python -m benchmarks scaling` measures how time
and memory grow with the sizes of a model and its input.
"""

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from . import chart, machine, measure, table

WORKLOADS = ("w1", "w2", "w2l", "w3", "w4f", "w4b", "w5", "w6", "w7", "w8", "w9", "w10")
BY_NAME_ONLY = ("load", "generate")  # these need transformers and write half a gigabyte
VARIANTS = (
    "minitorch_attn_unsplit",
    "minitorch_attn_checkpointed",
    "torch_fused",
    "torch_compile",
    "jax",
)
RESULTS = Path(__file__).parent / "results"


def arguments(words=None):
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", default=WORKLOADS, metavar="W",
        help=f"{', '.join(WORKLOADS)} (default: all of these) or {', '.join(BY_NAME_ONLY)}",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=7, help="number of rounds (default: 7)")
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="seconds of a turn (default: 0.5)"
    )
    parser.add_argument("--threads", type=int, default=2, help="PyTorch threads (default: 2)")
    parser.add_argument(
        "--leave-out", nargs="*", default=(), metavar="ENGINE", help="engines not to run"
    )
    parser.add_argument(
        "--quick", action="store_true",
        help="compare the results of fewer engines and time one step; store nothing",
    )  # fmt: skip
    args = parser.parse_args(words)
    if args.quick:
        args.rounds, args.seconds, args.leave_out = 1, 0.0, VARIANTS
    return args


def main(args):
    """Run the selected benchmark workloads, and store their measurements."""
    results = {"machine": machine.describe(), "torch_threads": args.threads, "workloads": []}
    print(f"{results['machine']['cpu']}, {results['machine']['cores']} cores", flush=True)
    for name in args.workloads:
        module = importlib.import_module(f"benchmarks.workloads.{name.lower()}")
        found = measure.run_workload(
            name.lower(), module, rounds=args.rounds, seconds=args.seconds,
            threads=args.threads, leave_out=args.leave_out, contended=args.quick,
        )  # fmt: skip
        results["workloads"].append(found)
        print(table.plain(found), flush=True)
    if mean := table.geometric_mean(results["workloads"]):
        print(f"geometric mean of the plain loop's ratios over W1 to W7: {mean:.2f}x")
    if not args.quick:
        setting = os.environ.get("OPENBLAS_CORETYPE") or "default"
        path = RESULTS / f"cpu-{setting.lower()}.json"
        path.parent.mkdir(exist_ok=True)
        results["workloads"] = _with_stored(path, results)
        path.write_text(json.dumps(results, indent=1) + "\n")
        chart.draw(results, path.with_suffix(".png"))
        table.write_readme()
        print(f"stored in {path}; the table is in benchmarks/README.md")


def _with_stored(path, results):
    """Add stored results of the other workloads, if machine and thread count are the same."""
    new = {found["workload"]: found for found in results["workloads"]}
    stored = json.loads(path.read_text()) if path.exists() else {}
    if all(stored.get(key) == results[key] for key in ("machine", "torch_threads")):
        new = {found["workload"]: found for found in stored["workloads"]} | new
    order = [*WORKLOADS, *BY_NAME_ONLY]
    return sorted(new.values(), key=lambda found: order.index(found["workload"]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["scaling"]:
        from .scaling.__main__ import main as scaling

        scaling(sys.argv[2:])
    elif sys.argv[1:2] == ["device-calls"]:
        from .device_calls import main as device_calls

        device_calls(sys.argv[2:])
    elif sys.argv[1:2] == ["distributed"]:
        from .distributed.command import main as distributed

        distributed(sys.argv[2:])
    elif sys.argv[1:2] == ["gpu"]:
        from .gpu.command import main as gpu

        sys.exit(gpu(sys.argv[2:]))
    else:
        main(arguments())
