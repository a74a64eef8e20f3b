"""Files of data: where they are on this machine, or a download with a checksum."""

import contextlib
import hashlib
import os
import sys
import urllib.parse

from ..errors import ArgumentError, DataError
from ..files import atomic_file
from .archives import is_archive, unpack

__all__ = ["cache_folder", "download", "local_path", "single_file"]

_CHUNK = 1 << 20


def cache_folder():
    """Where downloads are kept: ``$MINITORCH_ATTN_CACHE``, or the system's folder for caches.

    Returns
    -------
    str
    """
    chosen = os.environ.get("MINITORCH_ATTN_CACHE")
    if chosen:
        return os.path.abspath(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "minitorch_attn")


def download(url, sha256, *, folder=None, max_bytes=4 << 30, timeout=30.0):
    """Fetch a file once; afterwards it comes from the cache.

    Parameters
    ----------
    url : str
        http or https.
    sha256 : str
        The checksum of the file, 64 hexadecimal digits. A file with another one is not kept.
    folder : str or path, optional
        Default `cache_folder()`.
    max_bytes : int, default 4 GiB
    timeout : float, default 30
        Seconds without an answer.

    Returns
    -------
    str
        The path of the file.

    Raises
    ------
    DataError
        If the network does not give the file, or gives another one.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ArgumentError("download(url): not a web address.", got=url, expected="https://...")
    sha256 = _checked_sha256(sha256)
    name = os.path.basename(urllib.parse.unquote(parts.path)) or "download"
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[-100:]
    path = os.path.join(folder or cache_folder(), f"{sha256[:16]}-{name}")
    if os.path.isfile(path) and _sha256_of(path) == sha256:
        return path
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise DataError(f"{path} could not be written.", got=error.strerror) from None
    with atomic_file(path) as file:
        _fetch(url, sha256, file, max_bytes, timeout)
    return path


def local_path(source, sha256=None):
    """A file or folder to read: downloaded if `source` is a URL, unpacked if it is an archive.

    Parameters
    ----------
    source : str or path
        A folder, a file, an archive, or the URL of a file or an archive.
    sha256 : str, optional
        The checksum of the file; for a URL it is needed.

    Returns
    -------
    str

    Raises
    ------
    DataError
        If it is not there, or not what the checksum says.
    """
    source = os.fspath(source)
    if "://" in source:
        if sha256 is None:
            raise ArgumentError(
                f"{source}: a download needs a checksum.",
                expected="sha256=, 64 hexadecimal digits",
                hint="sha256sum FILE, of a copy that you trust",
            )
        path = download(source, sha256)
    elif os.path.isdir(source):
        return source
    else:
        path = source
    try:
        if sha256 is not None:
            found = _sha256_of(path)
            if found != _checked_sha256(sha256):
                raise _other_file(path, found, sha256)
        return _unpacked(path, sha256) if is_archive(path) else path
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{path} could not be read.", got=reason) from None


def single_file(source, sha256=None):
    """As `local_path`, of a file that may be packed: always the path of a file."""
    found = local_path(source, sha256)
    if not os.path.isdir(found):
        return found
    names = sorted(os.listdir(found))
    if len(names) != 1 or os.path.isdir(os.path.join(found, names[0])):
        raise DataError(
            f"{os.fspath(source)} is not a single file.",
            got=f"{len(names)} entries: {', '.join(names[:5])}",
            expected="a text file, packed or not",
        )
    return os.path.join(found, names[0])


def _unpacked(path, sha256):
    """The folder in the cache that holds what an archive holds."""
    folder = os.path.join(cache_folder(), "unpacked", sha256 or _sha256_of(path))
    if os.path.isdir(folder):
        return folder
    try:
        return unpack(path, folder)
    except DataError:
        if os.path.isdir(folder):  # another process was quicker
            return folder
        raise


def _fetch(url, sha256, file, max_bytes, timeout):
    import http.client
    import urllib.request

    digest, size = hashlib.sha256(), 0
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "minitorch_attn"})
        with contextlib.closing(urllib.request.urlopen(request, timeout=timeout)) as answer:
            while chunk := answer.read(_CHUNK):
                size += len(chunk)
                if size > max_bytes:
                    raise DataError(f"{url} is too large.", expected=f"at most {max_bytes:,} bytes")
                digest.update(chunk)
                file.write(chunk)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise DataError(
            f"{url} could not be downloaded.",
            got=str(reason),
            hint="where there is no network: fetch the file elsewhere, and give its path instead",
        ) from None
    if digest.hexdigest() != sha256:
        raise _other_file(url, digest.hexdigest(), sha256)


def _other_file(name, found, expected):
    return DataError(
        f"{name} is not the file that was expected.",
        got=f"sha256 {found}",
        expected=f"sha256 {expected}",
        hint="the download was cut off, or the file has changed where it comes from",
    )


def _sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked_sha256(sha256):
    text = str(sha256).lower()
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ArgumentError("sha256: not a checksum.", got=repr(sha256), expected="64 hex digits")
    return text
