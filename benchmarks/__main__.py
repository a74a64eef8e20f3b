"""`python -m benchmarks`: time the workloads beside PyTorch and store what was measured.

Needs the `parity` extra. Everything is written to `benchmarks/results/`, and the table in
`benchmarks/README.md` is made from it.
"""

import argparse
import importlib
import json
import os
from pathlib import Path

from . import machine, measure, table

WORKLOADS = ("w1", "w6", "load", "generate")


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", default=WORKLOADS, metavar="W", help=", ".join(WORKLOADS)
    )
    parser.add_argument("--rounds", type=int, default=11, help="turns of each engine (11)")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn (1.5)")
    parser.add_argument("--threads", type=int, default=2, help="for PyTorch (2)")
    parser.add_argument(
        "--quick", action="store_true", help="three short turns, contended or not; nothing stored"
    )
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.seconds = 3, 0.2
    results = {"machine": machine.describe(), "torch_threads": args.threads, "workloads": []}
    print(f"{results['machine']['cpu']}, {results['machine']['cores']} cores", flush=True)
    for name in args.workloads:
        module = importlib.import_module(f"benchmarks.workloads.{name.lower()}")
        found = measure.run_workload(
            name.lower(), module, rounds=args.rounds, seconds=args.seconds,
            threads=args.threads, contended=args.quick,
        )  # fmt: skip
        results["workloads"].append(found)
        print(table.plain(found), flush=True)
    if not args.quick:
        setting = os.environ.get("OPENBLAS_CORETYPE") or "default"
        path = Path(__file__).parent / "results" / f"cpu-{setting.lower()}.json"
        path.parent.mkdir(exist_ok=True)
        results["workloads"] = _with_stored(path, results)
        path.write_text(json.dumps(results, indent=1) + "\n")
        table.write_readme()
        print(f"stored in {path}; table made in benchmarks/README.md")


def _with_stored(path, results):
    """The new results, and those of other workloads measured before under the same conditions."""
    new = {found["workload"]: found for found in results["workloads"]}
    stored = json.loads(path.read_text()) if path.exists() else {}
    if all(stored.get(key) == results[key] for key in ("machine", "torch_threads")):
        new = {found["workload"]: found for found in stored["workloads"]} | new
    return sorted(new.values(), key=lambda found: WORKLOADS.index(found["workload"]))


if __name__ == "__main__":
    main()
