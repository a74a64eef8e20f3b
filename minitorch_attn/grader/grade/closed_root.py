"""Closed root folder for a process (chroot). It requires root privileges, but not namespaces.

The folder contains only what NumPy needs and is read-only. A submission cannot read a solution or
another submission there, or leave a file for the next submission.
"""

import re
import shutil
import subprocess
from pathlib import Path

__all__ = ["GIVE_UP", "LIBRARIES", "add_libraries", "lock_in"]

LIBRARIES = "/libraries"
_NEEDED = re.compile(r"^\t(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)

# Drop all capabilities except those that the next program needs.
GIVE_UP = (
    shutil.which("setpriv") or "setpriv", "--no-new-privs", "--inh-caps=-all",
    "--bounding-set=-all,+sys_chroot,+setuid,+setgid", "--",
)  # fmt: skip


def lock_in(root, user):
    """Return the command prefix that runs a program as `user`, with `root` as root folder."""
    program = shutil.which("chroot") or "/usr/sbin/chroot"
    return [program, f"--userspec=+{user}:+{user}", "--groups=", str(root)]


def add_libraries(root, folders, link):
    """Link or copy into `root` the shared libraries that files in `folders` need.

    Parameters
    ----------
    root : Path
        Root folder.
    folders : list of Path
        Folders below the root.
    link : callable
        Function `link(source, target)` that links or copies a file.
    """
    inside = Path(root).resolve()
    (inside / LIBRARIES[1:]).mkdir()
    for name, path in _linked(folders).items():
        source = Path(path).resolve()
        if source.is_relative_to(inside):
            # Some programs load such a library by its path in the root. Others search for its name,
            # and find this copy.
            target = inside / LIBRARIES[1:] / Path(path).name
        else:
            target = inside / (f"{LIBRARIES}/{name}" if name else path)[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            link(source, target)


def _linked(folders):
    """Return {name: path} of the shared libraries to load. The dynamic loader is named ""."""
    files = [str(path) for folder in folders for path in folder.rglob("*.so*")]
    files += [str(path) for folder in folders for path in folder.glob("bin/*")]
    done = subprocess.run(
        [shutil.which("ldd") or "ldd", *files], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    return dict(_NEEDED.findall(done.stdout))
