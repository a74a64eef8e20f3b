"""The folders in which submissions run, and what a user without any rights can read in them.

A room is one worker's: its program, the package with the submission, NumPy. Where the folders of
the interpreter or of NumPy are not open to everybody, the rooms share a copy of them.
"""

import atexit
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from .closed_root import add_libraries
from .users import FIRST

__all__ = ["furnish", "interpreter", "new_room", "numpy_folders", "shared_root"]

_HERE = Path(__file__).resolve().parent
_LEAVE_OUT = shutil.ignore_patterns("site-packages", "test", "tests", "idlelib")


def new_room(user, place=None):
    """A new temporary folder, by default in a place that the user can get to."""
    if place is not None:
        return Path(tempfile.mkdtemp(dir=place))
    places = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
    reachable = (place for place in places if user is None or _enterable(Path(place)))
    return Path(tempfile.mkdtemp(prefix="minitorch-attn-", dir=next(reachable, None)))


def _enterable(folder):
    """Whether any user may get to a folder."""
    return all(place.stat().st_mode & 0o001 for place in [folder, *folder.parents])


def furnish(room, level, user, package_folder=None, files=()):
    """Put what a process may read into `room/work`: its program, the package, NumPy.

    Parameters
    ----------
    room : Path
        What `new_room` returned.
    level : {1, 2, 3}
    user : int or None
        Who may read it; None for whoever may read the room.
    package_folder, files
        As of `Worker`; without them there is no package.
    """
    site = room / "work" / "site"
    site.mkdir(parents=True)
    for name in ("worker.py", "protocol.py", "steps.py"):
        shutil.copyfile(_HERE / name, room / "work" / name)
    for folder in numpy_folders(user):
        if level == 3:
            (site / folder.name).mkdir()  # where it is mounted
        elif level == 2:
            (site / folder.name).symlink_to(Path("/") / folder.name)
        else:
            (site / folder.name).symlink_to(folder)
    if package_folder is not None:
        package = room / "work" / "minitorch_attn"
        shutil.copytree(package_folder / "minitorch_attn", package, copy_function=_link)
        for name, data in dict(files).items():
            _replace(room / "work" / name, data)
    _give(room, user)


def _replace(path, data):
    """Write a file in the place of a link to another, and drop what was compiled from that."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


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


def interpreter(user):
    """A Python that the user of the process can start, and the folder it lives in."""
    python, prefix = Path(os.path.realpath(sys.executable)), Path(os.path.realpath(sys.base_prefix))
    if user is None or _readable(python):
        return python, prefix
    copied = _copied_interpreter(python, prefix)
    return copied / "bin" / python.name, copied


def numpy_folders(user):
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
def shared_root():
    """The shared folder, completed so that a process can take it for the whole file system."""
    root = _shared_room()
    python, prefix = Path(os.path.realpath(sys.executable)), Path(os.path.realpath(sys.base_prefix))
    folders = [_copied_interpreter(python, prefix), *map(_copied, _own_numpy_folders())]
    add_libraries(root, folders, _link)
    (root / "rooms").mkdir()
    _open_to_all(root)
    (root / "rooms").chmod(0o711)  # nobody sees who else is there
    return root


@lru_cache(maxsize=1)
def _shared_room():
    """A folder that any user can read, for copies of what lies in folders that are not open."""
    room = new_room(user=FIRST)
    room.chmod(0o755)
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    return room


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


@lru_cache(maxsize=8)
def _copied(folder):
    target = _shared_room() / folder.name
    shutil.copytree(folder, target, copy_function=_link, ignore=_LEAVE_OUT)
    _open_to_all(target)
    return target


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
