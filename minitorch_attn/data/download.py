"""Download data files and verify their checksums, or locate them on this machine."""

import contextlib
import hashlib
import os
import re
import sys
import urllib.parse
from urllib.parse import quote

from ..errors import ArgumentError, DataError
from ..files import atomic_file
from .archives import is_archive, unpack

__all__ = ["cache_folder", "download", "local_path", "shown_path", "single_file"]

_CHUNK = 1 << 20
_SHOWN = re.compile("[^:@]*(://[^:@]*)?")  # the part of a URL before any password
_PASSWORD = re.compile("[^/]:[^/]")  # a password may begin here
_SAFE = "/%:=&?+~,;!$'()*[]@"  # characters of a path and a query that are not quoted


def cache_folder():
    """Return the download folder: ``$MINITORCH_ATTN_CACHE``, or else the system's cache folder.

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
    """Download a file, unless it is already in the cache, and return its path.

    Parameters
    ----------
    url : str
        URL that starts with http or https.
    sha256 : str
        Checksum of the file (64 hexadecimal digits). A file with a different checksum is deleted.
    folder : str or path, optional
        Target folder. Default: `cache_folder()`.
    max_bytes : int, default 4 GiB
        Maximum size of the file.
    timeout : float, default 30
        Maximum time in seconds without a response.

    Returns
    -------
    str
        Path of the file.

    Raises
    ------
    DataError
        If the download fails, or the checksum does not match.
    """
    parts = _checked_url(url)
    sha256 = _checked_sha256(sha256)
    name = os.path.basename(urllib.parse.unquote(parts.path)) or "download"
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[-100:]
    path = os.path.join(folder or cache_folder(), f"{sha256[:16]}-{name}")
    if os.path.isfile(path) and _sha256_of(path) == sha256:
        return path
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise DataError(f"{path} could not be written", got=error.strerror) from None
    with atomic_file(path) as file:
        _fetch(parts.geturl(), sha256, file, max_bytes, timeout)
    return path


def _checked_url(url):
    """Check a URL and return its parts, with an ASCII path. Error messages omit any password."""
    shown = _SHOWN.match(url)[0]
    shown += "..." if shown != url else ""
    try:
        parts = urllib.parse.urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if valid:
            parts.hostname.encode("idna")
            path, query = (quote(text, _SAFE) for text in (parts.path, parts.query))
    except ValueError:  # such as an invalid port, a label of 300 letters, or a lone surrogate
        valid = False
    if not valid:
        raise ArgumentError(
            "download: url must be an http or https address",
            got=ascii(shown), expected="https://...",
            hint="to use a file on this machine, pass its path to the function that reads the file",
        )  # fmt: skip
    if parts.username is not None:
        raise ArgumentError(
            "download: a user name or password in a URL is not supported",
            got=ascii(shown), hint="download the file yourself, and pass its path",
        )  # fmt: skip
    return parts._replace(path=path, query=query)


def shown_path(path):
    """Return a path as text for a message, without a password.

    A mistyped URL is taken for a path, and it can contain a password.

    Examples
    --------
    >>> shown_path("https:/user:secret@example.org/a.zip"), shown_path("C:/a@b")
    ('https:/user:...@example.org/a.zip', 'C:/a@b')
    """
    text = os.fsdecode(path)
    before, _, after = text.rpartition("@")
    found = _PASSWORD.search(before)
    return f"{before[: found.start() + 2]}...@{after}" if found else text


def local_path(source, sha256=None):
    """Return the local path of `source`. Download it if it is a URL; unpack it if it is an archive.

    Parameters
    ----------
    source : str or path
        Folder, file, archive, or the URL of a file or an archive.
    sha256 : str, optional
        Checksum of the file, required for a URL.

    Returns
    -------
    str

    Raises
    ------
    DataError
        If the source cannot be read, or the checksum does not match.
    """
    source = os.fspath(source)
    if "://" in source:
        _checked_url(source)
        if sha256 is None:
            raise ArgumentError(
                f"{shown_path(source)}: the checksum of the download is missing",
                expected="the argument sha256, 64 hexadecimal digits",
                hint="pass the checksum that sha256sum FILE prints for a copy that you trust",
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
    except DataError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{shown_path(path)} could not be read", got=reason) from None


def single_file(source, sha256=None):
    """Return the path of the file `source`, or of the only file in a folder or archive `source`.

    As in `local_path`, `source` may also be a URL.
    """
    found = local_path(source, sha256)
    if not os.path.isdir(found):
        return found
    names = sorted(os.listdir(found))
    if len(names) != 1 or os.path.isdir(os.path.join(found, names[0])):
        raise DataError(
            f"{os.fspath(source)} is not a single file",
            got=f"{len(names)} entries: {', '.join(names[:5])}",
            expected="a text file, which may be compressed",
            hint="pass the path of one of the files instead",
        )
    return os.path.join(found, names[0])


def _unpacked(path, sha256):
    """Return the cache folder with an archive's contents. Unpack the archive if needed."""
    folder = os.path.join(cache_folder(), "unpacked", sha256 or _sha256_of(path))
    if os.path.isdir(folder):
        return folder
    try:
        return unpack(path, folder)
    except DataError:
        if os.path.isdir(folder):  # another process has unpacked it in the meantime
            return folder
        raise


def _fetch(url, sha256, file, max_bytes, timeout):
    import http.client
    import urllib.request

    digest, size, shown = hashlib.sha256(), 0, shown_path(url)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "minitorch_attn"})
        with contextlib.closing(urllib.request.urlopen(request, timeout=timeout)) as answer:
            while chunk := answer.read(_CHUNK):
                size += len(chunk)
                if size > max_bytes:
                    raise DataError(
                        f"{shown} is too large",
                        expected=f"at most {max_bytes:,} bytes",
                        hint="increase max_bytes= of download if you trust the source",
                    )
                digest.update(chunk)
                file.write(chunk)
    except DataError:
        raise
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise DataError(
            f"{shown} could not be downloaded",
            got=str(reason),
            hint="without a network, download the file elsewhere and pass its path instead",
        ) from None
    if digest.hexdigest() != sha256:
        raise _other_file(shown, digest.hexdigest(), sha256)


def _other_file(name, found, expected):
    return DataError(
        f"{name}: the checksum does not match",
        got=f"sha256 {found}",
        expected=f"sha256 {expected}",
        hint="download it again; if it still differs, check the publisher's current checksum",
    )


def _sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked_sha256(sha256):
    text = str(sha256).lower()
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ArgumentError(
            "sha256 must be a checksum of 64 hex digits",
            got=repr(sha256), hint="run `sha256sum FILE` on a copy that you trust",
        )  # fmt: skip
    return text
