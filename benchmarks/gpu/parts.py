"""Run one part of `python -m benchmarks gpu`, and store its results after each measurement.

A faulty kernel can make the device unusable for the process that launched it, and a part can hang.
The command therefore starts a separate process for each part, `python -m benchmarks.gpu.parts
PART FILE SECONDS`. If the process ends early, FILE has the results up to that point.
"""

import argparse
import json
import sys
import time

from minitorch_attn.files import atomic_file

from . import attention, graphs, kernels, workloads

__all__ = ["MEASURED", "main", "run_part"]

QUICK = {"rounds": 1, "seconds": 0.0}  # one step in one round


def _items(part, quick):
    """Return {name: function that measures it} for a part's workloads, kernels or lengths."""
    settings = QUICK if quick else {}
    if part == "kernel-times":
        size = {"rows": 8, "width": 32} if quick else {}
        return {
            name: lambda name=name: kernels.compare(name, **size, **settings)
            for name in kernels.CASES
        }
    if part == "attention":
        lengths = (16, 32) if quick else attention.LENGTHS
        return {str(n): lambda n=n: attention.compare(n, **settings) for n in lengths}
    module, names = {
        "workloads": (workloads, ("w1",) if quick else workloads.NAMES),
        "graphs": (graphs, ("w1",) if quick else graphs.NAMES),
    }[part]
    return {name: lambda name=name: module.compare(name, **settings) for name in names}


MEASURED = ("workloads", "kernel-times", "attention", "graphs")


def run_part(items, store, seconds):
    """Measure the items of a part until the time limit. Return their results.

    Parameters
    ----------
    items : dict of str to callable
    store : callable
        Function that receives all results so far, after each item.
    seconds : float
        Time limit. Once it is exceeded, no further item is started.

    Returns
    -------
    dict
        Result of each item. If an item failed or was not started, its result is
        {"failed": reason}.
    """
    started, found = time.monotonic(), {}
    for name, measure in items.items():
        if time.monotonic() - started > seconds:
            found[name] = {"failed": "no time left"}
        else:
            try:
                found[name] = measure()
            except Exception as error:  # measure the other items
                found[name] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
        store(found)
    return found


def main(words):
    """Run the part named on the command line, and store its results after each measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.parts", description=__doc__)
    parser.add_argument("part", choices=MEASURED)
    parser.add_argument("file")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--quick", action="store_true", help="small sizes, one step each")
    args = parser.parse_args(words)

    def store(found):
        with atomic_file(args.file) as file:
            file.write(json.dumps(found).encode())
        name, last = list(found.items())[-1]
        print(f"  {args.part} {name}: {last.get('failed', 'done')}", flush=True)

    run_part(_items(args.part, args.quick), store, args.seconds)
    if args.part == "kernel-times" and (missing := kernels.without_case()):
        print(f"  kernels without a case: {', '.join(missing)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
