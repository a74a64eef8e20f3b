"""Archives: unpack zip and tar files from untrusted sources safely."""

import gzip
import os
import re
import stat
import tarfile
import tempfile
import zipfile
import zlib

from ..errors import DataError

try:
    import bz2
    import lzma
except ImportError:  # missing from some Python builds; zip and gzip still work
    bz2 = lzma = None

__all__ = ["is_archive", "unpack"]

_CHUNK = 1 << 20
_OPENERS = {b"\x1f\x8b": gzip.open}
_BROKEN = (
    EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError, ValueError, tarfile.TarError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
if lzma is not None:
    _OPENERS |= {b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
    _BROKEN += (lzma.LZMAError,)
# Device names on Windows. They raise an error on every system, so an archive that can be unpacked
# on one system can be unpacked on all of them.
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def is_archive(path):
    """Return True for files that `unpack` supports: zip, tar (plain, gzip, bzip2, xz), gzip.

    The decision depends on the first bytes of the file, not on its name.
    """
    with open(path, "rb") as file:
        start = file.read(512)
    packed = any(start.startswith(magic) for magic in _OPENERS)
    return packed or start.startswith((b"PK\x03\x04", b"PK\x05\x06")) or start[257:262] == b"ustar"


def unpack(path, folder, *, max_bytes=4 << 30, max_files=200_000):
    """Unpack an archive into a new folder. If an error occurs, the folder is not created.

    Every name is checked before use. Absolute paths, drives, "..", links, devices and duplicate
    names raise an error. `max_bytes` limits the bytes actually written, not the sizes that the
    archive states. This protects against decompression bombs. Owners, permissions and times are
    ignored.

    Parameters
    ----------
    path : str or path
        Zip, tar (plain or compressed by gzip, bzip2 or xz), or a single gzipped file.
    folder : str or path
        New folder, created after everything has been unpacked.
    max_bytes : int, default 4 GiB
        Maximum total size of the files.
    max_files : int, default 200,000
        Maximum number of files and folders.

    Returns
    -------
    path
        `folder`.

    Raises
    ------
    DataError
        If the archive is broken, unsafe or larger than the limits, or `folder` already exists.
    """
    folder, name = os.path.abspath(folder), os.fspath(path)
    if os.path.lexists(folder):
        raise DataError(f"unpack: {folder} already exists", hint="choose a new folder")
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(folder), prefix=".unpacking-") as work:
            target = os.path.join(work, "content")
            os.mkdir(target)
            _members(name, _Target(name, target, max_bytes, max_files))
            os.rename(target, folder)
    except _BROKEN as error:
        if isinstance(error, DataError):
            raise
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{name}: the archive is damaged",
            got=reason, hint="the file may be incomplete: download or copy it again",
        ) from None  # fmt: skip
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{name} could not be unpacked", got=reason) from None
    return folder


def _members(path, target):
    """Write every member of the archive to the target."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            _zip_members(archive, target)
        return
    with open(path, "rb") as file:
        start = file.read(6)
    opener = next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), open)
    with opener(path, "rb") as stream:
        if _looks_like_tar(stream):
            with tarfile.open(fileobj=_Careful(stream, target), mode="r:") as archive:
                _tar_members(archive, target)
        elif opener is gzip.open:
            stem = os.path.basename(path)
            target.write(stem[:-3] if stem.lower().endswith(".gz") else stem, stream)
        else:
            raise DataError(
                f"{path} is not a supported archive",
                expected="zip, tar, tar.gz, tar.bz2, tar.xz, or one gzipped file",
            )


def _looks_like_tar(stream):
    start = stream.read(512)
    stream.seek(0)
    return len(start) == 512 and start[257:262] == b"ustar"


def _zip_members(archive, target):
    for member in archive.infolist():
        if not member.filename:
            target.refuse("", "an empty name")
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            target.refuse(member.filename, "a link or a device")
        if member.flag_bits & 1:
            target.refuse(member.filename, "a password-protected file")
        if member.is_dir():
            target.make_folder(member.filename)
        else:
            with archive.open(member) as stream:
                target.write(member.filename, stream)


def _tar_members(archive, target):
    for member in archive:
        if member.isdir():
            target.make_folder(member.name)
        elif member.isreg() and not member.issparse():
            target.expect(member.name, member.size)
            with archive.extractfile(member) as stream:
                target.write(member.name, stream, member.size)
        else:
            target.refuse(member.name, "a link, a device or a sparse file")
        archive.members = []  # otherwise tarfile keeps all members in memory


class _Careful:
    """Compressed stream with limits on reads and seeks.

    A tar header may declare a size of many gigabytes, and tarfile would read all of it at once.
    """

    def __init__(self, stream, target):
        self._stream, self._target = stream, target
        self.tell, self.close = stream.tell, stream.close

    def read(self, size=-1):
        if not 0 <= size <= 4 * _CHUNK:
            self._target.refuse("tar header", f"a declared size of {size} bytes, out of range")
        return self._stream.read(size)

    def seek(self, position, whence=0):
        if whence == 0 and position - self._stream.tell() > self._target.bytes_left + 4 * _CHUNK:
            self._target.too_large()
        return self._stream.seek(position, whence)


class _Target:
    """Folder to unpack into. Tracks how many more bytes and files may be written."""

    def __init__(self, archive, folder, max_bytes, max_files):
        self._archive, self._folder = archive, folder
        self._max_bytes, self._max_files = max_bytes, max_files
        self.bytes_left, self._files_left = max_bytes, max_files

    def refuse(self, name, what):
        raise DataError(
            f"{self._archive} is not safe to unpack",
            got=f"{name!r}: {what}", expected="regular files and folders inside the archive",
            hint="if you trust its source, unpack it yourself and pass the folder",
        )  # fmt: skip

    def too_large(self):
        raise DataError(
            f"{self._archive}: the unpacked size exceeds the limit",
            expected=f"at most {self._max_bytes:,} bytes in {self._max_files:,} files and folders",
            hint="increase max_bytes= or max_files= of unpack if you trust the archive",
        )

    def expect(self, name, size):
        if size > self.bytes_left:
            self.too_large()

    def make_folder(self, name):
        parts = self._checked(name.rstrip("/"), allow_root=True)
        os.makedirs(os.path.join(self._folder, *parts), exist_ok=True)

    def write(self, name, stream, size=None):
        """Copy a member's bytes to a file. Check a tar member's size against its header."""
        path = os.path.join(self._folder, *self._checked(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            self.refuse(name, "a duplicate name")
        with open(path, "xb") as file:
            while chunk := stream.read(_CHUNK):
                self.bytes_left -= len(chunk)
                if self.bytes_left < 0:
                    self.too_large()
                file.write(chunk)
            if size is not None and file.tell() != size:
                raise EOFError(f"{name!r} is truncated after {file.tell()} of {size} bytes")

    def _checked(self, name, allow_root=False):
        """Check a member's path and return its parts."""
        self._files_left -= 1
        if self._files_left < 0:
            self.too_large()
        parts = [part for part in name.split("/") if part != "."]
        if allow_root and parts in ([], [""]):
            return []
        for part in parts:
            strange = part in ("", "..") or any(c in "\\:" or ord(c) < 32 for c in part)
            if strange or _DEVICE.fullmatch(part.rstrip(" .")):
                self.refuse(name, "a path outside the folder, or an invalid name")
        if not parts:
            self.refuse(name, "an empty name")
        return parts
