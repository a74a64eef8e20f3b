"""Submissions as they arrive: folders and archives of unknown origin.

Nothing is unpacked. The files that an assignment asks for are looked up by name and read into
memory, regular files only and never more than the limit; whatever else a submission holds, links,
devices, paths that lead elsewhere, a million empty members, is passed over.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath

__all__ = ["Submission", "name_of", "read_submission", "submissions_in"]

FILE_BYTES = 1 << 20  # a source file is a hundredth of it
ARCHIVE_BYTES = 1 << 26  # of an archive, and of a tar archive without its compression
MEMBERS = 10_000
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


@dataclass
class Submission:
    """What one student has handed in.

    Attributes
    ----------
    name : str
        Of the folder or archive, without its ending.
    files : dict of str to bytes
        The files that were asked for and found.
    problems : list of str
        What could not be read, for the student.
    folder : str
        Which folder or archive it was.
    """

    name: str
    files: dict = field(default_factory=dict)
    problems: list = field(default_factory=list)
    folder: str = ""

    @property
    def digest(self):
        """Changes with every byte that is graded."""
        known = sha256()
        for name, data in sorted(self.files.items()):
            known.update(f"{name}\0{len(data)}\0".encode())
            known.update(data)
        return known.hexdigest()


def submissions_in(folder):
    """The submissions of a class: each folder and each archive in a folder, by name.

    Parameters
    ----------
    folder : path

    Returns
    -------
    list of Path
    """
    found = []
    for path in sorted(Path(folder).iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        # A pipe or a device has no end, and a name like any other.
        if path.is_dir() or (path.is_file() and path.name.lower().endswith((*_ARCHIVES, ".py"))):
            found.append(path)
    return found


def read_submission(path, wanted):
    """Read the files an assignment asks for; never raises for what a submission holds.

    Parameters
    ----------
    path : path
        A folder, an archive, or a single file where only one is asked for.
    wanted : list of str
        Such as `minitorch_attn/ops/softmax.py`. A file is found under this path, below any folder,
        or by its last part alone where only one file has that.

    Returns
    -------
    Submission
    """
    path = Path(path)
    submission = Submission(name_of(path), folder=_shown(path.name))
    try:
        with _opened(path) as source:
            members = source.members()
            if path.suffix == ".py" and path.is_file() and len(wanted) == 1:
                members = [wanted[0]]  # one file is asked for, so its name may be the student's
                source.names = {wanted[0]: path.name}
            for want in wanted:
                _take(submission, source, members, want)
    except Exception as error:  # a broken archive may bring its reader to raise anything
        submission.problems.append(f"cannot be read: {type(error).__name__}: {error}"[:300])
    return submission


def name_of(path):
    """Whose a folder or archive is: what it is called, without its ending.

    Parameters
    ----------
    path : Path

    Returns
    -------
    str
    """
    ends = [end for end in _ARCHIVES if path.name.lower().endswith(end)]
    name = path.name[: -len(max(ends, key=len))] if ends and path.is_file() else path.name
    return _shown(name)


def _shown(name):
    """A name without halves of characters."""
    return name.encode(errors="replace").decode()


def _take(submission, source, members, want):
    matches = _matching(members, want)
    if not matches:
        submission.problems.append(f"{want} is missing")
    elif len(matches) > 1:
        listed = ", ".join(sorted(matches)[:5])
        submission.problems.append(f"{want} is there more than once: {listed}")
    else:
        data = source.read(matches[0], FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            submission.problems.append(f"{want} is larger than {FILE_BYTES:,} bytes")
        else:
            submission.files[want] = data


def _matching(members, want):
    """Members with the longest matching end of the path that is wanted."""
    parts = PurePosixPath(want).parts
    for count in range(len(parts), 0, -1):
        end = parts[-count:]
        found = [name for name in members if PurePosixPath(name).parts[-count:] == end]
        if found:
            return found
    return []


def _opened(path):
    if path.is_dir():
        return _Folder(path)
    if path.name.lower().endswith(".zip"):
        return _Zip(path)
    if path.name.lower().endswith(_ARCHIVES):
        return _Tar(path)
    return _Folder(path.parent, {path.name: path.name})


class _Source:
    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass


class _Folder(_Source):
    """Regular files below a folder, through no link."""

    def __init__(self, root, names=None):
        self.root, self.names = root, names

    def members(self):
        if self.names is not None:
            return list(self.names)
        found = []
        for folder, folders, files in os.walk(self.root, followlinks=False):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                place = os.path.join(folder, name)
                if stat.S_ISREG(os.lstat(place).st_mode):
                    found.append(Path(place).relative_to(self.root).as_posix())
            if len(found) > MEMBERS:
                raise ValueError(f"more than {MEMBERS:,} files")
        return found

    def read(self, name, limit):
        name = name if self.names is None else self.names[name]
        descriptor = os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError(f"{name} is no regular file")
            return file.read(limit)


class _Zip(_Source):
    def __init__(self, path):
        if path.stat().st_size > ARCHIVE_BYTES:
            raise ValueError(f"more than {ARCHIVE_BYTES:,} bytes")
        self.file = zipfile.ZipFile(path)

    def __exit__(self, *exc_info):
        self.file.close()

    def members(self):
        infos = self.file.infolist()
        if len(infos) > MEMBERS:
            raise ValueError(f"more than {MEMBERS:,} members")
        return [info.filename for info in infos if _is_plain(info)]

    def read(self, name, limit):
        with self.file.open(name) as member:
            return member.read(limit)


def _is_plain(info):
    """A file, and no link, in a zip archive."""
    mode = info.external_attr >> 16
    return not info.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode))


class _Tar(_Source):
    def __init__(self, path):
        self.file = tarfile.open(fileobj=io.BytesIO(_uncompressed(path)), mode="r:")
        self.infos = {}

    def __exit__(self, *exc_info):
        self.file.close()

    def members(self):
        for number, info in enumerate(self.file):
            if number >= MEMBERS:
                raise ValueError(f"more than {MEMBERS:,} members")
            if info.isreg():
                self.infos[info.name] = info
        return list(self.infos)

    def read(self, name, limit):
        return self.file.extractfile(self.infos[name]).read(limit)


_COMPRESSED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}


def _uncompressed(path):
    """The bytes of a tar archive. Its reader would take any number of them for one long name."""
    with open(path, "rb") as file:
        start = file.read(6)
    opened = next((how for mark, how in _COMPRESSED.items() if start.startswith(mark)), open)
    with opened(path, "rb") as file:
        data = file.read(ARCHIVE_BYTES + 1)
    if len(data) > ARCHIVE_BYTES:
        raise ValueError(f"more than {ARCHIVE_BYTES:,} bytes")
    return data
