"""Users without a name, one for each place of each grader that runs as root.

A limit on processes counts all that a user has, and cleaning up ends all that a user has: two
workers of one user would disturb each other. A user is taken by a lock on a file that only root
gets to; the system frees it when this process ends, however it ends. The search begins at a number
drawn by chance, so that graders that do not see each other's locks, in two containers for instance,
hardly ever meet. A user who has a name or a process is somebody else's.
"""

import os
import stat
import tempfile
import threading
from pathlib import Path
from random import SystemRandom

from ...errors import DataError

__all__ = ["FIRST", "owner", "user_in", "user_of"]

FIRST, COUNT = 61184, 4096  # systemd lends them to services, in the same way
_PLACES = ("/run/lock", "/run", "/var/lock")
_taken, _lock = {}, threading.Lock()


def user_of(place):
    """The user of one place of this process; always the same.

    Parameters
    ----------
    place : int

    Returns
    -------
    int

    Raises
    ------
    DataError
        If there is none left.
    """
    with _lock:
        if place not in _taken:
            _taken[place] = _take()
        return _taken[place][0]


def _take():
    folder, start = _folder(), SystemRandom().randrange(COUNT)
    for step in range(COUNT):
        user = FIRST + (start + step) % COUNT
        if _known(user) or (descriptor := _locked(folder / str(user))) is None:
            continue
        return user, descriptor
    raise DataError("no user is left for a worker.", got=f"{COUNT} locks in {folder}")


def _known(user):
    """Whether a user has a name or a process."""
    import pwd  # Unix only

    try:
        pwd.getpwuid(user)
    except KeyError:
        return any(owner(path) == user for path in Path("/proc").glob("[0-9]*"))
    return True


def owner(path):
    """Whose a process is, by its folder in /proc; None if it has ended.

    One that has ended stays there until its parent takes note, where that never does for good.
    """
    try:
        ended = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
        return None if ended else path.stat().st_uid
    except (OSError, IndexError):
        return None


def user_in(path):
    """Whose a process is, dead or alive: the dead count, too, until somebody waits for them.

    Parameters
    ----------
    path : Path
        Its folder in /proc.

    Returns
    -------
    int or None
        None if it is gone.
    """
    try:
        text = (path / "status").read_text("ascii", "replace")
    except OSError:
        return None
    return next((int(line.split()[1]) for line in text.splitlines() if line[:4] == "Uid:"), None)


def _locked(path):
    """A descriptor that holds the lock of a file; None if somebody else does."""
    import fcntl  # Unix only

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _folder():
    """A folder that belongs to root and that nobody else can enter."""
    for place in (*_PLACES, tempfile.gettempdir()):
        folder = Path(place) / "minitorch-attn-users"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o077:
            return folder
    raise DataError("no folder for the locks of the workers' users.", got=", ".join(_PLACES))
