"""Run jobs in forked processes: each starts with all modules imported and leaves no trace."""

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
MEMORY = 8 << 30  # bytes of address space a job may add


class Job:
    """A forked process at work, and the pipe that it answers through."""

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
        # Others may be using the processor: the limit in `_work` counts only our own time.
        self.deadline = time.monotonic() + 5 * seconds + 30

    def read(self):
        """Take in what has arrived; True at the end."""
        part = os.read(self.pipe, 1 << 16)
        self.answer += part
        return not part

    def stop(self):
        """Kill the process."""
        os.kill(self.pid, signal.SIGKILL)

    def result(self):
        """The answer of a finished process, LATE or DIED."""
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status):
            return LATE if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else DIED
        return pickle.loads(self.answer) if self.answer else DIED  # noqa: S301 (our own child)


def _work(work, argument, seconds, writer):
    """In the child: be quiet, obey the limits, answer, leave without any clean-up."""
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
    """Call `work` with each argument, each time in a process of its own.

    Parameters
    ----------
    work : callable
    arguments : iterable
        Asked for the next one only when there is room for it.
    seconds : callable
        The seconds of processor time that the job of an argument may take.
    jobs : int
        How many processes at once.

    Yields
    ------
    (argument, what `work` returned), or LATE or DIED in its place
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
