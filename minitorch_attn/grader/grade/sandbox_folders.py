"""Sandbox folders: make the folders in which submissions run, and set their permissions.

Each worker has a sandbox folder with its program, the package with the submission, and NumPy. If
some users may not read the folders of the interpreter or of NumPy, the workers share a copy of
these folders. All folders of a grader are in one temporary folder, which the grader keeps locked.
If the grader is killed, the next grader finds the folder unlocked and removes it.
"""

import atexit
import os
import shutil
import stat
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...folder_lock import FolderLock, holder_of
from .closed_root import add_libraries
from .sandbox_users import FIRST

__all__ = [
    "interpreter", "new_folder", "numpy_folders", "populate", "remove_leftovers", "shared_root",
]  # fmt: skip

_PREFIX = "minitorch-attn-grader-"
_locks = []  # kept until the process ends
_HERE = Path(__file__).resolve().parent
_LEAVE_OUT = shutil.ignore_patterns("site-packages", "test", "tests", "idlelib")


def new_folder(user=None, place=None):
    """Make a temporary folder in `place`, by default in a folder that `user` can enter."""
    return Path(tempfile.mkdtemp(dir=place or _home(user is not None)))


def _places(for_all):
    """Return the system's temporary folders; if `for_all`, only those all users can enter."""
    found = dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp"))
    return [Path(place) for place in found if not for_all or _enterable(Path(place))]


@lru_cache(maxsize=2)
def _home(for_all):
    """Make the temporary folder of this grader, and keep it locked until the grader ends."""
    place = next(iter(_places(for_all)), None)
    new = Path(tempfile.mkdtemp(prefix=".minitorch-attn-new-", dir=place))
    new.chmod(0o711)  # other users cannot list it
    _locks.append(FolderLock(new, "grader").acquire())
    home = new.with_name(_PREFIX + new.name[len(".minitorch-attn-new-") :])
    new.rename(home)  # now visible to other graders, and already locked
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def remove_leftovers():
    """Remove the temporary folders that this user's killed graders left behind."""
    for place in {*_places(False), *_places(True)}:
        for folder in place.glob(f"{_PREFIX}*"):
            found = folder.lstat()
            own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if own and holder_of(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)


def _enterable(folder):
    """Return whether every user may enter a folder."""
    return all(place.stat().st_mode & 0o001 for place in [folder, *folder.parents])


def populate(root, level, user, package_folder=None, files=()):
    """Populate `root/work` with what the process may read: worker program, package, NumPy.

    Parameters
    ----------
    root : Path
        Sandbox folder, made by `new_folder`.
    level : {1, 2, 3}
        Sandbox level.
    user : int or None
        Id of the user who may read the folder. None leaves the permissions unchanged.
    package_folder, files
        Arguments of `Worker`. Without them the package is omitted.
    """
    site = root / "work" / "site"
    site.mkdir(parents=True)
    for name in ("worker.py", "protocol.py", "steps.py"):
        shutil.copyfile(_HERE / name, root / "work" / name)
    for folder in numpy_folders(user):
        if level == 3:
            (site / folder.name).mkdir()  # a mount point
        elif level == 2:
            (site / folder.name).symlink_to(Path("/") / folder.name)
        else:
            (site / folder.name).symlink_to(folder)
    if package_folder is not None:
        package = root / "work" / "minitorch_attn"
        shutil.copytree(package_folder / "minitorch_attn", package, copy_function=_link)
        for name, data in dict(files).items():
            _replace(root / "work" / name, data)
    _give(root, user)


def _replace(path, data):
    """Replace a file with a new one, and remove the old file's bytecode.

    The file is not overwritten in place, because it may be a hard link to a file of another folder.
    """
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def _give(root, user):
    """Let only one user read a folder tree, without changing its owner."""
    if user is None:
        return
    for folder, _, files in os.walk(root):
        os.chown(folder, -1, user)
        os.chmod(folder, 0o750)
        for name in files:
            path = os.path.join(folder, name)
            if os.lstat(path).st_nlink == 1 and not os.path.islink(path):
                os.chown(path, -1, user)
                os.chmod(path, 0o640)


def interpreter(user):
    """Return a Python interpreter that `user` can run, and its installation folder."""
    python, prefix = Path(os.path.realpath(sys.executable)), Path(os.path.realpath(sys.base_prefix))
    if user is None or _readable(python):
        return python, prefix
    copied = _copied_interpreter(python, prefix)
    return copied / "bin" / python.name, copied


def numpy_folders(user):
    """Return the folders that NumPy needs: its package and its bundled shared libraries."""
    folders = _own_numpy_folders()
    if user is None or all(map(_readable, folders)):
        return folders
    return [_copied(folder) for folder in folders]


def _own_numpy_folders():
    package = Path(np.__file__).resolve().parent
    folders = [package, package.parent / "numpy.libs"]
    return [folder for folder in folders if folder.is_dir()]


def _readable(path):
    """Return whether every user may read a file and enter all folders above it."""
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in [path, *path.parents])


@lru_cache(maxsize=1)
def shared_root():
    """Return the shared root folder, which contains Python, NumPy and their libraries."""
    root = _shared_folder()
    python, prefix = Path(os.path.realpath(sys.executable)), Path(os.path.realpath(sys.base_prefix))
    folders = [_copied_interpreter(python, prefix), *map(_copied, _own_numpy_folders())]
    add_libraries(root, folders, _link)
    (root / "sandboxes").mkdir()
    _open_to_all(root)
    (root / "sandboxes").chmod(0o711)  # a user cannot list the other folders
    return root


@lru_cache(maxsize=1)
def _shared_folder():
    """Make a folder that every user can read, for copies of files that some users cannot read."""
    root = new_folder(user=FIRST)
    root.chmod(0o755)
    return root


@lru_cache(maxsize=1)
def _copied_interpreter(python, prefix):
    """Copy the interpreter and its standard library, using hard links where possible."""
    root = _shared_folder() / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (root / "bin").mkdir(parents=True)
    _link(python, root / "bin" / python.name)
    for name in {"lib", sys.platlibdir}:
        if (prefix / name / version).is_dir():
            shutil.copytree(
                prefix / name / version, root / name / version, copy_function=_link,
                ignore=_LEAVE_OUT,
            )  # fmt: skip
    for library in (prefix / "lib").glob("libpython*"):
        _link(library, root / "lib" / library.name)
    _open_to_all(root)
    return root


@lru_cache(maxsize=8)
def _copied(folder):
    target = _shared_folder() / folder.name
    shutil.copytree(folder, target, copy_function=_link, ignore=_LEAVE_OUT)
    _open_to_all(target)
    return target


def _link(source, target):
    """Hard-link a file if all users may read it. Otherwise, or if that fails, copy it."""
    if os.stat(source).st_mode & 0o004:
        try:
            # On Linux, os.link does not follow a symbolic link, and a relative one would dangle.
            return os.link(os.path.realpath(source), target)
        except OSError:
            pass
    return shutil.copy2(source, target)


def _open_to_all(root):
    """Let every user read, but not write, a folder tree."""
    for folder, _, files in os.walk(root):
        os.chmod(folder, 0o755)
        for name in files:
            path = os.path.join(folder, name)
            if os.stat(path).st_nlink == 1:  # not a link to somebody else's file
                os.chmod(path, 0o755 if os.access(path, os.X_OK) else 0o644)
