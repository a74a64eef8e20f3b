"""Processes for code that nobody trusts, at three levels.

    3  bubblewrap: own file system, network, process and user namespaces, another user, limits
    2  another user (needs root) in a root folder of its own, limits, own session; no network where
       namespaces allow it
    1  a process of its own with limits: against accidents and casual tricks only

At each level the process gets a folder with the package and the worker program to read, the
interpreter's standard library and NumPy, and two pipes. Levels 3 and 2 show it nothing else of
this machine. At level 1 a submission can read the files of whoever grades, and use the network.
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
from .rooms import furnish, interpreter, new_room, numpy_folders, shared_root
from .users import FIRST, user_of

__all__ = ["Limits", "Sandbox"]

_SMALL = ("--size", str(16 << 20), "--tmpfs")


@dataclass(frozen=True)
class Limits:
    """What a process may use.

    Attributes
    ----------
    memory_bytes, file_bytes : int
        Of address space; of any one file it writes, its output included.
    processes, open_files : int
    start_seconds, import_seconds : float
        Until it answers for the first time; to import what was handed in.
    processor_seconds : int
        Of processor time of any one process, in all.
    """

    memory_bytes: int = 2 << 30
    file_bytes: int = 1 << 20
    processes: int = 32
    open_files: int = 64
    start_seconds: float = 20.0
    import_seconds: float = 10.0
    processor_seconds: int = 120

    def command(self):
        """The program that sets them and becomes the rest of a command line."""
        # Where memory runs out, it is not the grader that ends.
        first = [shutil.which("choom"), "-n", "1000", "--"] if shutil.which("choom") else []
        return [
            *first, shutil.which("prlimit") or "prlimit", f"--as={self.memory_bytes}",
            f"--fsize={self.file_bytes}", f"--nproc={self.processes}",
            f"--nofile={self.open_files}", f"--cpu={self.processor_seconds}", "--core=0", "--",
        ]  # fmt: skip


@dataclass
class Sandbox:
    """Makes processes at one level.

    Parameters
    ----------
    level : {1, 2, 3}
    limits : Limits
    place : int
        Which of several sandboxes at work at once this is; each has a user of its own, and so has
        each of another grader on the same machine.
    """

    level: int
    limits: Limits = field(default_factory=Limits)
    place: int = 0

    @staticmethod
    def best():
        """The highest level that works here."""
        return Sandbox.probe()[0]

    @staticmethod
    def probe():
        """Try the levels.

        Returns
        -------
        level : int
            The highest that works here.
        why : str or None
            Why it is not 3.
        """
        why = Sandbox(3).works()
        if why is None:
            return 3, None
        return (2 if Sandbox(2).works() is None else 1), why

    def __post_init__(self):
        if self.level not in (1, 2, 3):
            raise ArgumentError("Sandbox(level=): there is no such level.", got=f"{self.level}")

    @property
    def user(self):
        """The user the process becomes; None to stay. Nothing that is handed in runs as root."""
        return user_of(self.place) if os.geteuid() == 0 else None

    def works(self):
        """Whether a process starts at this level here.

        Returns
        -------
        str or None
            Why not.
        """
        if self.level == 2 and self.user is None:
            return "becoming another user needs root"
        if self.level == 3 and not shutil.which("bwrap"):
            return "bubblewrap is not installed"
        room = None
        try:
            room = self.new_room()
            furnish(room, self.level, self.user)
            command = self.command(room, ["-c", "import sys; print(sys.version_info.major)"])
            done = subprocess.run(
                command, env=self.environment(room), stdin=subprocess.DEVNULL, capture_output=True,
                timeout=30, check=False, cwd="/",
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        finally:
            if room is not None:
                shutil.rmtree(room, ignore_errors=True)
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return None if done.stdout == b"3\n" else (said or [f"status {done.returncode}"])[-1]

    def command(self, room, words):
        """The command line of a Python with these arguments that sees `room/work`."""
        limits, options = self.limits.command(), ["-I", "-S", "-B", *words]
        if self.level == 2:
            python = Path("/python/bin") / Path(os.path.realpath(sys.executable)).name
            locked_in = lock_in(shared_root(), self.user)
            return [*_apart(), *GIVE_UP, *limits, *locked_in, str(python), *options]
        python, prefix = interpreter(self.user)
        apart = _become(self.user) if self.user else []
        if self.level == 3:
            if not prefix.is_relative_to("/usr"):
                python = Path("/python") / python.relative_to(prefix)
            apart += _bubble(room / "work", prefix, numpy_folders(self.user))
        return [*apart, *limits, str(python), *options]

    def new_room(self):
        """A new folder for one worker."""
        return new_room(self.user, shared_root() / "rooms" if self.level == 2 else None)

    def inside(self, room, name):
        """What the file `room/work/NAME` is called within the sandbox."""
        seen = {3: Path("/work"), 2: Path("/rooms") / room.name / "work", 1: room / "work"}
        return seen[self.level] / name

    def environment(self, room):
        """The variables of the process that is started."""
        if self.level == 3:
            return {}  # bubblewrap's own is to be read in /proc/1/environ
        if self.level == 2:
            return {**_environment("/"), "LD_LIBRARY_PATH": LIBRARIES}
        return _environment(str(room))


def _bubble(work, prefix, mounted):
    """bubblewrap's part of the command line: what the process sees, and nothing more."""
    words = [
        shutil.which("bwrap"), "--unshare-all", *_alone(), "--die-with-parent", "--new-session",
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
    # What is installed for everybody may be anything, a solution for instance.
    for root, inside in roots.items():
        for place in root.glob("lib/python*/*-packages"):
            words += ["--tmpfs", f"{inside}/{place.relative_to(root)}"]
    words += [*_SMALL, "/tmp", "--chdir", "/tmp"]
    words += ["--ro-bind", str(work), "/work"]
    for folder in mounted:
        words += ["--ro-bind", str(folder), f"/work/site/{folder.name}"]
    for name, value in _environment("/tmp").items():
        words += ["--setenv", name, value]
    # Else the root is a file system in memory, and as large as half of that.
    return [*words, "--remount-ro", "/", "--"]


@lru_cache(maxsize=1)
def _alone():
    """Options that allow no further namespace within, where bubblewrap knows them.

    In one of its own a process could mount file systems, which take memory without a limit.
    """
    words = ("--unshare-user", "--disable-userns")
    return words if _starts([shutil.which("bwrap"), *words, "--ro-bind", "/", "/"]) else ()


def _become(user):
    """The program that gives up root for good."""
    return [
        shutil.which("setpriv") or "setpriv", f"--reuid={user}", f"--regid={user}",
        "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--",
    ]  # fmt: skip


@lru_cache(maxsize=1)
def _apart():
    """The program that takes the network and the other processes away, where that is allowed."""
    words = (shutil.which("unshare") or "unshare", "--net", "--ipc", "--pid", "--fork",
             "--kill-child", "--")  # fmt: skip
    return words if _starts(words) else ()


def _starts(words):
    """Whether a program starts another one with these options here."""
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
