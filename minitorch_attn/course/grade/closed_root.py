"""A folder that a process takes for the whole file system: chroot needs no namespaces, only root.

What lies in it is what NumPy needs, and nothing of it can be written to: no answer to read, no
other submission, and no place to leave something for the next one.
"""

import re
import shutil
import subprocess
from pathlib import Path

__all__ = ["GIVE_UP", "LIBRARIES", "add_libraries", "lock_in"]

LIBRARIES = "/libraries"
_NEEDED = re.compile(r"^\t(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)

# What root may still do is what the next program needs.
GIVE_UP = (
    shutil.which("setpriv") or "setpriv", "--no-new-privs", "--inh-caps=-all",
    "--bounding-set=-all,+sys_chroot,+setuid,+setgid", "--",
)  # fmt: skip


def lock_in(root, user):
    """The program that makes a folder the root, becomes a user, and the rest of a command line."""
    program = shutil.which("chroot") or "/usr/sbin/chroot"
    return [program, f"--userspec=+{user}:+{user}", "--groups=", str(root)]


def add_libraries(root, folders, link):
    """Put what the programs and modules in some folders are linked with into a root.

    Parameters
    ----------
    root : Path
    folders : list of Path
        Below the root.
    link : callable
        `link(source, target)`
    """
    inside = Path(root).resolve()
    (inside / LIBRARIES[1:]).mkdir()
    for name, path in _linked(folders).items():
        source = Path(path).resolve()
        if source.is_relative_to(inside):
            # Found beside what needs it; by its name alone it is found here, too.
            target = inside / LIBRARIES[1:] / Path(path).name
        else:
            target = inside / (f"{LIBRARIES}/{name}" if name else path)[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            link(source, target)


def _linked(folders):
    """Name -> path of every library; the loader, which has no name, by its path."""
    files = [str(path) for folder in folders for path in folder.rglob("*.so*")]
    files += [str(path) for folder in folders for path in folder.glob("bin/*")]
    done = subprocess.run(
        [shutil.which("ldd") or "ldd", *files], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    return dict(_NEEDED.findall(done.stdout))
