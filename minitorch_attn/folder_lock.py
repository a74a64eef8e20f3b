"""Lock on a folder, so that two processes do not write to the same run or grading folder."""

import os
import platform
import sys
from datetime import datetime
from pathlib import Path

from .errors import CheckpointError, DataError
from .files import write_json
from .schema import read_json

__all__ = ["LOCK_FILES", "FolderLock", "holder_of"]

_LOCK, _HOLDER = ".lock", ".lock.json"
LOCK_FILES = (_LOCK, _HOLDER)  # the files may exist although the folder is not locked


class FolderLock:
    """Lock on a folder, which only one process at a time can hold.

    The process holds the lock until it releases the lock or ends. Even if the process is killed,
    the operating system releases the lock. On file systems that do not support locks, every call
    succeeds.

    Parameters
    ----------
    folder : path
    what : str
        Name for the contents of the folder in error messages, such as "run".

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with FolderLock(folder, "run"):
    ...         holder_of(folder)["pid"] == os.getpid()
    ...     holder_of(folder)
    True
    """

    def __init__(self, folder, what):
        self.folder, self.what = Path(folder), what
        self._lock = _file_lock(self.folder)

    def acquire(self):
        """Acquire the lock, and record which process holds it.

        Raises
        ------
        CheckpointError
            If another process holds the lock.
        """
        if not _acquired(self._lock, seconds=1):  # holder_of may hold the lock for a moment
            raise CheckpointError(
                f"{self.folder}: another process uses this {self.what}",
                got=_described(_read(self.folder)),
                hint="wait until it has finished, or stop it first",
            )
        started = datetime.now().astimezone().isoformat(timespec="seconds")
        entry = {"pid": os.getpid(), "host": platform.node(), "since": started}
        write_json(self.folder / _HOLDER, {**entry, "command": " ".join(sys.argv)})
        return self

    def release(self):
        """Release the lock; a second call does nothing."""
        if self._lock.is_locked:
            (self.folder / _HOLDER).unlink(missing_ok=True)
            self._lock.release()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *exc_info):
        self.release()


def holder_of(folder):
    """Return a description of the process that holds the lock of a folder; None if unlocked.

    Parameters
    ----------
    folder : path

    Returns
    -------
    dict or None
        Description with the keys "pid", "host", "since" and "command". Empty if the folder is
        locked but the description could not be read. None also if the lock file cannot be opened.
    """
    folder = Path(folder)
    if not (folder / _LOCK).exists():
        return None
    lock = _file_lock(folder)
    try:
        if _acquired(lock):
            lock.release()
            return None
    except OSError:
        return None  # the folder belongs to another user
    return _read(folder)


def _file_lock(folder):
    from filelock import FileLock

    return FileLock(folder / _LOCK, timeout=0)


def _acquired(lock, seconds=0):
    """Try for `seconds` to acquire a lock. Return False if another process holds it."""
    from filelock import Timeout

    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        return False
    except NotImplementedError:  # the file system does not support locks
        pass
    return True


def _read(folder):
    """Read which process holds the lock of a folder."""
    try:
        return read_json(folder / _HOLDER)
    except DataError:
        return {}


def _described(entry):
    if not entry:
        return "a locked folder"
    return "process {pid} on {host} since {since}: {command}".format_map(
        {key: str(entry.get(key, "?")) for key in ("pid", "host", "since", "command")}
    )
