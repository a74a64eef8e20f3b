"""Submitted archives and folders: read the files that an assignment asks for.

Nothing is unpacked to disk. The requested files are found by name, and read into memory if they are
regular files and not larger than the limit. Everything else in a submission is ignored, such as
links, devices, paths outside the submission, or a million empty members.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath

__all__ = ["Submission", "name_of", "passed_over", "read_submission", "shown", "submissions_in"]

FILE_BYTES = 1 << 20  # about 100 times the size of a typical source file
ARCHIVE_BYTES = 1 << 28  # maximum size of an uncompressed tar archive, which is read into memory
INDEX_BYTES = 1 << 23  # maximum size of the list of members of a zip archive
MEMBERS = 100_000
# Folders that tools create. They can be huge, and never contain a submission.
_MADE = {"__MACOSX", "__pycache__", "node_modules", "site-packages"}
_CLUTTER = {".DS_Store", ".gitignore", "Thumbs.db", "desktop.ini"}
_ZIP_END = struct.Struct("<10xHI6x")  # number of members, and size of their list
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


@dataclass
class Submission:
    """Submission of one student.

    Attributes
    ----------
    name : str
        Name of the folder or archive, without its suffix.
    files : dict of str to bytes
        Content of each requested file that was found, by path.
    problems : list of str
        Messages for the student about files that could not be read.
    folder : str
        File name of the folder or archive, including its suffix.
    """

    name: str
    files: dict = field(default_factory=dict)
    problems: list = field(default_factory=list)
    folder: str = ""

    @property
    def digest(self):
        """Hash of the graded files."""
        known = sha256()
        for name, data in sorted(self.files.items()):
            known.update(f"{name}\0{len(data)}\0".encode())
            known.update(data)
        return known.hexdigest()


def submissions_in(folder):
    """List the submissions of a class: folders, archives and .py files, sorted by name.

    Parameters
    ----------
    folder : path

    Returns
    -------
    list of Path
    """
    return [path for path in sorted(Path(folder).iterdir()) if _why_not(path) is None]


def passed_over(folder):
    """List the entries of a submissions folder that are not graded, each with the reason.

    Parameters
    ----------
    folder : path

    Returns
    -------
    list of (str, str)
        Name and reason, sorted by name.
    """
    found = [(path, _why_not(path)) for path in sorted(Path(folder).iterdir())]
    return [(shown(path.name), why) for path, why in found if why and path.name not in _CLUTTER]


def _why_not(path):
    """Return the reason why a path is not a submission, or None if it is one."""
    if path.name.startswith("."):
        return "the name begins with a dot"
    if path.is_symlink():
        return "it is a link"
    # Accept only regular files: reading a pipe or a device might never end.
    if path.is_dir() or (path.is_file() and path.name.lower().endswith((*_ARCHIVES, ".py"))):
        return None
    return f"it is neither a folder nor one of {', '.join((*_ARCHIVES, '.py'))}"


def read_submission(path, wanted):
    """Read the files that an assignment asks for. Errors are recorded in the result's `problems`.

    Parameters
    ----------
    path : path
        A folder, an archive, or a single file if only one is requested.
    wanted : list of str
        Paths such as `minitorch_attn/ops/softmax.py`. A file can be inside any parent folder. It is
        also found by its file name alone if that is unique.

    Returns
    -------
    Submission
    """
    path = Path(path)
    submission = Submission(name_of(path), folder=shown(path.name))
    try:
        with _opened(path) as source:
            members = source.members()
            if path.suffix == ".py" and path.is_file() and len(wanted) == 1:
                members = [wanted[0]]  # only one file is requested, so any name is accepted
                source.names = {wanted[0]: path.name}
            for want in wanted:
                _take(submission, source, members, want)
    except Exception as error:  # reading a malformed archive can raise anything
        submission.problems.append(f"could not be read: {type(error).__name__}: {error}"[:300])
    return submission


def name_of(path):
    """Return the student's name: the name of the submission, without an archive's suffix.

    Parameters
    ----------
    path : Path

    Returns
    -------
    str
    """
    ends = [end for end in _ARCHIVES if path.name.lower().endswith(end)]
    name = path.name[: -len(max(ends, key=len))] if ends and path.is_file() else path.name
    return shown(name)


def shown(name):
    """Replace surrogates, which UTF-8 cannot encode, with question marks in a file name.

    Parameters
    ----------
    name : str

    Returns
    -------
    str
    """
    return name.encode(errors="replace").decode()


def _take(submission, source, members, want):
    matches = _matching(members, want)
    if not matches:
        submission.problems.append(f"{want} is missing")
    elif len(matches) > 1:
        listed = ", ".join(sorted(matches)[:5])
        submission.problems.append(f"{want} exists more than once: {listed}")
    else:
        data = source.read(matches[0], FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            submission.problems.append(f"{want} is larger than {FILE_BYTES:,} bytes")
        else:
            submission.files[want] = data


def _matching(members, want):
    """Find the members that share the largest number of trailing path components with `want`."""
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
    """Reader for the regular files in a folder and its subfolders. It does not follow links."""

    def __init__(self, root, names=None):
        self.root, self.names = root, names

    def members(self):
        if self.names is not None:
            return list(self.names)
        found = []
        for folder, folders, files in os.walk(self.root, followlinks=False):
            if "pyvenv.cfg" in files:  # a virtual environment
                folders.clear()
                continue
            folders[:] = [name for name in folders if name not in _MADE and name[0] != "."]
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
                raise ValueError(f"{name} is not a regular file")
            return file.read(limit)


class _Zip(_Source):
    def __init__(self, path):
        _check_index(path)
        self.file = zipfile.ZipFile(path)
        self.infos = {}

    def __exit__(self, *exc_info):
        self.file.close()

    def members(self):
        infos = self.file.infolist()
        if len(infos) > MEMBERS:
            raise ValueError(f"more than {MEMBERS:,} members")
        for info in infos:
            name = info.filename.replace("\\", "/")  # some Windows programs write backslashes
            if _is_plain(info) and _MADE.isdisjoint(PurePosixPath(name).parts):
                self.infos[name] = info
        return list(self.infos)

    def read(self, name, limit):
        with self.file.open(self.infos[name]) as member:
            return member.read(limit)


def _check_index(path):
    """Refuse a zip archive with a huge list of members, before it is read into memory."""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _ZIP_END.size - (1 << 16)))
        end = file.read()
    at = len(end) - _ZIP_END.size  # start of the end record, unless a comment follows the record
    if end[at : at + 4] != b"PK\5\6":
        at = end.rfind(b"PK\5\6")
    if not 0 <= at <= len(end) - _ZIP_END.size:
        return  # ZipFile says what is wrong
    _, size = _ZIP_END.unpack_from(end, at)
    if size > INDEX_BYTES or end[max(at - 20, 0) : at].startswith(b"PK\6\7"):  # of ZIP64
        raise ValueError(f"the list of members has more than {INDEX_BYTES:,} bytes")


def _is_plain(info):
    """Return whether a member of a zip archive is a regular file."""
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
            if info.isreg() and _MADE.isdisjoint(PurePosixPath(info.name).parts):
                self.infos[info.name] = info
        return list(self.infos)

    def read(self, name, limit):
        return self.file.extractfile(self.infos[name]).read(limit)


_COMPRESSED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}


def _uncompressed(path):
    """Decompress a tar archive. Raise a ValueError if it has more than ARCHIVE_BYTES."""
    with open(path, "rb") as file:
        start = file.read(6)
    opened = next((how for mark, how in _COMPRESSED.items() if start.startswith(mark)), open)
    with opened(path, "rb") as file:
        data = file.read(ARCHIVE_BYTES + 1)
    if len(data) > ARCHIVE_BYTES:
        raise ValueError(f"more than {ARCHIVE_BYTES:,} bytes")
    return data
