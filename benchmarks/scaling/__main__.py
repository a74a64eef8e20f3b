"""`python -m benchmarks scaling`: measure how time and memory grow with size, and fit exponents."""

import argparse
import json
from pathlib import Path

from .. import machine
from .cost import cost_of, fitted_exponent
from .curves import CURVES, attention_in
from .pictures import draw
from .report import sums_table, table, write_readme
from .sums import sums

RESULTS = Path(__file__).parents[1] / "results"


def main(words=None):
    """Measure all curves, print them as tables, and store them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scaling", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="seconds per point (default: 0.3)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="measure two small sizes of each curve; store nothing"
    )
    args = parser.parse_args(words)
    curves = []
    for curve in CURVES:
        sizes = curve.sizes[:2] if args.quick else curve.sizes
        timing = {"seconds": 0.0, "least": 1} if args.quick else {"seconds": args.seconds}
        points = list(measured(curve, sizes, **timing))
        curves.append({"what": curve.what, "label": curve.label, "points": points, **fits(points)})
        print(table([curves[-1]]), flush=True)
    results = {"machine": machine.describe(), "curves": curves, "sums": sums()}
    print(sums_table(results["sums"]))
    if not args.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "scaling.json").write_text(json.dumps(results, indent=1) + "\n")
        draw(results, RESULTS / "scaling.png")
        write_readme(results)
        print(f"stored in {RESULTS}; the tables are in benchmarks/README.md")


def measured(curve, sizes, **timing):
    """Measure a curve's step at each size, and yield a dict with the size and the step's costs.

    `timing` has the keyword arguments of `cost_of`.
    """
    with attention_in(curve.attention):
        for size in sizes:
            yield {"size": size, **cost_of(curve.step(size), **timing)}


def fits(points):
    """Fit the exponents of time and memory to the measured points of a curve."""
    sizes = [point["size"] for point in points]
    return {
        f"{cost}_exponent": fitted_exponent(sizes, [point[cost] for point in points])
        for cost in ("seconds", "bytes")
    }


if __name__ == "__main__":
    main()
