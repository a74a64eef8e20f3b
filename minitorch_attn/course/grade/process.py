"""The process of a submission: started in a room of its own, asked, and ended with all of it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from .clock import Clock, children, state, watched
from .protocol import ProtocolError, read_message, write_message
from .rooms import furnish
from .users import user_in

__all__ = ["Worker", "WorkerFailed"]

OUTPUT_BYTES = 200_000  # of what the process prints
_NOTHING = {"driver": "def run(inputs, settings): return {}", "settings": {}, "wanted": []}


class WorkerFailed(Exception):
    """The process gave no answer.

    Attributes
    ----------
    kind : {"timeout", "crashed", "misbehaved"}
    starved : bool
        Whether the machine let it wait for a processor until the wall clock ran out.
    """

    def __init__(self, kind, message, starved=False):
        super().__init__(message)
        self.kind, self.starved = kind, starved


class Worker:
    """The process of a submission.

    Parameters
    ----------
    sandbox : Sandbox
    package_folder : path
        Holds the package `minitorch_attn` that the submission completes, compiled.
    files : dict of str to bytes
        The submission: `minitorch_attn/...` -> what stands in the place of that file.

    Attributes
    ----------
    output : str
        What it has printed, cut to the limit; read it after `close`.
    """

    def __init__(self, sandbox, package_folder, files=()):
        self.sandbox, self.output, self.process, self._watched = sandbox, "", None, None
        self.room = sandbox.new_room()
        self._printed = tempfile.TemporaryFile()
        to_read, self._writing = os.pipe()
        self._reading, to_write = os.pipe()
        os.set_blocking(self._writing, False)
        try:
            furnish(self.room, sandbox.level, sandbox.user, Path(package_folder), files)
            program = str(sandbox.inside(self.room, "worker.py"))
            words = [program, str(to_read), str(to_write)]
            self.process = subprocess.Popen(
                sandbox.command(self.room, words), pass_fds=(to_read, to_write),
                stdin=subprocess.DEVNULL, stdout=self._printed, stderr=self._printed,
                start_new_session=True,
                cwd="/" if sandbox.level == 3 else self.room,
                env=sandbox.environment(self.room),
            )  # fmt: skip
        except OSError as error:
            self.close()
            raise WorkerFailed("crashed", f"the process did not start: {error}") from None
        finally:
            os.close(to_read)
            os.close(to_write)

    def ask(self, header, arrays, seconds, max_bytes):
        """Send a message and wait for the answer.

        Parameters
        ----------
        header, arrays
            As of `protocol.write_message`.
        seconds : float
            As `Clock` counts them.
        max_bytes : int
            The most that the arrays of the answer may take.

        Returns
        -------
        (dict, dict of str to ndarray)

        Raises
        ------
        WorkerFailed
            If there is no answer in time, or what arrives is none. The worker is of no more use.
        """
        clock = Clock(seconds, self.process.pid, self._watched)
        try:
            write_message(self._writing, header, arrays, clock)
            answer = read_message(self._reading, max_bytes, clock)
        except TimeoutError:
            raise WorkerFailed("timeout", _late(clock), clock.starved) from None
        except ProtocolError as error:
            raise WorkerFailed("misbehaved", f"the answer is none: {error}") from None
        except OSError:
            answer = None
        if answer is None:
            raise WorkerFailed("crashed", f"the process ended: {self._status()}")
        return answer

    def start(self):
        """Wait until it answers; until then nothing of the submission runs."""
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
        """End the process and whatever it has started, and keep what it printed until then."""
        printed = os.fstat(self._printed.fileno()).st_size  # `unshare` reports how it is ended
        for descriptor in (self._writing, self._reading):
            os.close(descriptor)
        if self.process is not None:
            self._kill()
        self._printed.seek(0)
        self.output = self._printed.read(min(printed, OUTPUT_BYTES)).decode(errors="replace")
        self._printed.close()
        shutil.rmtree(self.room, ignore_errors=True)

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
        """End the first process of a namespace, so all in it; what waits for that ends by itself.

        In another order it would be left to process 1, which in a container may wait for nobody:
        the dead count as processes of their user, too.
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
        f"no answer after {clock.passed:.0f} s on a machine that did something else: "
        f"{clock.counted:.1f} of {clock.seconds:g} s were used"
    )


def _kill_user(user):
    """End every process of a user: a child may have left the group of its parent.

    What was left to this process, since it is the first of a container, is waited for.
    """
    for _ in range(100):
        found = [path for path in Path("/proc").glob("[0-9]*") if user_in(path) == user]
        left = [path for path in found if _end(int(path.name))]
        if not left:
            return
        time.sleep(0.01)


def _end(pid):
    """End a process and wait for it; whether there is more to do."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else waits for it
        return state(pid) not in ("Z", None)
    except (ProcessLookupError, PermissionError):
        return False
    return True
