"""Processes of `mta train --workers N`: start them, pass signals on, and say which one died."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import click

from ..distributed import launch
from ..distributed.launch import rank_environment
from ..training.checkpoint import Checkpoints
from ..training.run_folder import CHECKPOINTS
from . import FAILED, INTERRUPTED
from .console import command

__all__ = ["FOLDER", "mpiexec", "start_workers"]

FOLDER = "MTA_WORKERS"  # environment variable: folder in which the workers leave notes
_NOISE = re.compile(
    r"=+$|=   |YOUR APPLICATION TERMINATED|This typically refers|Please see the FAQ|Abort\("
    r"|\[mpiexec@|\[proxy:|prterun|^-+$"
)
_POLL, _GRACE = 0.1, 1.0  # seconds between checks; seconds from a failure to killing all
_START = 20.0  # maximum seconds from the start of the first worker to that of the last
_PARENT = Path(__file__).with_name("worker_parent.py")
_PR_SET_PDEATHSIG = 1


def start_workers(workers, arguments):
    """Run `mta` with the same arguments in several processes, and return the exit status.

    Parameters
    ----------
    workers : int
    arguments : list of str
        Arguments of `mta`, without `--workers`.

    Returns
    -------
    int
    """
    with tempfile.TemporaryDirectory(prefix="mta-workers-") as folder:
        return _Supervisor(workers, arguments, Path(folder)).run()


class _Supervisor:
    """The process that the user started. It waits for the workers, which end when it ends."""

    def __init__(self, workers, arguments, folder):
        self.workers, self.arguments, self.folder = workers, arguments, folder
        self.stopping = None  # number of the first signal
        self.started = self.failed = None  # when the first worker started, and when one failed

    def run(self):
        self.process = subprocess.Popen(
            [mpiexec(), "-n", str(self.workers), sys.executable, "-I", "-S", str(_PARENT),
             str(self.folder), sys.executable, "-u", "-m", "minitorch_attn", *self.arguments],
            env=rank_environment(**{FOLDER: str(self.folder), "PYTHONFAULTHANDLER": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches this process only, which passes it on
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )  # fmt: skip
        pairs = (self.process.stdout, sys.stdout), (self.process.stderr, sys.stderr)
        readers = [threading.Thread(target=_pass_on, args=pair, daemon=True) for pair in pairs]
        for reader in readers:
            reader.start()
        try:
            with self._signals():
                while self.process.poll() is None:
                    self._watch()
                    time.sleep(_POLL)
            self._watch()
            for reader in readers:
                reader.join(timeout=5)
            return self._status()
        finally:
            self._end_all()

    def _watch(self):
        """Watch for a failed worker. If mpiexec does not end the other workers soon, end them."""
        now, pids = time.monotonic(), self._pids()
        if self.started is None and pids:
            self.started = now
        is_late = self.started and len(pids) < self.workers and now - self.started > _START
        ends = [self._note(f"{worker}.ended") for worker in pids]
        wrong = self._killed() or any(end not in (None, "0") for end in ends)
        if self.failed is None and (wrong or is_late):
            self.failed = now
        if self.failed is not None and now - self.failed > _GRACE:
            self._end_all()

    @contextlib.contextmanager
    def _signals(self):
        """Pass Ctrl-C and SIGTERM on to worker 0, which tells the others."""

        def handle(number, frame):
            if self.stopping is None:
                self.stopping = number
            pid = self._pids().get(0)
            if pid is None:
                self._end_all()
            else:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pids(self):
        """Return {worker: process id} of the workers that have started."""
        found = {}
        for path in self.folder.glob("*.pid"):
            with contextlib.suppress(ValueError, OSError):
                found[int(path.stem)] = int(path.read_text())
        return found

    def _killed(self):
        """Return (worker, signal) of the first worker that was killed, or None."""
        for worker in range(self.workers):
            note = self._note(f"{worker}.killed")
            if note is not None:
                return worker, signal.Signals(int(note)).name
        return None

    def _note(self, name):
        """Return the text of a file that a worker left in the folder, or None."""
        with contextlib.suppress(OSError):
            return (self.folder / name).read_text(encoding="utf-8") or None
        return None

    def _status(self):
        """Return the exit status. If a worker died, print which worker, and how to continue."""
        left = self._note("status")
        if left is not None:
            return int(left)
        if self.stopping is not None:
            click.echo("stopped", err=True)
            return INTERRUPTED if self.stopping == signal.SIGINT else 128 + self.stopping
        ends = [self._note(f"{worker}.ended") for worker in range(self.workers)]
        killed = self._killed()
        if killed is not None:
            worker, name = killed
            click.echo(f"error: worker {worker} of {self.workers} was ended by {name}", err=True)
        elif not any(ends):
            click.echo(
                f"error: the workers did not start; mpiexec exited with {self.process.returncode}",
                err=True,
            )
        path = self._note("run")
        saved = path is not None and Checkpoints(Path(path, CHECKPOINTS)).steps()
        if path is not None and (saved or killed is not None):
            words = self.arguments[: 2 if self.arguments[0] == "train" else 1]
            words += [word for word in self.arguments if word.startswith("--split=")]
            again = [*words, "--out", path, "--workers", self.workers, "--resume"]
            click.echo(f"  try       continue from the checkpoint: {command(*again)}", err=True)
        return next((int(end) for end in ends if end not in (None, "0")), FAILED)

    def _end_all(self):
        """Kill all workers that are still running, after an error or an interruption."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
        for pid in self._pids().values():
            if _is_ours(pid, self.folder):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _is_ours(pid, folder):
    """Return True if the process with this id is still a worker of this run.

    If the worker has ended, the system may have given its id to another process.
    """
    try:
        return f"{FOLDER}={folder}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _pass_on(source, target):
    """Copy the workers' output without the lines that mpiexec adds."""
    for line in source:
        if not _NOISE.match(line):
            target.write(line)
            target.flush()


def mpiexec():
    """Return the path of mpiexec. If there is none, raise an error that says what to install."""
    found = launch.mpiexec()
    if found is None:
        raise click.UsageError(
            "--workers: mpiexec was not found; python -m pip install 'minitorch-attn[mpi]'"
        )
    return found


def _die_with_parent():
    """Ask Linux to kill this process when its parent ends, however it ends."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
