"""Whether anything of a solution is in a release: line by line, and in what was compiled of it.

A line tells something if it is at least twelve characters long. One that stands in many files of
what is left of the library (`ctx.save(x)`) says nothing; one that stands in a few does: it is the
sibling that was forgotten, unless the manifest allows it by its text. The lines of a group count
where they stand in nothing that is left.
"""

import io
import json
import subprocess
import zipfile
import zlib
from pathlib import Path

from .assignment import ToWrite, package_root
from .blank import bare, code_lines
from .package import NOT_RELEASED, changed_files

__all__ = ["leaks", "telling_lines"]

SHORTEST = 12
COMMON = 3  # files of what is left with the line
_ENDLESS = 50_000_000  # bytes: no member of a release is that large


def telling_lines(assignment):
    """The lines that must not be in a release, and where each is from.

    Returns
    -------
    dict of str to str
    """
    left = _library() | changed_files(assignment)
    texts = [set(map(bare, text.splitlines())) for text in left.values()]
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
    """All files that a release could hold, by their paths."""
    root = package_root()
    paths = sorted((root / "minitorch_attn").rglob("*.py"))
    names = [path.relative_to(root) for path in paths]
    wanted = [name for name in names if name.parts[1] not in NOT_RELEASED]
    return {name.as_posix(): (root / name).read_text(encoding="utf-8") for name in wanted}


def leaks(assignment, folder):
    """What a release tells of the solution.

    Parameters
    ----------
    assignment : Assignment
    folder : path
        A release, or any folder.

    Returns
    -------
    list of str
        One sentence for each line; empty if there is none.
    """
    telling, compiled = telling_lines(assignment), _code_of(assignment)
    found = []
    for name, data in _members(Path(folder)):
        if name.endswith(".pyc"):
            found += _in_compiled(name, data, compiled)
        if name.endswith((".npy", ".npz", ".zip")):
            continue  # arrays of numbers; what an archive holds follows by itself
        for number, line in _lines(name, data):
            if line in telling:
                found.append(f"{name}:{number}: {line!r} is of {telling[line]}")
    return found


def _members(folder):
    """(name, bytes) of every file, of what archives hold, and of a repository's objects."""
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
    """All objects that git itself finds, packed ones too."""
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
    """The numbered bare lines of a text; of a notebook those of all its strings."""
    text = data.decode("utf-8", errors="replace")
    if name.endswith(".ipynb"):
        try:
            text = "\n".join(_strings(json.loads(text)))
        except ValueError:
            pass
    for number, line in enumerate(text.splitlines(), 1):
        yield number, bare(line)


def _strings(value):
    """All texts of a JSON document: cells, outputs, metadata. Lists of lines are put together."""
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
    """The bytecode of each function that is taken out, and the names that it uses."""
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
    """A compiled file has the bytecode as it is; nothing needs to be unpacked, or run."""
    for (code, names), target in compiled.items():
        if code in data and all(word in data for word in names):
            yield f"{name}: the compiled body of {target}"
