"""The command line, the progress line and the table.

python -m tools.mutate                                  everything; survivors meet all tests
python -m tools.mutate --only ops/softmax.py            one file
python -m tools.mutate --only ops/softmax.py --near     with its own tests only: quick
python -m tools.mutate --list                           print the mutants, run nothing
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
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutate",
        description="Break every derivative in many ways; the tests must notice.",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="FILE",
        help="only this file, such as ops/softmax.py; may be repeated",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default: 1)")
    parser.add_argument(
        "--near",
        action="store_true",
        help="only the tests of the changed file itself, not all tests",
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--sample", type=int, metavar="K", help="at most K mutants of each file")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="write all verdicts there")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository to work on")
    parser.add_argument("--package", default="minitorch_attn", help="its package")
    parser.add_argument(
        "--equivalent",
        type=Path,
        help="the file of declared equivalents",
        default=Path(__file__).with_name("equivalent.toml"),
    )
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run the command and leave with its exit status."""
    for name in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{name}_NUM_THREADS", "1")  # read when NumPy is imported
    options = parsed(arguments)
    sys.path.insert(0, str(options.root))
    targets = find_targets(options.root / options.package, only=options.only)
    if not targets:
        raise SystemExit(f"no derivative there: {', '.join(options.only) or options.package}")
    from . import campaign

    files = campaign.draw(targets, options.sample, options.seed)
    if options.list:
        for mutants in files.values():
            print(*mutants, sep="\n")
        print(f"{sum(map(len, files.values()))} mutants")
        raise SystemExit(0)
    raise SystemExit(0 if run(options, targets, files) else 1)


def run(options, targets, files):
    """Try the mutants and print what came of them; True if enough were killed."""
    from . import campaign, trial

    start, verdicts = time.monotonic(), []
    equivalents = campaign.read_equivalents(options.equivalent)
    public = {target.file: public_names(target.path) for target in targets}

    def then(items):
        gc.collect()
        gc.freeze()  # the collector of a child leaves the pages it shares with us alone
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
            print(f"{stopped} of them by {by}, not by a test")
    print(
        f"{count['killed']} of {counted} killed: {share:.1%}; {count['equivalent']} equivalent; "
        f"{time.monotonic() - start:.0f} s"
    )
    return share >= WANTED and not count["not equivalent"]


def tell(text, passing=False):
    """Print a line; a passing one stands only until the next, and only on a terminal."""
    terminal = sys.stderr.isatty()
    if terminal:
        sys.stderr.write("\r\x1b[K")
    if not passing:
        print(text, flush=True)
    elif terminal:
        sys.stderr.write(text)
        sys.stderr.flush()


def print_table(verdicts):
    """One line per file, and the sum."""
    count, files = Counter(), {}
    for verdict in verdicts:
        files.setdefault(verdict.mutant.target.file, Counter())[verdict.group] += 1
        count[verdict.group] += 1
    print(f"{'file':30}{'mutants':>9}" + "".join(f"{name:>{len(name) + 3}}" for name in COLUMNS))
    for file, own in [*files.items(), ("all", count)]:
        cells = "".join(f"{own[name]:>{len(name) + 3}}" for name in COLUMNS)
        print(f"{file:30}{sum(own.values()):>9}{cells}")


def print_lists(verdicts, equivalents):
    """Survivors, and declarations that are wrong or no longer needed."""
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
        print("\ndeclared equivalent, but there is no such mutant:")
    for where, change in stale:
        print(f"  {where}: {change}")
    print()


def write_json(path, verdicts):
    """All verdicts, one object each."""
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
