"""Sandbox: processes for untrusted code, at three levels.

    3  bubblewrap: separate namespaces for files, network, processes and users; a separate user;
       limits
    2  a separate user with its own root folder and session, and limits; requires root; no network
       access where namespaces are allowed
    1  a separate process with limits: protects only against accidents and casual tricks

At each level the process can use two pipes, and can read the standard library, NumPy, and a folder
with the package and the worker program (`worker.py`, which `submission_process.py` starts). At
levels 3 and 2, the process cannot access anything else on this machine. At level 1, a submission
can also read the grading user's files and use the network.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ...errors import ArgumentError
from .closed_root import GIVE_UP, LIBRARIES, lock_in
from .sandbox_folders import interpreter, new_folder, numpy_folders, populate, shared_root
from .sandbox_users import FIRST, user_of

__all__ = ["Limits", "Sandbox"]

_SMALL = ("--size", str(16 << 20), "--tmpfs")


@dataclass(frozen=True)
class Limits:
    """Resource limits for a process.

    Attributes
    ----------
    memory_bytes : int
        Maximum size of the address space.
    file_bytes : int
        Maximum size of each file that the process writes, including its output.
    processes, open_files : int
        Maximum numbers of processes and of open files.
    start_seconds : float
        Time limit for the process to start and send its first answer.
    import_seconds : float
        Time limit for importing the submission.
    processor_seconds : int
        Limit for the total processor time of each process.
    total_seconds : float
        Time limit for all checks of a submission together.
    """

    memory_bytes: int = 2 << 30
    file_bytes: int = 1 << 20
    processes: int = 32
    open_files: int = 64
    start_seconds: float = 20.0
    import_seconds: float = 10.0
    processor_seconds: int = 120
    total_seconds: float = 120.0

    def command(self):
        """Return a command prefix that sets the limits and runs the rest of the command line."""
        # If memory runs out, the system kills this process, not the grader.
        first = [shutil.which("choom"), "-n", "1000", "--"] if shutil.which("choom") else []
        return [
            *first, shutil.which("prlimit") or "prlimit", f"--as={self.memory_bytes}",
            f"--fsize={self.file_bytes}", f"--nproc={self.processes}",
            f"--nofile={self.open_files}", f"--cpu={self.processor_seconds}", "--core=0", "--",
        ]  # fmt: skip


@dataclass
class Sandbox:
    """Builder of command lines for processes at one sandbox level.

    Parameters
    ----------
    level : {1, 2, 3}
        Protection level, where 3 is the safest.
    limits : Limits
    place : int
        Number that distinguishes the sandboxes in use at the same time. If the grader runs as root,
        the processes of each sandbox run as a separate user, even if several graders run on the
        same machine.
    """

    level: int
    limits: Limits = field(default_factory=Limits)
    place: int = 0

    @staticmethod
    def best():
        """Return the highest sandbox level that works on this machine."""
        return Sandbox.probe()[0]

    @staticmethod
    def probe():
        """Find the highest sandbox level that works on this machine.

        Returns
        -------
        level : int
            The highest level that works on this machine.
        why : str or None
            Reason why level 3 does not work.
        """
        why = Sandbox(3).works()
        if why is None:
            return 3, None
        return (2 if Sandbox(2).works() is None else 1), why

    def __post_init__(self):
        if self.level not in (1, 2, 3):
            raise ArgumentError("Sandbox: level must be 1, 2 or 3", got=f"{self.level}")

    @property
    def user(self):
        """User id of the process, or None for the current user. Submissions never run as root."""
        return user_of(self.place) if os.geteuid() == 0 else None

    def works(self):
        """Test whether this machine can start a process at the sandbox's isolation level.

        Returns
        -------
        str or None
            Reason for the failure. None if it works.
        """
        if self.level == 2 and self.user is None:
            return "level 2 requires root, in order to switch to another user"
        if self.level == 3 and not shutil.which("bwrap"):
            return "bubblewrap is not installed"
        folder = None
        try:
            folder = self.new_folder()
            populate(folder, self.level, self.user)
            command = self.command(folder, ["-c", "import sys; print(sys.version_info.major)"])
            done = subprocess.run(
                command, env=self.environment(folder), stdin=subprocess.DEVNULL,
                capture_output=True, timeout=30, check=False, cwd="/",
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return None if done.stdout == b"3\n" else (said or [f"status {done.returncode}"])[-1]

    def command(self, folder, words):
        """Return the command line of a Python process that can read `folder/work`."""
        limits, options = self.limits.command(), ["-I", "-S", "-B", *words]
        if self.level == 2:
            python = Path("/python/bin") / Path(os.path.realpath(sys.executable)).name
            locked_in = lock_in(shared_root(), self.user)
            return [*_isolate(), *GIVE_UP, *limits, *locked_in, str(python), *options]
        python, prefix = interpreter(self.user)
        start = _become(self.user) if self.user else []
        if self.level == 3:
            if not prefix.is_relative_to("/usr"):
                python = Path("/python") / python.relative_to(prefix)
            start += _bubble(folder / "work", prefix, numpy_folders(self.user))
        return [*start, *limits, str(python), *options]

    def new_folder(self):
        """Make the sandbox folder of one worker."""
        return new_folder(self.user, shared_root() / "sandboxes" if self.level == 2 else None)

    def inside(self, folder, name):
        """Return the path of the file `folder/work/NAME` inside the sandbox."""
        seen = {3: Path("/work"), 2: Path("/sandboxes") / folder.name / "work", 1: folder / "work"}
        return seen[self.level] / name

    def environment(self, folder):
        """Return the environment variables of the process."""
        if self.level == 3:
            return {}  # a submission can read bubblewrap's own variables in /proc/1/environ
        if self.level == 2:
            return {**_environment("/"), "LD_LIBRARY_PATH": LIBRARIES}
        return _environment(str(folder))


def _bubble(work, prefix, mounted):
    """Return the bubblewrap command, with options that mount the folders of the sandbox."""
    words = [
        shutil.which("bwrap"), "--unshare-all", *_no_userns(), "--die-with-parent", "--new-session",
        "--cap-drop", "ALL", "--uid", str(FIRST), "--gid", str(FIRST),
        "--proc", "/proc", "--dev", "/dev",
        *_SMALL, "/dev/shm", "--remount-ro", "/dev",
    ]  # fmt: skip
    for folder in ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"):
        if os.path.islink(folder):
            words += ["--symlink", os.readlink(folder), folder]
        elif os.path.exists(folder):
            words += ["--ro-bind", folder, folder]
    roots = {Path("/usr"): "/usr", Path("/usr/local"): "/usr/local"}
    if not prefix.is_relative_to("/usr"):
        words += ["--ro-bind", str(prefix), "/python", "--setenv", "LD_LIBRARY_PATH", "/python/lib"]
        roots[prefix] = "/python"
    # Installed packages could contain anything, even a solution.
    for root, inside in roots.items():
        for place in root.glob("lib/python*/*-packages"):
            empty = f"{inside}/{place.relative_to(root)}"
            words += ["--size", "4096", "--tmpfs", empty, "--remount-ro", empty]
    words += [*_SMALL, "/tmp", "--chdir", "/tmp"]
    words += ["--ro-bind", str(work), "/work"]
    for folder in mounted:
        words += ["--ro-bind", str(folder), f"/work/site/{folder.name}"]
    for name, value in _environment("/tmp").items():
        words += ["--setenv", name, value]
    # Otherwise the root is a writable file system in memory that can use half of the memory.
    return [*words, "--remount-ro", "/", "--"]


@lru_cache(maxsize=1)
def _no_userns():
    """Return options that forbid nested user namespaces, if bubblewrap supports them.

    In a nested namespace a process could mount file systems that use memory without a limit.
    """
    words = ("--unshare-user", "--disable-userns")
    return words if _starts([shutil.which("bwrap"), *words, "--ro-bind", "/", "/"]) else ()


def _become(user):
    """Return a command prefix that permanently drops root privileges."""
    return [
        shutil.which("setpriv") or "setpriv", f"--reuid={user}", f"--regid={user}",
        "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--",
    ]  # fmt: skip


@lru_cache(maxsize=1)
def _isolate():
    """Return a command prefix for separate network, IPC and PID namespaces, if permitted."""
    words = (shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--",
             shutil.which("unshare") or "unshare", "--net", "--ipc", "--pid", "--fork",
             "--kill-child", "--")  # fmt: skip
    return words if _starts(words) else ()


def _starts(words):
    """Return whether a program starts on this machine with this command prefix."""
    try:
        done = subprocess.run([*words, "true"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _environment(home):
    return {
        "HOME": home, "TMPDIR": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }  # fmt: skip
