"""Parent process of one worker: waits for it, and records the signal that killed it.

    python -I -S worker_parent.py FOLDER COMMAND...

mpiexec starts this file in place of a worker. When a worker is killed, mpiexec kills the others at
once, and cannot tell which died first. The operating system reports the signal to this process.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")


def main(folder, *command):
    """Run the command, and exit with its status, or with 128 plus the signal that killed it."""
    _die_with_parent()
    pid = os.fork()
    if pid == 0:
        _die_with_parent()
        os.execv(command[0], command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the worker reacts to Ctrl-C
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    path = os.path.join(folder, f"{rank}.killed")
    with open(path + ".part", "w") as file:
        file.write(str(number))
    os.rename(path + ".part", path)
    os._exit(128 + number)


def _die_with_parent():
    """Ask Linux to kill this process when its parent ends, however it ends."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):  # another system
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
