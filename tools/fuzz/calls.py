"""Fuzz calls: call every public function, layer, optimizer and method with invalid arguments.

Each program depends only on the seed and on its number, so `--seed SEED --only NUMBER` repeats it.
Programs run in child processes with limits on memory and time, so a call cannot block the machine.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import select
import signal
import sys
import tempfile
import time

from .isolated import limit_memory
from .judge import judge, namespace
from .programs import callables, write

__all__ = ["fuzz", "main", "program"]

MEMORY = 3 << 30  # bytes that the calls of a process may allocate
SILENCE = 60  # seconds without an outcome after which a process is stopped


def main(arguments=None):
    """Run the command `python -m tools.fuzz calls`, and return its exit status."""
    options = _options(arguments)
    if options.only is not None:
        made = program(options.seed, options.only, callables(namespace()))
        print(made.text)
        print(judge(made, options.only))
        return 0
    numbers = range(options.start, options.start + options.count)
    report = fuzz(options.seed, numbers, options.processes, options.progress)
    print("\n".join(report.lines(options.show, options.unnamed)))
    return 1 if report.findings else 0


def _options(arguments):
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz calls", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100_000, help="number of calls")
    parser.add_argument("--start", type=int, default=0, help="number of the first call")
    parser.add_argument("--only", type=int, help="number of a call to print and run alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--show", type=int, default=100, help="number of findings to print")
    parser.add_argument("--unnamed", type=int, default=0, metavar="N",
                        help="number of errors to print that do not name their function or "
                        "parameter")  # fmt: skip
    parser.add_argument("--progress", action="store_true", help="show progress on stderr")
    return parser.parse_args(arguments)


def program(seed, number, found):
    """Generate the program with this seed and number; `found` is the result of `callables`."""
    return write(random.Random(f"{seed}/{number}"), found)


class Report:
    """Report on many calls: the number of outcomes of each kind, and the findings at each place."""

    def __init__(self):
        self.kinds = collections.Counter()
        self.unnamed = collections.Counter()
        self.findings = {}  # place -> [count, seed and number, text, message]
        self.examples = {}  # place of an unnamed error -> [count, text, message]

    def add(self, where, name, text, outcome):
        """Count an outcome. `where` contains the command-line options that repeat the call."""
        kind, message, place, named, parameter = outcome
        self.kinds[kind] += 1
        if kind in ("foreign", "slow", "died"):
            entry = self.findings.setdefault(place or name, [0, where, text, message])
            entry[0] += 1
        elif kind == "own" and not (named and parameter):
            self.unnamed["function" if not named else "parameter"] += 1
            entry = self.examples.setdefault(f"{name} at {place}", [0, named, text, message])
            entry[0] += 1

    def lines(self, show, unnamed=0):
        """Return the lines of the report, for at most `show` places of findings.

        At most `unnamed` places of errors are also listed. These are the package's own errors whose
        message does not name the callable, or does not name a parameter.
        """
        total = self.kinds.total()
        lines = []
        for place, (count, where, text, message) in _most(self.findings)[:show]:
            headline = message.split("\n")[0][:150]
            lines += [f"{count:6} {place}", f"       {headline}", f"       {text}   # {where}"]
        for place, (count, named, text, message) in _most(self.examples)[:unnamed]:
            headline = f"no {'parameter' if named else 'function'}: {message}".split("\n")[0][:150]
            lines += [f"{count:6} {place}", f"       {headline}", f"       {text}"]
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common())
        own = max(self.kinds["own"], 1)
        unnamed = ", ".join(
            f"{self.unnamed[what] / own:.1%} do not name the {what}"
            for what in ("function", "parameter")
        )
        bad = total - sum(self.kinds[k] for k in ("result", "own", "signature", "caller"))
        lines += [
            f"{total} calls: {kinds}",
            f"errors of the package: {unnamed}",
            f"findings: {bad} calls at {len(self.findings)} places",
        ]
        return lines


def _most(table):
    return sorted(table.items(), key=lambda item: -item[1][0])


def fuzz(seed, numbers, processes=2, progress=False):
    """Generate and run the programs with this seed and these numbers, and return a Report."""
    with tempfile.TemporaryDirectory() as folder:
        return _fuzz(seed, [numbers[i::processes] for i in range(processes)], folder, progress)


def _fuzz(seed, shares, folder, progress):
    report = Report()
    workers = [_Worker(seed, share, folder) for share in shares if len(share)]
    try:
        while workers:
            ready, _, _ = select.select([w.pipe for w in workers], [], [], 1.0)
            for worker in list(workers):
                if worker.pipe in ready:
                    worker.read(report)
                elif time.monotonic() - worker.heard > SILENCE:
                    os.kill(worker.pid, signal.SIGKILL)
                if worker.done:
                    workers.remove(worker)
            if progress:
                print(f"\r{report.kinds.total()} calls", end="", file=sys.stderr, flush=True)
    finally:
        for worker in workers:
            worker.stop()
    return report


class _Worker:
    """Child process that runs programs and sends their outcomes. It is restarted if it dies."""

    def __init__(self, seed, numbers, folder):
        self.seed, self.numbers, self.folder, self.done = seed, numbers, folder, False
        self._start()

    def _start(self):
        sys.stdout.flush()
        sys.stderr.flush()
        self.rest = b""
        self.current = None
        self.heard = time.monotonic()
        self.pipe, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _work(self.seed, self.numbers, self.folder, writer)
        os.close(writer)

    def read(self, report):
        """Add the received outcomes to the report. If the child process has died, restart it."""
        data = os.read(self.pipe, 1 << 16)
        self.heard = time.monotonic()
        if not data:
            self._ended(report)
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "text" in message:
                self.current = message
                continue
            now = self.current
            report.add(self._where(now), now["name"], now["text"], message["outcome"])
            self.numbers, self.current = self.numbers[1:], None

    def _where(self, message):
        return f"--seed {self.seed} --only {message['number']}"

    def _ended(self, report):
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        if self.current is not None:
            now, died = self.current, f"the process died with status {status}"
            outcome = ("died", died, now["name"], True, True)
            report.add(self._where(now), now["name"], now["text"], outcome)
            self.numbers = self.numbers[1:]
        elif len(self.numbers):
            raise RuntimeError(f"call {self.numbers[0]} could not be generated: run it with --only")
        if len(self.numbers):
            self._start()
        else:
            self.done = True

    def stop(self):
        """Kill the process, if there is one."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.pipe)


def _work(seed, numbers, folder, writer):
    """Body of the child process: set limits, run the programs, send their outcomes, and exit."""
    status = 1
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        limit_memory(MEMORY)
        os.chdir(folder)  # for calls that write files
        found = callables(namespace())
        for number in numbers:
            made = program(seed, number, found)
            _send(writer, number=number, name=made.name, text=made.text)
            _send(writer, outcome=judge(made, number))
        status = 0
    finally:
        os._exit(status)


def _send(writer, **message):
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(writer, data) :]
