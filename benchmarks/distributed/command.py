"""Command `python -m benchmarks distributed`: time data-parallel steps here and in PyTorch.

The command runs 1, 2 and 4 ranks. This library on MPI and `torch.distributed` on gloo take turns,
each with one BLAS thread per rank. The command first compares losses and gradient norms. It counts
messages and bytes, measures latency and bandwidth of this machine, and compares the measured steps
with the cost model. The measurements go to `benchmarks/results/distributed.json`, the figure to the
same folder, and the table to `benchmarks/README.md`. If there are more ranks than cores, ranks
share the cores.

A second table in `benchmarks/README.md` has the messages and bytes of a step for each way to split
it. With `--counts`, the command makes only this table.
"""

import argparse
import importlib
import json
import re
import socket
import statistics
import subprocess

from minitorch_attn.distributed.launch import rank_environment

from .. import machine
from . import cost_model, messages
from .picture import draw
from .start import ROOT, on_ranks

__all__ = ["main"]

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "benchmarks" / "README.md"
BEGIN = "<!-- distributed: made by python -m benchmarks distributed -->"
END = "<!-- end of distributed -->"
ENGINES = ("minitorch_attn", "torch")
TOLERANCE = 2e-4


def main(words=None):
    """Run the command: measure the steps, compare them with the cost model, store the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks distributed", description=__doc__)
    parser.add_argument("--workload", default="w2", choices=("w1", "w2"))
    parser.add_argument("--ranks", type=int, nargs="*", default=(1, 2, 4))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one short turn; store nothing")
    parser.add_argument("--counts", action="store_true", help="only count messages and bytes")
    args = parser.parse_args(words)
    if args.quick:
        args.workload, args.ranks, args.rounds, args.steps = "w1", (1, 2), 1, 1
    write_counts(args.workload, (1, 2) if args.quick else messages.RANKS, store=not args.quick)
    if not args.counts:
        measure_all(args)


def write_counts(workload, ranks, store):
    """Count the messages of a step in each scheme, print the table and, if requested, store it."""
    found = messages.count(workload, ranks)
    print("\n".join(messages.table(found)), flush=True)
    if store:
        path = RESULTS / "distributed-messages.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
        write_page(messages.table(found), messages.BEGIN, messages.END)


def measure_all(args):
    """Time the steps on each number of ranks; store the times and the cost model's predictions."""
    found = {"machine": machine.describe(), "workload": args.workload, "rows": []}
    cores = found["machine"]["cores"]
    for ranks in args.ranks:
        row = measure(args.workload, ranks, args.rounds, args.steps)
        found["rows"].append(row)
        print(_line(row, cores), flush=True)
    found["message_s"], found["byte_s"] = constants()
    found["predicted"] = predicted(found)
    for ranks, value in found["predicted"].items():
        print(f"cost model, {ranks} ranks: {1e3 * value:.0f} ms")
    if not args.quick:
        (RESULTS / "distributed.json").write_text(json.dumps(found, indent=1) + "\n")
        draw(found, work_of(found["workload"]), RESULTS / "distributed.png")
        write_page(table(found), BEGIN, END)


def measure(workload, ranks, rounds, steps):
    """Run both engines in turn. Return median step times, their ratio, and the message counts."""
    turns = {engine: [] for engine in ENGINES}
    for _ in range(rounds):
        for engine in ENGINES:
            turns[engine].append(run(engine, workload, ranks, steps))
    first = {engine: found[0] for engine, found in turns.items()}
    for name in ("loss", "gradient_norm"):
        ours, theirs = (first[engine][name] for engine in ENGINES)
        if abs(ours - theirs) > TOLERANCE * abs(theirs):
            raise SystemExit(f"{name} differs on {ranks} ranks: {ours} here, {theirs} in PyTorch")
    times = {e: [statistics.median(t["times"]) for t in found] for e, found in turns.items()}
    ratios = [a / b for a, b in zip(times["minitorch_attn"], times["torch"], strict=True)]
    return {
        "ranks": ranks, "step_s": statistics.median(times["minitorch_attn"]),
        "torch_s": statistics.median(times["torch"]), "ratio": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)], "rounds": rounds,
        "messages": first["minitorch_attn"]["messages"], "bytes": first["minitorch_attn"]["bytes"],
    }  # fmt: skip


