"""Start a program of this folder on several ranks, and read the result that rank 0 writes."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from minitorch_attn.cli.worker_processes import mpiexec
from minitorch_attn.distributed.launch import rank_environment

__all__ = ["ROOT", "on_ranks"]

ROOT = Path(__file__).resolve().parents[2]


def _by_mpiexec(program, ranks):
    command = [mpiexec(), "-n", str(ranks), *program]
    subprocess.run(command, cwd=ROOT, env=rank_environment(), check=True)


def on_ranks(ranks, name, *words, start=_by_mpiexec):
    """Run `benchmarks.distributed.NAME WORDS... FILE` on several ranks. Return rank 0's result.

    Parameters
    ----------
    ranks : int
    name : str
    *words : str or int
    start : callable, optional
        Function that takes the program and the number of ranks, and runs the program to its end. By
        default, mpiexec starts it.

    Returns
    -------
    object
        The JSON value that rank 0 wrote to FILE.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        program = [sys.executable, "-m", f"benchmarks.distributed.{name}", *map(str, words)]
        start([*program, str(path)], ranks)
        return json.loads(path.read_text())
