"""Processes for code that nobody trusts, at three levels.

    3  bubblewrap: own file system, network, process and user namespaces, another user, limits
    2  another user (needs root) in a root folder of its own, limits, own session; no network where
       namespaces allow it
    1  a process of its own with limits: against accidents and casual tricks only

At each level the process gets a folder with the package and the worker program to read, the
interpreter's standard library and NumPy, and two pipes. Levels 3 and 2 show it nothing else of
this machine. At level 1 a submission can read the files of whoever grades, and use the network.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...errors import ArgumentError
from . import closed_root
from .clock import Clock, children, state, watched
from .protocol import ProtocolError, read_message, write_message
from .users import FIRST, user_in, user_of

__all__ = ["Limits", "Sandbox", "Worker", "WorkerFailed"]

OUTPUT_BYTES = 200_000  # of what the process prints
_HERE = Path(__file__).resolve().parent


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

    def start(self, package_folder, files=()):
        """Start a worker.

        Parameters
        ----------
        package_folder : path
            Holds the package `minitorch_attn` that the submission completes, compiled.
        files : dict of str to bytes
            The submission: `minitorch_attn/...` -> what stands in the place of that file.

        Returns
        -------
        Worker
        """
        return Worker(self, Path(package_folder), files)

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
            _furnish(room, self)
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
            locked_in = closed_root.lock_in(_closed_root(), self.user)
            return [*_apart(), *closed_root.GIVE_UP, *limits, *locked_in, str(python), *options]
        python, prefix = _interpreter(self.user)
        apart = _become(self.user) if self.user else []
        if self.level == 3:
            if not prefix.is_relative_to("/usr"):
                python = Path("/python") / python.relative_to(prefix)
            apart += _bubble(room / "work", prefix, _numpy_folders(self.user))
        return [*apart, *limits, str(python), *options]

    def new_room(self):
        """A new folder for one worker."""
        return _new_room(self.user, _closed_root() / "rooms" if self.level == 2 else None)

    def inside(self, room, name):
        """What the file `room/work/NAME` is called within the sandbox."""
        seen = {3: Path("/work"), 2: Path("/rooms") / room.name / "work", 1: room / "work"}
        return seen[self.level] / name

    def environment(self, room):
        """The variables of the process that is started."""
        if self.level == 3:
            return {}  # bubblewrap's own is to be read in /proc/1/environ
        if self.level == 2:
            return {**_environment("/"), "LD_LIBRARY_PATH": closed_root.LIBRARIES}
        return _environment(str(room))


def _bubble(work, prefix, numpy_folders):
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
    for folder in numpy_folders:
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


_SMALL = ("--size", str(16 << 20), "--tmpfs")


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


def _interpreter(user):
    """A Python that the user of the process can start, and the folder it lives in."""
    python, prefix = Path(os.path.realpath(sys.executable)), Path(os.path.realpath(sys.base_prefix))
    if user is None or _readable(python):
        return python, prefix
    copied = _copied_interpreter(python, prefix)
    return copied / "bin" / python.name, copied


def _numpy_folders(user):
    """Folders of what NumPy needs: its package, and the libraries of its wheel."""
    folders = _own_numpy_folders()
    if user is None or all(map(_readable, folders)):
        return folders
    return [_copied(folder) for folder in folders]


def _own_numpy_folders():
    package = Path(np.__file__).resolve().parent
    folders = [package, package.parent / "numpy.libs"]
    return [folder for folder in folders if folder.is_dir()]


def _readable(path):
    """Whether any user may get to a file: its folders are all open to others."""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in [path, *path.parents])


@lru_cache(maxsize=1)
def _shared_room():
    """A folder that any user can read, for copies of what lies in folders that are not open."""
    room = _new_room(user=FIRST)
    room.chmod(0o755)
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    return room


@lru_cache(maxsize=8)
def _copied(folder):
    target = _shared_room() / folder.name
    shutil.copytree(folder, target, copy_function=_link, ignore=_LEAVE_OUT)
    _open_to_all(target)
    return target


@lru_cache(maxsize=1)
def _copied_interpreter(python, prefix):
    """The interpreter and its standard library; hard links where the file system allows them."""
    room = _shared_room() / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (room / "bin").mkdir(parents=True)
    _link(python, room / "bin" / python.name)
    for name in {"lib", sys.platlibdir}:
        if (prefix / name / version).is_dir():
            shutil.copytree(
                prefix / name / version, room / name / version, copy_function=_link,
                ignore=_LEAVE_OUT,
            )  # fmt: skip
    for library in (prefix / "lib").glob("libpython*"):
        _link(library, room / "lib" / library.name)
    _open_to_all(room)
    return room


@lru_cache(maxsize=1)
def _closed_root():
    """The shared folder, completed so that a process can take it for the whole file system."""
    root = _shared_room()
    python, prefix = Path(os.path.realpath(sys.executable)), Path(os.path.realpath(sys.base_prefix))
    folders = [_copied_interpreter(python, prefix), *map(_copied, _own_numpy_folders())]
    closed_root.add_libraries(root, folders, _link)
    (root / "rooms").mkdir()
    _open_to_all(root)
    (root / "rooms").chmod(0o711)  # nobody sees who else is there
    return root


_LEAVE_OUT = shutil.ignore_patterns("site-packages", "test", "tests", "idlelib")


def _link(source, target):
    """Link a file that others may read; copy any other."""
    if os.stat(source).st_mode & 0o004:
        try:
            return os.link(source, target, follow_symlinks=True)
        except OSError:
            pass
    return shutil.copy2(source, target)


def _open_to_all(room):
    """Let everybody read a tree of folders, but write nothing."""
    for folder, _, files in os.walk(room):
        os.chmod(folder, 0o755)
        for name in files:
            path = os.path.join(folder, name)
            if os.stat(path).st_nlink == 1:  # no link to somebody else's file
                os.chmod(path, 0o755 if os.access(path, os.X_OK) else 0o644)


class Worker:
    """The process of a submission.

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
            _furnish(self.room, sandbox, package_folder, files)
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