def run(engine, workload, ranks, steps):
    """Start the ranks of one engine, and return the measurements that rank 0 wrote."""
    start = {"start": _start_torch} if engine == "torch" else {}
    return on_ranks(ranks, "rank", engine, workload, steps, **start)


def _start_torch(program, ranks):
    """Start the ranks of PyTorch, which find each other through environment variables."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    started = [
        subprocess.Popen(program, cwd=ROOT, env=rank_environment(**shared, RANK=str(rank)))
        for rank in range(ranks)
    ]
    statuses = [process.wait() for process in started]
    if any(statuses):
        raise SystemExit("a rank of PyTorch failed")


def constants():
    """Measure and return the seconds per message and per byte between two ranks of this machine."""
    return on_ranks(2, "ping")


def work_of(workload):
    """Return the sizes of a workload as the `Work` of the cost model."""
    sizes = importlib.import_module(f"benchmarks.workloads.{workload}").SIZES
    width, vocabulary = sizes["width"], sizes["vocabulary"]
    parameters = 12 * sizes["layers"] * width**2 + (vocabulary + sizes["context"]) * width
    return cost_model.Work(
        sizes["batch"], sizes["context"], width, sizes["layers"], sizes["heads"], parameters
    )


def predicted(found):
    """Predict the step times from the time on one rank. Return {number of ranks: seconds}."""
    work = work_of(found["workload"])
    alone = next((row for row in found["rows"] if row["ranks"] == 1), found["rows"][0])
    constants = cost_model.Machine(
        alone["step_s"] * alone["ranks"] / work.batch, found["message_s"], found["byte_s"]
    )
    return {
        row["ranks"]: cost_model.seconds("data", constants, work, row["ranks"])
        for row in found["rows"]
    }


def _ranks(row, cores):
    """Format the number of ranks, with the number of cores if several ranks share a core."""
    shared = f" on {cores} cores" if row["ranks"] > cores else ""
    return f"{row['ranks']}{shared}"


def _line(row, cores):
    low, high = row["ratio_range"]
    return (
        f"ranks {_ranks(row, cores)}: {1e3 * row['step_s']:.0f} ms, PyTorch "
        f"{1e3 * row['torch_s']:.0f} ms, ratio {row['ratio']:.2f} ({low:.2f} to {high:.2f}), "
        f"{row['messages']} messages, {row['bytes']:,} bytes"
    )


def table(found):
    """Format the step times as the table for benchmarks/README.md, and return its lines."""
    host = found["machine"]
    lines = [
        f"**{host['cpu']}, {host['cores']} cores.** {found['workload'].upper()}, one BLAS thread "
        f"per rank; a message takes {1e6 * found['message_s']:.1f} us and "
        f"{1e-9 / found['byte_s']:.1f} GB per second.",
        "",
        "| ranks | step | PyTorch (gloo) | ratio (range) | cost model | messages | bytes |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        low, high = row["ratio_range"]
        model = found["predicted"][row["ranks"]]
        lines.append(
            f"| {_ranks(row, host['cores'])} | {1e3 * row['step_s']:.0f} ms | "
            f"{1e3 * row['torch_s']:.0f} ms | {row['ratio']:.2f}x ({low:.2f} to {high:.2f}) | "
            f"{1e3 * model:.0f} ms | {row['messages']} | {row['bytes']:,} |"
        )
    return lines


def write_page(lines, begin, end):
    """Write a table between the markers `begin` and `end` in benchmarks/README.md."""
    text = PAGE.read_text(encoding="utf-8")
    body = "\n".join([begin, "", *lines, "", end])
    PAGE.write_text(
        re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: body, text, flags=re.S),
        encoding="utf-8",
    )
