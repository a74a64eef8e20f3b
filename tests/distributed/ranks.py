"""Run a function of a test file on several ranks, in processes that mpiexec starts.

    from distributed.ranks import run_ranks

    def check_sum():
        mt.distributed.init_process_group()
        ...

    def test_sum():
        run_ranks(3, check_sum)

Starting takes about half a second of each rank, so the ranks stay, and call the functions of other
tests, too. A function must therefore leave the process as it was: no changed settings.
"""

import atexit
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

from minitorch_attn.distributed.launch import mpiexec, rank_environment

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds


def reason_to_skip():
    """Why ranks cannot be started here, or an empty string."""
    if importlib.util.find_spec("mpi4py") is None:
        return "needs mpi4py: python -m pip install 'minitorch-attn[mpi]'"
    return "" if mpiexec() else "needs mpiexec: python -m pip install 'minitorch-attn[mpi]'"


needs_mpi = pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())


def environment(**more):
    """Environment of the ranks, with the tests' helpers."""
    paths = [str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return rank_environment(PYTHONPATH=os.pathsep.join(paths), **more)


def command(n, *arguments):
    """The command that starts Python with `arguments` on `n` ranks."""
    return [mpiexec(), "-n", str(n), sys.executable, *map(str, arguments)]


def start_ranks(n, *arguments, output=subprocess.PIPE, **more):
    """Start Python on `n` ranks in a session of its own; return the Popen of mpiexec."""
    return subprocess.Popen(
        command(n, *arguments),
        env=environment(**more),
        cwd=ROOT,
        text=True,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def run_python(n, *arguments, limit=LIMIT, **more):
    """Run Python with `arguments` on `n` ranks; return a CompletedProcess."""
    process = start_ranks(n, *arguments, **more)
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"the ranks did not end within {limit} s\n{out}\n{err}", pytrace=False)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_ranks(n, function, *args, limit=LIMIT, last=False):
    """Call a function of a test file on `n` ranks; a rank that raises makes the test fail.

    Parameters
    ----------
    n : int
    function : function
        Defined at the top of its file. It must call `init_process_group` itself.
    *args
        Arguments that JSON can express.
    limit : float
        Seconds after which the ranks are killed, and the test fails.
    last : bool
        Whether the ranks end after the call, because messages that do not match confuse MPI.

    Returns
    -------
    list
        What the function returned on each rank (JSON).
    """
    if reason_to_skip():
        pytest.skip(reason_to_skip())
    if n not in _waiting:
        _waiting[n] = _Ranks(n)
    try:
        found = _waiting[n].call(function, args, limit)
    except BaseException:
        _waiting.pop(n).end(0)
        raise
    if last:
        _waiting.pop(n).end(10)
    return found


_waiting = {}  # number of ranks -> the ranks that wait for the next function


@atexit.register
def _end_all():
    while _waiting:
        _waiting.popitem()[1].end(10)


class _Ranks:
    """Ranks that call one function after the other. They end if this process does."""

    def __init__(self, n):
        self.output = tempfile.TemporaryFile()
        self.connections = [None] * n  # (socket, its lines) of each rank
        with socket.create_server(("127.0.0.1", 0), backlog=n) as server:
            self.process = start_ranks(n, __file__, server.getsockname()[1], output=self.output)
            server.settimeout(1)
            while None in self.connections:
                self._accept(server)

    def _accept(self, server):
        try:
            connection, _ = server.accept()
        except TimeoutError:
            if self.process.poll() is not None:
                self.fail("starting", 0)
            return
        lines = connection.makefile("rw", encoding="utf-8")
        self.connections[int(lines.readline())] = connection, lines

    def call(self, function, args, limit):
        printed, deadline = os.fstat(self.output.fileno()).st_size, time.monotonic() + limit
        for _, lines in self.connections:
            order = [function.__code__.co_filename, function.__name__, args]
            print(json.dumps(order), file=lines, flush=True)
        answers = []
        for connection, lines in self.connections:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                answers.append(lines.readline())
            except TimeoutError:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.fail(f"{function.__name__} did not end within {limit} s", printed)
            if not answers[-1]:
                self.fail(function.__name__, printed)
        return list(map(json.loads, answers))

    def fail(self, what, start):
        """Let the test fail, with what the ranks printed after byte `start`."""
        status = self.process.wait(30)
        size = os.fstat(self.output.fileno()).st_size
        said = os.pread(self.output.fileno(), size - start, start).decode("utf-8", "replace")
        ranks = len(self.connections)
        pytest.fail(f"{what} on {ranks} ranks: status {status}\n{said}", pytrace=False)

    def end(self, seconds):
        """Let the ranks end, and kill those that have not done so after some seconds."""
        for connection, lines in self.connections:
            lines.close()
            connection.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


# One rank


@cache
def imported(path):
    """Import a test file, once."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(port):
    """Run one rank: call the functions that the tests' process names, until it ends."""
    from minitorch_attn import distributed
    from minitorch_attn.distributed import mpi

    rank = mpi.load().COMM_WORLD.Get_rank()
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        lines = connection.makefile("rw", encoding="utf-8")
        print(rank, file=lines, flush=True)
        while line := lines.readline():
            path, name, arguments = json.loads(line)
            result = getattr(imported(path), name)(*arguments)
            if distributed.is_initialized():
                distributed.destroy_process_group()
            print(json.dumps(result), file=lines, flush=True)
    mpi.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
