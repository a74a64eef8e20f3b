"""Leaks: find lines or compiled code of a solution in a release.

A line of a function to be written is a leak if it has at least twelve characters and occurs in
fewer than three files of the released library. A common line such as `ctx.save(x)` reveals nothing.
A line of a function in a `[[group]]` is a leak if it has at least twelve characters and does not
occur in the released library. The manifest can allow further lines.
"""

import io
import json
import subprocess
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

from .assignment import ToWrite, package_root
from .blank import bare, code_lines
from .package import NOT_RELEASED, changed_files

__all__ = ["leaks", "telling_lines"]

SHORTEST = 12
COMMON = 3  # a line that occurs in this many released files reveals nothing
_ENDLESS = 50_000_000  # limit in bytes; every file in a release is smaller


def telling_lines(assignment):
    """Map each line of the solution that must not occur in a release to its function.

    Returns
    -------
    dict of str to str
        Name of the function, by line of code.
    """
    left = _library() | changed_files(assignment)
    texts = [set(_bare_lines(text)) for text in left.values()]
    found = {}
    for part in (*assignment.blanks, *assignment.groups):
        common = COMMON if isinstance(part, ToWrite) else 1
        target = part.target
        source = (package_root() / target.path).read_text(encoding="utf-8")
        for line in code_lines(source, target.name):
            if len(line) < SHORTEST or line in assignment.allowed:
                continue
            if sum(line in lines for lines in texts) < common:
                found.setdefault(line, str(target))
    return found


def _library():
    """Return {path: text} for all Python files of the package that a release could contain."""
    root = package_root()
    paths = sorted((root / "minitorch_attn").rglob("*.py"))
    names = [path.relative_to(root) for path in paths]
    wanted = [name for name in names if name.parts[1] not in NOT_RELEASED]
    return {name.as_posix(): (root / name).read_text(encoding="utf-8") for name in wanted}


def leaks(assignment, folder):
    """Find lines and compiled code in a release that reveal the solution.

    Parameters
    ----------
    assignment : Assignment
    folder : path
        Folder with a release, or any other folder.

    Returns
    -------
    list of str
        One sentence for each line found.
    """
    telling, compiled = telling_lines(assignment), _code_of(assignment)
    found = []
    for name, data in _members(Path(folder)):
        if name.endswith(".pyc"):
            found += _in_compiled(name, data, compiled)
        if name.endswith((".npy", ".npz", ".zip")):
            continue  # arrays of numbers; archive members are yielded separately
        for number, line in _lines(name, data):
            if line in telling:
                found.append(f"{name}:{number}: {line!r} is a line of {telling[line]}")
    return found


def _members(folder):
    """Yield (name, bytes) for every file, archive member and git object."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.is_symlink():
            yield from _opened(name, path.read_bytes())
        if path.name == ".git" and path.is_dir():
            yield from _packed(path, name)


def _opened(name, data, depth=3):
    yield name, data
    if zipfile.is_zipfile(io.BytesIO(data)) and depth:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                if not member.is_dir() and member.file_size < _ENDLESS:
                    inner = archive.read(member)
                    yield from _opened(f"{name}/{member.filename}", inner, depth - 1)
    elif ".git/objects/" in f"/{name}":
        try:
            yield f"{name} (unpacked)", zlib.decompress(data).partition(b"\0")[2]
        except zlib.error:
            pass


def _packed(git, name):
    """Yield one pair (name, content of all git objects) if a repository has pack files."""
    if not list(git.glob("objects/pack/*.pack")):
        return
    command = ["git", f"--git-dir={git}", "cat-file", "--batch-all-objects", "--batch"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        yield f"{name} (packed, and git cannot read it)", b""
    else:
        yield f"{name} (packed)", done.stdout


def _lines(name, data):
    """Yield (number, line) for each line of a text file, or of all strings in a notebook."""
    text = data.decode("utf-8", errors="replace")
    if name.endswith(".ipynb"):
        try:
            text = "\n".join(_strings(json.loads(text)))
        except ValueError:
            pass
    yield from enumerate(_bare_lines(text), 1)


@lru_cache(maxsize=1024)  # a release contains most files of the library unchanged
def _bare_lines(text):
    return tuple(map(bare, text.splitlines()))


def _strings(value):
    """Yield all strings in a JSON document, including the keys. Lists of lines are joined."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield "".join(item if item.endswith("\n") else item + "\n" for item in value)
        else:
            for item in value:
                yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)


def _code_of(assignment):
    """Return a dict for the removed functions.

    The key is the pair (bytecode of the function, names that this bytecode uses), and the value is
    the function's name.
    """
    found = {}
    for part in (*assignment.blanks, *assignment.groups):
        source = (package_root() / part.target.path).read_text(encoding="utf-8")
        for code in _walk(compile(source, "", "exec")):
            if code.co_qualname == part.target.name:
                names = tuple(name.encode() for name in code.co_names)
                found[(code.co_code, names)] = str(part.target)
    return found


def _walk(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from _walk(constant)


def _in_compiled(name, data, compiled):
    """Search a .pyc file for the bytecode of removed functions, without running it."""
    for (code, names), target in compiled.items():
        if code in data and all(word in data for word in names):
            yield f"{name}: the compiled body of {target}"
