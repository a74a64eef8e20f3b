"""Submission process: start it in a sandbox folder, send it requests, kill it, and clean up."""

import os
import select
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

from .protocol import ProtocolError, read_message, write_message
from .sandbox_folders import populate
from .sandbox_users import user_in
from .time_limit import Clock, children, state, watched

__all__ = ["Worker", "WorkerFailed"]

OUTPUT_BYTES = 200_000  # maximum size of the output to keep
_NOTHING = {"driver": "def run(inputs, settings): return {}", "settings": {}, "wanted": []}


class WorkerFailed(Exception):
    """The submission's process timed out, crashed or gave a malformed answer.

    Attributes
    ----------
    kind : {"timeout", "crashed", "misbehaved"}
    starved : bool
        Whether the wall-clock limit passed while the process waited for a CPU on a busy machine.
    """

    def __init__(self, kind, message, starved=False):
        super().__init__(message)
        self.kind, self.starved = kind, starved


class _Printed(threading.Thread):
    """Reads what a process prints. Keeps only the first bytes, to limit memory."""

    def __init__(self):
        super().__init__(daemon=True)
        self.data, self._moving, self._ended = bytearray(), threading.Lock(), False
        self._begin, self.end = os.pipe()

    def start(self):
        """Close this process's write end of the pipe, and start reading."""
        os.close(self.end)
        super().start()

    def run(self):
        with os.fdopen(self._begin, "rb", buffering=0) as pipe:
            while not self._ended:
                select.select([pipe], [], [])
                with self._moving:
                    part = pipe.read(1 << 16)
                    self.data += part[: OUTPUT_BYTES - len(self.data)]
                    self._ended = not part

    def catch_up(self, seconds):
        """Wait at most `seconds` until everything in the pipe has been read."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self._moving:
                if self._ended or not select.select([self._begin], [], [], 0)[0]:
                    break
            time.sleep(0.001)


class Worker:
    """Process that runs a submission.

    Parameters
    ----------
    sandbox : Sandbox
    package_folder : path
        Folder of the compiled package `minitorch_attn` that the submission completes.
    files : dict of str to bytes
        Contents of the submitted files, by path `minitorch_attn/...`. They replace the package's
        files.

    Attributes
    ----------
    output : str
        Output of the process, truncated to the limit, with paths relative to the sandbox folder.
        Available after `close`.
    used : float
        Time in seconds that the process spent on its answers, as counted by `Clock`.
    """

    def __init__(self, sandbox, package_folder, files=()):
        self.sandbox, self.output, self.process, self._watched = sandbox, "", None, None
        self.folder = sandbox.new_folder()
        self._printed, self.used = _Printed(), 0.0
        to_read, self._writing = os.pipe()
        self._reading, to_write = os.pipe()
        os.set_blocking(self._writing, False)
        try:
            populate(self.folder, sandbox.level, sandbox.user, Path(package_folder), files)
            program = str(sandbox.inside(self.folder, "worker.py"))
            words = [program, str(to_read), str(to_write)]
            self.process = subprocess.Popen(
                sandbox.command(self.folder, words), pass_fds=(to_read, to_write),
                stdin=subprocess.DEVNULL, stdout=self._printed.end, stderr=self._printed.end,
                start_new_session=True,
                cwd="/" if sandbox.level == 3 else self.folder,
                env=sandbox.environment(self.folder),
            )  # fmt: skip
        except OSError as error:
            self.close()
            raise WorkerFailed("crashed", f"the process did not start: {error}") from None
        finally:
            os.close(to_read)
            os.close(to_write)
            self._printed.start()

    def ask(self, header, arrays, seconds, max_bytes):
        """Send a message to the process, and wait for its answer.

        Parameters
        ----------
        header, arrays
            Arguments of `protocol.write_message`.
        seconds : float
            Time limit in seconds, as counted by `Clock`.
        max_bytes : int
            Maximum total size of the arrays in the answer.

        Returns
        -------
        (dict, dict of str to ndarray)
            Header and arrays of the answer.

        Raises
        ------
        WorkerFailed
            If the answer is late, missing or malformed. The worker cannot be used again.
        """
        clock = Clock(seconds, self.process.pid, self._watched)
        try:
            write_message(self._writing, header, arrays, clock)
            answer = read_message(self._reading, max_bytes, clock)
        except TimeoutError:
            raise WorkerFailed("timeout", _late(clock), clock.starved) from None
        except ProtocolError as error:
            raise WorkerFailed("misbehaved", f"malformed answer: {error}") from None
        except OSError:
            answer = None
        finally:
            self.used += clock.counted
        if answer is None:
            raise WorkerFailed("crashed", f"the process ended: {self._status()}")
        return answer

    def start(self):
        """Wait until the process is ready. It has not run any code of the submission yet."""
        self.ask(_NOTHING, {}, self.sandbox.limits.start_seconds, 4096)
        self._watched = watched(self.process.pid)

    def _status(self):
        try:
            code = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "it closed its pipes"
        number = -code if code < 0 else code - 128
        if number in signal.valid_signals():
            return f"signal {signal.Signals(number).name}"
        return f"exit status {code}"

    def close(self):
        """Kill the process and all processes that it started, and keep its output."""
        if self.process is not None:
            self._printed.join(timeout=0.5 if self.process.poll() is not None else 0.01)
            self._printed.catch_up(0.5)  # on a busy machine the thread may not have run yet
        printed = len(self._printed.data)  # excludes later output of `unshare`
        for descriptor in (self._writing, self._reading):
            os.close(descriptor)
        if self.process is not None:
            self._kill()
            self._printed.join(timeout=1)  # a process that survived may hold the pipe
        text = bytes(self._printed.data[:printed]).decode(errors="replace")
        work = self.sandbox.inside(self.folder, "worker.py").parent
        self.output = text.replace(f"{work}{os.sep}", "")  # the folder's name differs in each run
        shutil.rmtree(self.folder, ignore_errors=True)

    def _kill(self):
        self._kill_namespace()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.process.kill()
        self.process.wait()
        if self.sandbox.user:
            _kill_user(self.sandbox.user)

    def _kill_namespace(self):
        """Kill the first process of the sandbox's PID namespace, which ends all processes in it.

        The parent of the first process must not be killed before it, because process 1 of the
        system would then inherit the processes of the namespace. In a container, process 1 might
        never wait for ended processes, so they would still count toward the user's process limit.
        """
        if self._watched is None or self._watched.worker == self.process.pid:
            return
        try:
            for child in children(self.process.pid):
                os.kill(child, signal.SIGKILL)
            self.process.wait(timeout=2)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()


def _late(clock):
    if not clock.starved:
        return f"it took longer than {clock.seconds:g} s"
    return (
        f"no answer after {clock.passed:.0f} s because the machine was busy: "
        f"{clock.counted:.1f} of {clock.seconds:g} s were used"
    )


def _kill_user(user):
    """Kill every process of a user, even if it has left its parent's process group.

    If the grader is process 1 of a container, this also waits for orphaned processes.
    """
    for _ in range(100):
        found = [path for path in Path("/proc").glob("[0-9]*") if user_in(path) == user]
        left = [path for path in found if _end(int(path.name))]
        if not left:
            return
        time.sleep(0.01)


def _end(pid):
    """Kill a process and wait for it. Return whether it may still exist."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # another process waits for it
        return state(pid) not in ("Z", None)
    except (ProcessLookupError, PermissionError):
        return False
    return True
