"""Atomic file writes: a crash, a full disk or Ctrl-C leaves the previous file unchanged."""

import contextlib
import errno
import json
import os
import platform
import re
import stat
import zlib

from .errors import CheckpointError

__all__ = [
    "TEMPORARY_SUFFIX", "atomic_file", "process_is_alive", "read_error", "read_up_to",
    "remove_abandoned", "temporary_path", "write_error", "write_json",
]  # fmt: skip

TEMPORARY_SUFFIX = ".tmp"
_PIECE = 1 << 26  # bytes
_HOST = f"{zlib.crc32(platform.node().encode()):08x}"
_TEMPORARY = re.compile(r"\..*\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.tmp", re.DOTALL)

_REMEDIES = {
    errno.ENOSPC: "free some space on that disk, or choose a folder on another one",
    errno.EDQUOT: "free some space in your quota, or choose a folder on another disk",
    errno.EFBIG: "raise the file size limit (ulimit -f), or choose a folder on another disk",
    errno.EROFS: "that disk is mounted read-only: choose a folder on another one",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.ENOENT: "create the folder first",
    errno.EISDIR: "give the name of a file, not of a folder",
    errno.ENOTDIR: "check the path: one of its folders is a file",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def write_error(path, error):
    """Return the CheckpointError for a failed write of `path`.

    Parameters
    ----------
    path : path
    error : OSError

    Returns
    -------
    CheckpointError
    """
    return CheckpointError(
        f"{os.fspath(path)} could not be written; the previous file is unchanged",
        got=error.strerror or str(error),
        hint=_REMEDIES.get(error.errno, "check the folder and the disk, or choose another folder"),
    )


def read_error(path, error, kind=CheckpointError):
    """Return an error of class `kind` that says that `path` could not be read."""
    return kind(
        f"{os.fspath(path)} could not be read",
        got=error.strerror or str(error),
        hint="check the path" if error.errno == errno.ENOENT else None,
    )


@contextlib.contextmanager
def atomic_file(path):
    """Open a new binary file that replaces `path` when the block ends without an error.

    The block writes to a temporary file in the same folder. At the end of the block, this file is
    flushed to disk and renamed to `path`. At any time, `path` is therefore either the complete old
    file or the complete new file. If the process is killed, the temporary file stays behind, until
    the next atomic write into this folder removes it.

    Parameters
    ----------
    path : str or path

    Yields
    ------
    binary file

    Raises
    ------
    CheckpointError
        If the file cannot be written; the old file is unchanged.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "note.txt")
    ...     with atomic_file(path) as file:
    ...         _ = file.write(b"all of it")
    ...     os.listdir(folder)
    ['note.txt']
    """
    target = os.path.realpath(path)  # replaces the target of a symbolic link, not the link
    folder, name = os.path.split(target)
    temporary = temporary_path(folder, name)
    remove_abandoned(folder)
    try:
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            raise IsADirectoryError(errno.EISDIR, "the path exists and is not a regular file")
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    except OSError as error:
        raise write_error(path, error) from error


def read_up_to(file, count):
    """Read at most `count` bytes of a binary file, in pieces.

    The memory use depends on the actual length of the file. A single read of `count` bytes could
    fail: if the header of the file is damaged, `count` may be many gigabytes.
    """
    parts = []
    while count and (part := file.read(min(count, _PIECE))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def temporary_path(folder, name):
    """Return a path that contains the process id, for a temporary file that will replace `name`."""
    # Only 190 bytes of `name` are used, because most file systems limit a name to 255 bytes.
    prefix = os.fsencode(name)[:190].decode("utf-8", "ignore")
    writer = f"{_HOST}-{os.getpid()}-{os.urandom(4).hex()}"
    return os.path.join(folder, f".{prefix}.{writer}{TEMPORARY_SUFFIX}")


def remove_abandoned(folder):
    """Remove temporary files in `folder` left by processes of this computer that have ended."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            match = name.startswith(".") and _TEMPORARY.fullmatch(name)
            if match and match[1] == _HOST and not process_is_alive(int(match[2])):
                os.unlink(os.path.join(folder, name))


def process_is_alive(pid):
    """Return True if process `pid` exists on this computer, or if that cannot be determined."""
    if pid == os.getpid() or os.name != "posix":
        return True  # on Windows, os.kill would end the process
    try:
        os.kill(pid, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # the process belongs to another user
    return True


def write_json(path, content):
    """Write a dict to a JSON file atomically, with one line for each entry.

    Parameters
    ----------
    path : str or path
    content : dict
        Content that can be written as JSON, without NaN or infinities.

    Raises
    ------
    CheckpointError
        If the file cannot be written; the old file is unchanged.
    ValueError, TypeError
        If the content cannot be written as JSON; the old file is unchanged.
    """
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "replace") + b"\n")  # a lone surrogate becomes "?"


def _sync_folder(folder):
    """Flush a folder, so that a rename survives a power failure. Do nothing on Windows."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
