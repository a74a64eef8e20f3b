"""Run every recipe with three seeds and write docs/results.md: `python -m tools.results`.

Each run is a separate process, `python -m minitorch_attn train RECIPE --seed N`. Its measurements
are stored next to its run folder. If the program is interrupted, start it again: it continues with
the missing runs. With `--write`, it writes the page from the stored measurements without new runs.
Recipes without stored measurements keep their rows on the page.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.machine import describe
from minitorch_attn.training.progress import duration
from minitorch_attn.training.recipes import RECIPES, load_recipe

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results.md"
SEEDS = (1, 2, 3)
_HEAD = (
    f"| recipe | target | seeds {', '.join(map(str, SEEDS))} | target met | time | processor time "
    "| peak memory |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def main(arguments=None):
    """Train the recipes whose runs are missing, and write docs/results.md."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipes", default=",".join(RECIPES), help="comma-separated recipe names")
    parser.add_argument("--runs", default=ROOT / "runs" / "results", type=Path, help="run folder")
    parser.add_argument("--again", action="store_true", help="repeat runs that are already stored")
    parser.add_argument("--write", action="store_true", help="write the page without new runs")
    parser.add_argument(
        "--beside", action="store_true",
        help="other programs are running: show only the processor time",
    )  # fmt: skip
    chosen = parser.parse_args(arguments)
    for name in [] if chosen.write else chosen.recipes.split(","):
        for seed in SEEDS:
            figures = chosen.runs / f"{name}-{seed}.json"
            if chosen.again or not figures.exists():
                entry = run(name, seed, chosen.runs / f"{name}-{seed}")
                entry["beside"] = chosen.beside
                figures.write_text(json.dumps(entry, indent=2) + "\n", encoding="utf-8")
                print(f"{name} {seed}: {entry['result']['value']:.4f}, {entry['seconds']:.0f} s")
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(page(chosen.runs, old), encoding="utf-8")


def run(name, seed, folder):
    """Train one recipe from the start.

    Returns
    -------
    dict
        "result" (contents of result.json), "seconds" (wall-clock time), "cpu_seconds", "memory"
        (peak resident memory in bytes) and "machine" (description of the machine).
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "minitorch_attn", "train", name, "--seed", str(seed)]
    started = time.perf_counter()
    with open(folder.parent / f"{name}-{seed}.log", "wb") as log:
        child = subprocess.Popen([*command, "--out", str(folder)], cwd=ROOT, stdout=log, stderr=log)
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command[2:])} failed: see {log.name}")
    return {
        "result": json.loads((folder / "result.json").read_text(encoding="utf-8")),
        "seconds": time.perf_counter() - started,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss * 1024,
        "machine": describe(),
    }


def page(runs, old=""):
    """Return the text of docs/results.md, generated from the stored runs.

    Parameters
    ----------
    runs : Path
        Folder of the stored runs.
    old : str, default ""
        Current text of the page. Recipes without stored runs keep their rows and tables.
    """
    found = {name: _entries(runs, name) for name in RECIPES}
    if not any(found.values()):
        raise SystemExit(f"there are no results in {runs}")
    rows = [_row(name, found[name]) if found[name] else _old_row(name, old) for name in RECIPES]
    tables = [
        _table(name, found[name]) if found[name] else _old_table(name, old) for name in RECIPES
    ]
    lines = [
        "# Results of the recipes",
        "",
        "`python -m tools.results` generates this page. It runs every recipe with its default "
        f"settings and the seeds {', '.join(map(str, SEEDS))}.",
        "",
        *_HEAD,
        *filter(None, rows),
        "",
        *_settings({name: entries for name, entries in found.items() if entries}, rows, old),
        "",
        "## All measured values",
        "",
        *[line for table in tables for line in table],
    ]
    return "\n".join(lines).rstrip() + "\n"


def _old_row(name, old):
    """Return a recipe's row in the first table of the existing page, `old`, or ""."""
    starts = f"| `mta train {name}` |"
    return next((line for line in old.splitlines() if line.startswith(starts)), "")


def _old_table(name, old):
    """Return the lines of a recipe's table of measured values in the existing page, `old`."""
    found = re.search(rf"^### {name}: .*?(?=^### |\Z)", old, re.M | re.S)
    return [*found[0].rstrip().splitlines(), ""] if found else []


def _entries(runs, name):
    paths = [runs / f"{name}-{seed}.json" for seed in SEEDS]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def _row(name, entries):
    """Return a recipe's row for the first table of the page."""
    target = load_recipe(name).target
    values = [entry["result"]["value"] for entry in entries]
    reached = sum(target.reached(value) for value in values)
    seconds, memory = "–", "–"
    if not any(entry.get("beside") for entry in entries):
        seconds = _middle(entries, "seconds")
        memory = f"{max(entry['memory'] for entry in entries) / 2**20:,.0f} MiB"
    return (
        f"| `mta train {name}` | {target} | {', '.join(map(target.show, values))} "
        f"| {reached} of {len(values)} | {seconds} | {_middle(entries, 'cpu_seconds')} "
        f"| {memory} |"
    )


def _middle(entries, name):
    return duration(statistics.median(entry[name] for entry in entries))


def _settings(found, rows, old):
    machines = [entry["machine"] for entries in found.values() for entry in entries]
    first = machines[0]
    threads = first["environment"].get("OMP_NUM_THREADS") or "as many as cores"
    lines = [
        "Time is the duration of the whole command, including data, training and figures (median "
        "over the seeds). Peak memory is the maximum memory use of the process, over all seeds.",
        "",
        f"Machine: {first['cpu']}, {first['cores']} cores, {first['system']}. Python "
        f"{first['python']}, NumPy {first['versions']['numpy']} with {first['numpy_blas']} "
        f"({first['blas_kernels']}), BLAS threads: {threads}.",
    ]
    kept = next((line for line in old.splitlines() if line.startswith("Machine: ")), lines[-1])
    if any(machine != first for machine in machines) or not kept.startswith(lines[-1]):
        lines[-1] += " Some runs were made with other settings or on another machine."
    if any("| – |" in row for row in rows):
        lines[2:2] = [
            "Rows without time and memory were measured while other programs were running. Only "
            "their processor time can be compared.",
            "",
        ]
    return lines


def _table(name, entries):
    """Yield the lines of a Markdown table with all measured values of a recipe."""
    names = list(entries[0]["result"]["measured"])
    columns = [entry["result"]["measured"] for entry in entries]
    yield f"### {name}: {load_recipe(name).summary}"
    yield ""
    yield "| metric | " + " | ".join(f"run {n}" for n in range(1, len(columns) + 1)) + " |"
    yield "| --- |" + " --- |" * len(columns)
    for measured in names:
        values = " | ".join(f"{column[measured]:.4f}" for column in columns)
        yield f"| {measured} | {values} |"
    yield ""


if __name__ == "__main__":
    main()
