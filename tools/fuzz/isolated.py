"""Run cases in forked processes with limits on time and memory, and find where errors occur."""

import json
import os
import resource
import select
import signal
import struct
import traceback
from dataclasses import astuple, dataclass
from pathlib import Path

from minitorch_attn.backend import keep_memory

__all__ = ["Failure", "limit_memory", "place_of", "run_isolated"]

_LENGTH = struct.Struct("<Q")
MEMORY = 1 << 30  # bytes that a case may allocate


@dataclass(frozen=True)
class Failure:
    """One case that ended neither with an error of the package nor with a correct result.

    Attributes
    ----------
    case : int
    what : str
        The exception and its message, or what else went wrong.
    place : str
        "file:line" of the innermost frame of the package, or a description if there is no frame.
    """

    case: int
    what: str
    place: str


def place_of(error, package="minitorch_attn"):
    """Return "file:line" of an error: the innermost frame of the package in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f"{os.sep}{package}{os.sep}" in f.filename] or frames
    if not inside:
        return "?"
    name = inside[-1].filename
    name = name[name.rfind(package) :] if package in name else os.path.basename(name)
    return f"{name}:{inside[-1].lineno}"


def run_isolated(run, cases, seconds):
    """Call `run(case)` for each case, in a forked process.

    One process runs all cases. After a crash or a timeout, a new process continues with the next
    case.

    Parameters
    ----------
    run : callable
        Function from a case to a Failure or None.
    cases : iterable of int
    seconds : float
        Time limit of one case.

    Yields
    ------
    Failure or None for each case, in order
        Result of `run(case)`, or a Failure if the case exceeds the time limit or ends its process.
    """
    left = list(cases)
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _work(run, left, reader, writer)
        os.close(writer)
        for result in _results(child, reader, tuple(left), seconds):
            left.pop(0)
            yield result
        os.close(reader)


def _work(run, cases, reader, writer):
    """Run the cases in the child process, and write each result to the pipe as JSON."""
    status = 1
    try:
        os.close(reader)
        limit_memory(MEMORY)
        for case in cases:
            found = run(case)
            data = json.dumps(found and astuple(found)).encode()
            os.write(writer, _LENGTH.pack(len(data)) + data)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def limit_memory(size):
    """Limit the memory that this process may allocate from now on, in bytes of address space.

    Address space that the process already uses does not count toward the limit. This includes the
    address space that a forked process inherits from its parent.
    """
    keep_memory(False)  # otherwise, free memory of earlier cases does not count toward the limit
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _results(child, reader, cases, seconds):
    """Yield the results of a child process, until it has finished or failed."""
    try:
        for case in cases:
            ready, _, _ = select.select([reader], [], [], seconds)
            if not ready:
                yield Failure(case, f"no result after {seconds:g} s", "time limit")
                return
            start = _exactly(reader, _LENGTH.size)
            if not start:
                yield Failure(case, "the process ended", "crash")
                return
            found = json.loads(_exactly(reader, *_LENGTH.unpack(start)))
            yield found and Failure(*found)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _exactly(descriptor, count):
    parts = []
    while count:
        part = os.read(descriptor, count)
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
