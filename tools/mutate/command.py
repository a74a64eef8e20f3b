"""Command-line interface, progress display and results table for mutation testing.

python -m tools.mutate                                  all files; then all tests on survivors
python -m tools.mutate --only ops/softmax.py            one file
python -m tools.mutate --only ops/softmax.py --near     one file, with only its own tests (fast)
python -m tools.mutate --list                           print the mutants and exit
"""

import argparse
import gc
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from .targets import find_targets, public_names

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
WANTED = 0.95
COLUMNS = ("killed", "survived", "equivalent", "not equivalent")


def parsed(arguments):
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutate",
        description="Change every derivative in many ways, and check that a test fails.",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="FILE",
        help="only this file, such as ops/softmax.py; can be repeated",
    )
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes (default: 1)")
    parser.add_argument(
        "--near",
        action="store_true",
        help="run only the tests of the changed file",
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and exit")
    parser.add_argument("--sample", type=int, metavar="K", help="at most K mutants of each file")
    parser.add_argument("--seed", type=int, default=0, help="seed of --sample (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="file for all verdicts")
    parser.add_argument("--root", type=Path, default=ROOT, help="repository to work on")
    parser.add_argument("--package", default="minitorch_attn", help="package in the repository")
    parser.add_argument(
        "--equivalent",
        type=Path,
        help="file that lists changes without an effect",
        default=Path(__file__).with_name("equivalent.toml"),
    )
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run the command, and exit with its status."""
    for name in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{name}_NUM_THREADS", "1")  # read when NumPy is imported
    options = parsed(arguments)
    sys.path.insert(0, str(options.root))
    targets = find_targets(options.root / options.package, only=options.only)
    if not targets:
        raise SystemExit(f"found no derivative in {', '.join(options.only) or options.package}")
    from . import campaign

    files = campaign.draw(targets, options.sample, options.seed)
    if options.list:
        for mutants in files.values():
            print(*mutants, sep="\n")
        print(f"{sum(map(len, files.values()))} mutants")
        raise SystemExit(0)
    raise SystemExit(0 if run(options, targets, files) else 1)


def run(options, targets, files):
    """Run the mutants and print the verdicts. Return True if the tests are good enough.

    They must kill a share of at least `WANTED`, and no mutant that is listed as equivalent.
    """
    from . import campaign, trial

    start, verdicts = time.monotonic(), []
    equivalents = campaign.read_equivalents(options.equivalent)
    public = {target.file: public_names(target.path) for target in targets}

    def then(items):
        gc.collect()
        gc.freeze()  # garbage collection in a child must not copy shared memory pages
        one = campaign.Campaign(targets, items, equivalents, options.jobs, tell)
        verdicts.extend(one.run(files, public, wide=not options.near))

    trial.collect(options.root, ("ops", "nn", "models"), then)
    tell("")
    print_table(verdicts)
    complete = not options.only and options.sample is None
    print_lists(verdicts, equivalents if complete else {})
    if options.json:
        write_json(options.json, verdicts)
    count = Counter(v.group for v in verdicts)
    counted = count["killed"] + count["survived"]
    share = count["killed"] / counted if counted else 0.0
    for by in ("time limit", "crash"):
        stopped = sum(v.by == by for v in verdicts)
        if stopped:
            print(f"{stopped} mutants killed by a {by}, not by a test")
    print(
        f"{count['killed']} of {counted} killed: {share:.1%}; {count['equivalent']} equivalent; "
        f"{time.monotonic() - start:.0f} s"
    )
    return share >= WANTED and not count["not equivalent"]


def tell(text, passing=False):
    """Print a line. If `passing`, print it only in a terminal, where the next line replaces it."""
    terminal = sys.stderr.isatty()
    if terminal:
        sys.stderr.write("\r\x1b[K")
    if not passing:
        print(text, flush=True)
    elif terminal:
        sys.stderr.write(text)
        sys.stderr.flush()


def print_table(verdicts):
    """Print the results table: one line for each file, and the totals."""
    count, files = Counter(), {}
    for verdict in verdicts:
        files.setdefault(verdict.mutant.target.file, Counter())[verdict.group] += 1
        count[verdict.group] += 1
    print(f"{'file':30}{'mutants':>9}" + "".join(f"{name:>{len(name) + 3}}" for name in COLUMNS))
    for file, own in [*files.items(), ("all", count)]:
        cells = "".join(f"{own[name]:>{len(name) + 3}}" for name in COLUMNS)
        print(f"{file:30}{sum(own.values()):>9}{cells}")


def print_lists(verdicts, equivalents):
    """Print survivors, and entries of equivalent.toml that are wrong or no longer needed."""
    for group in ("survived", "not equivalent"):
        chosen = [v for v in verdicts if v.group == group]
        if chosen:
            print(f"\n{group}:")
        for verdict in chosen:
            by = f" (by {verdict.by})" if verdict.by else f" ({verdict.tests} tests run it)"
            print(f"  {verdict.mutant}{by}")
    existing = {(repr(v.mutant.target), v.mutant.change) for v in verdicts}
    stale = [key for key in equivalents if key not in existing]
    if stale:
        print("\nlisted in equivalent.toml, but not a mutant:")
    for where, change in stale:
        print(f"  {where}: {change}")
    print()


def write_json(path, verdicts):
    """Write all verdicts as a JSON list of objects."""
    rows = [
        {
            "where": repr(v.mutant.target),
            "line": v.mutant.line,
            "change": v.mutant.change,
            "fate": v.fate,
            "by": v.by,
            "tests": v.tests,
            "reason": v.reason,
        }
        for v in verdicts
    ]
    Path(path).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
