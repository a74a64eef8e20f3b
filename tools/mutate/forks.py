"""Run jobs in forked processes, so that changes made by one job do not affect the others."""

import os
import pickle
import resource
import selectors
import signal
import sys
import time
import traceback

__all__ = ["DIED", "LATE", "run_all"]

LATE, DIED = "late", "died"
MEMORY = 8 << 30  # bytes of address space that a job may allocate


class Job:
    """Forked process, and the pipe through which it sends its result."""

    def __init__(self, work, argument, seconds):
        self.argument = argument
        self.answer = b""
        sys.stdout.flush()
        sys.stderr.flush()
        self.pipe, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _work(work, argument, seconds, writer)
        os.close(writer)
        # The limit in `_work` is processor time. Wall-clock time may be longer on a busy machine.
        self.deadline = time.monotonic() + 5 * seconds + 30

    def read(self):
        """Read the data that has arrived. Return True at the end of the data."""
        part = os.read(self.pipe, 1 << 16)
        self.answer += part
        return not part

    def stop(self):
        """Kill the process."""
        os.kill(self.pid, signal.SIGKILL)

    def result(self):
        """Return the result of a finished process, LATE after a timeout, or DIED after a crash."""
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status):
            return LATE if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else DIED
        return pickle.loads(self.answer) if self.answer else DIED  # noqa: S301 (our own child)


def _work(work, argument, seconds, writer):
    """Body of the child process: suppress output, set limits, send `work(argument)` and exit."""
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1) if os.environ.get("MUTATE_DEBUG") else (0, 1, 2):
            os.dup2(quiet, stream)
        used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
        limit = used + max(1, int(seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        answer = pickle.dumps(work(argument))
        with os.fdopen(writer, "wb") as stream:
            stream.write(answer)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def run_all(work, arguments, seconds, jobs=1):
    """Call `work` with each argument in a separate process.

    Parameters
    ----------
    work : callable
    arguments : iterable
        The next argument is requested only when a process is free.
    seconds : callable
        `seconds(argument)` returns the processor-time limit for that argument.
    jobs : int
        Maximum number of parallel processes.

    Yields
    ------
    argument, result
        `result` is the return value of `work`, LATE after the time limit, or DIED after a crash.
    """
    waiting, running = iter(arguments), 0
    with selectors.DefaultSelector() as selector:
        while True:
            for argument in waiting if running < jobs else ():
                job = Job(work, argument, seconds(argument))
                selector.register(job.pipe, selectors.EVENT_READ, job)
                running += 1
                if running == jobs:
                    break
            if not running:
                return
            ready = [key.data for key, _ in selector.select(timeout=1.0)]
            for job in [key.data for key in selector.get_map().values()]:
                if time.monotonic() > job.deadline:
                    job.stop()
            for job in ready:
                if job.read():
                    selector.unregister(job.pipe)
                    running -= 1
                    yield job.argument, job.result()
