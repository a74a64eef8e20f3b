"""Run a function of a lesson on several ranks: processes on this machine that exchange messages.

A function cannot be passed to another process. Its source text is written to a file, which
`mpiexec` starts once for each rank. Arguments and results are stored as JSON and NumPy arrays.
"""

import inspect
import json
import linecache
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np

from ..backend import is_array, to_host
from ..distributed.launch import mpiexec, rank_environment
from ..errors import ArgumentError, CommunicationError
from ..tensor import Tensor, tensor
from .rank_messages import Message, in_rounds

__all__ = ["RankRun", "run_ranks"]

_IMPORTS = """\
import numpy as np

import minitorch_attn as mt
from minitorch_attn import distributed as dist
"""
_MAIN = """

from minitorch_attn.course import ranks as _ranks

_ranks.run_one({folder!r}, {name})
"""


class RankRun(list):
    """Results of a run on several ranks: a list with one entry for each rank.

    Attributes
    ----------
    messages : list of Message
        Messages between the ranks, sorted by round.
    """

    def __init__(self, results, messages):
        super().__init__(results)
        self.messages: list[Message] = messages


def run_ranks(ranks, function, *arguments, uses=(), limit=120.0):
    """Call a function on several ranks at the same time. Each rank is a process.

    Parameters
    ----------
    ranks : int
        Number of processes.
    function : function
        Function to call. The only names from outside its body that it may use are `np`, `mt`,
        `dist` (`mt.distributed`) and those in `uses`. The process group is already initialized
        when the function is called.
    *arguments
        Arguments of the function, the same on every rank: numbers, strings, tensors, arrays, and
        lists and dicts of them.
    uses : sequence of function or class
        Functions and classes that the function calls.
    limit : float, default 120
        Time limit for the run, in seconds.

    Returns
    -------
    RankRun
        List of the results, one for each rank. Results may have the same types as arguments.

    Raises
    ------
    CommunicationError
        If MPI is not installed, a rank raises an exception, or the run takes too long.

    Examples
    --------
    >>> def twice(x):
    ...     return 2 * x + dist.get_rank()
    >>> run_ranks(3, twice, 10)  # doctest: +SKIP
    [20, 21, 22]
    """
    start = mpiexec()
    if start is None:
        raise CommunicationError(
            "run_ranks: mpiexec was not found",
            hint="python -m pip install 'minitorch-attn[mpi]', which installs mpi4py and MPICH",
        )
    if ranks < 1:
        raise ArgumentError("run_ranks: ranks must be positive", got=str(ranks))
    with tempfile.TemporaryDirectory(prefix="mta-ranks-") as folder:
        program = Path(folder, "program.py")
        program.write_text(_program(function, uses, folder), encoding="utf-8")
        _write(Path(folder, "arguments"), list(arguments))
        command = [start, "-n", str(ranks), sys.executable, str(program)]
        _run(command, function.__name__, limit)
        stored = [_read(Path(folder, f"{rank}")) for rank in range(ranks)]
    logs = [[tuple(entry) for entry in one["log"]] for one in stored]
    return RankRun([one["result"] for one in stored], in_rounds(logs))


def run_one(folder, function):
    """Call the function on one rank, and store its result and a log of this rank's messages."""
    from .. import distributed as dist
    from .rank_messages import MessageLog

    dist.init_process_group()
    log = MessageLog()
    with dist.count_messages(log):
        result = function(*_read(Path(folder, "arguments")))
    _write(Path(folder, str(dist.get_rank())), {"result": result, "log": log.entries})


def _program(function, uses, folder):
    parts = [textwrap.dedent(_source(part)) for part in (*uses, function)]
    main = _MAIN.format(folder=folder, name=function.__name__)
    return "\n\n".join([_IMPORTS, *parts]) + main


def _source(part):
    """Return the source text of a function or class.

    Before Python 3.13, `inspect` looks for a class in the file of its module. A class from a cell
    of a notebook or of `mta lesson step` is not in that file. The code objects of the class's
    methods name the cell, so the class is found through its methods.
    """
    if inspect.isclass(part):
        for method in filter(inspect.isfunction, vars(part).values()):
            lines = linecache.getlines(method.__code__.co_filename)
            before = lines[: method.__code__.co_firstlineno]
            head = re.compile(rf"\s*class {part.__name__}\b")
            starts = [number for number, line in enumerate(before) if head.match(line)]
            if starts:
                return "".join(inspect.getblock(lines[starts[-1] :]))
    return inspect.getsource(part)


def _run(command, name, limit):
    try:
        done = subprocess.run(
            command, env=rank_environment(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CommunicationError(
            f"run_ranks: {name} did not end within {limit:g} s",
            hint="check that every rank makes the same calls, in the same order",
        ) from None
    print(done.stdout, end="")
    if done.returncode:
        missing = "NameError" in done.stderr
        raise CommunicationError(
            f"run_ranks: a rank that called {name} has failed",
            got=_first_error(done.stderr),
            hint=f"uses= must list every function that {name} calls" if missing else None,
        )


def _first_error(text):
    """Return the first line of the ranks' output that names an error, else the last lines."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line]
    return errors[0] if errors else "\n".join(lines[-5:])


# Results on disk: a tree in JSON, in which {"array": key} or {"tensor": key} is in a .npz file


def _write(path, value):
    arrays = {}
    tree = _packed(value, arrays)
    np.savez(path.with_suffix(".npz"), **arrays)
    path.with_suffix(".json").write_text(json.dumps(tree), encoding="utf-8")


def _read(path):
    tree = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        return _unpacked(tree, dict(arrays))


def _packed(value, arrays):
    if isinstance(value, Tensor) or is_array(value):
        kind = "tensor" if isinstance(value, Tensor) else "array"
        key = f"a{len(arrays)}"
        arrays[key] = to_host(value.detach().array if kind == "tensor" else value)
        return {kind: key}
    if isinstance(value, dict):
        return {"dict": [[key, _packed(entry, arrays)] for key, entry in value.items()]}
    if isinstance(value, list | tuple):
        return [_packed(entry, arrays) for entry in value]
    return value.item() if isinstance(value, np.generic) else value


def _unpacked(tree, arrays):
    if isinstance(tree, list):
        return [_unpacked(entry, arrays) for entry in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, key),) = tree.items()
    if kind == "dict":
        return {name: _unpacked(entry, arrays) for name, entry in key}
    return tensor(arrays[key]) if kind == "tensor" else arrays[key]