_NOTHING = {"driver": "def run(inputs, settings): return {}", "settings": {}, "wanted": []}


def _late(clock):
    if not clock.starved:
        return f"it took longer than {clock.seconds:g} s"
    return (
        f"no answer after {clock.passed:.0f} s on a machine that did something else: "
        f"{clock.counted:.1f} of {clock.seconds:g} s were used"
    )


def _furnish(room, sandbox, package_folder=None, files=()):
    """Put what a process may read into `room/work`: its program, the package, NumPy."""
    site = room / "work" / "site"
    site.mkdir(parents=True)
    for name in ("worker.py", "protocol.py", "steps.py"):
        shutil.copyfile(_HERE / name, room / "work" / name)
    for folder in _numpy_folders(sandbox.user):
        if sandbox.level == 3:
            (site / folder.name).mkdir()  # where it is mounted
        elif sandbox.level == 2:
            (site / folder.name).symlink_to(Path("/") / folder.name)
        else:
            (site / folder.name).symlink_to(folder)
    if package_folder is not None:
        package = room / "work" / "minitorch_attn"
        shutil.copytree(package_folder / "minitorch_attn", package, copy_function=_link)
        for name, data in dict(files).items():
            _replace(room / "work" / name, data)
    _give(room, sandbox.user)


def _replace(path, data):
    """Write a file in the place of a link to another, and drop what was compiled from that."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def _new_room(user, place=None):
    """A new temporary folder, by default in a place that the user can get to."""
    if place is not None:
        return Path(tempfile.mkdtemp(dir=place))
    places = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
    reachable = (place for place in places if user is None or _enterable(Path(place)))
    return Path(tempfile.mkdtemp(prefix="minitorch-attn-", dir=next(reachable, None)))


def _enterable(folder):
    """Whether any user may get to a folder."""
    return all(place.stat().st_mode & 0o001 for place in [folder, *folder.parents])


def _give(room, user):
    """Let a user, and nobody else, read a tree of folders; its owner stays who it is."""
    if user is None:
        return
    for folder, _, files in os.walk(room):
        os.chown(folder, -1, user)
        os.chmod(folder, 0o750)
        for name in files:
            path = os.path.join(folder, name)
            if os.lstat(path).st_nlink == 1 and not os.path.islink(path):
                os.chown(path, -1, user)
                os.chmod(path, 0o640)


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
