"""Table of the messages and bytes of a training step: counted, and compared with the formulas."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from minitorch_attn.cli.worker_processes import mpiexec

from .count import step_of
from .formulas import SCHEMES, obstacle, sent

__all__ = ["BEGIN", "END", "RANKS", "count", "table"]

ROOT = Path(__file__).resolve().parents[2]
RANKS = (1, 2, 3, 4)
BEGIN = "<!-- messages: made by python -m benchmarks distributed --counts -->"
END = "<!-- end of messages -->"
_NAMES = {
    "data": "data: `DistributedDataParallel`", "zero1": "data with `ZeroRedundancyOptimizer`",
    "tensor": "tensor: `tensor_parallel`", "sequence": "sequence: `SequenceParallel`",
    "pipeline": "pipeline: `GPipe`, 4 micro-batches",
}  # fmt: skip


def count(workload, ranks=RANKS):
    """Count a step of each scheme at several numbers of ranks, and compare with the formulas.

    Parameters
    ----------
    workload : str
        Name of a workload that is a GPT step, such as "w2".
    ranks : sequence of int

    Returns
    -------
    dict
        "workload", and "ranks": {number of ranks: {scheme: {"loss", "sent"}}}, as `count.py` writes
        them.
    """
    step, found = step_of(workload), {}
    for size in ranks:
        found[str(size)] = _run(workload, size)
        for scheme, counts in found[str(size)].items():
            expected = [list(sent(scheme, step, size, rank)) for rank in range(size)]
            if counts["sent"] != expected:
                raise SystemExit(f"{scheme}, {size} ranks: {counts['sent']}, formula {expected}")
    return {"workload": workload, "ranks": found}


def _run(workload, size):
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        program = [sys.executable, "-m", "benchmarks.distributed.count", workload, str(path)]
        command = [mpiexec(), "-n", str(size), *program]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **one}, check=True)
        return json.loads(path.read_text())


def table(found):
    """Return the lines of the table: what the rank with the most bytes sends in a step."""
    step, sizes = step_of(found["workload"]), list(found["ranks"])
    heads = [f"{size} rank{'' if size == '1' else 's'}" for size in sizes]
    lines = [f"| split | {' | '.join(heads)} |", "|---" * (1 + len(sizes)) + "|"]
    for scheme in SCHEMES:
        cells = [_cell(scheme, step, size, found["ranks"][size]) for size in sizes]
        lines.append(f"| {_NAMES[scheme]} | {' | '.join(cells)} |")
    return lines


def _cell(scheme, step, size, counts):
    if scheme not in counts:
        return f"not possible: {obstacle(scheme, step, int(size))}"
    messages, sent_bytes = max(counts[scheme]["sent"], key=lambda pair: pair[1])
    return f"{messages} messages, {sent_bytes:,} bytes"
