"""The package without some of its bodies: for students, and for the process of a submission."""

import py_compile
import shutil
from functools import lru_cache
from pathlib import Path

from .assignment import package_root
from .blank import Target, blank, functions

__all__ = ["changed_files", "solution_files", "starter_files", "write_package"]

# What only runs, records or draws, and what holds this program itself.
NOT_RELEASED = ("course", "cli", "__main__.py")
NOT_GRADED = (
    *NOT_RELEASED, "viz", "tracing", "profiling", "memory", "training", "data", "models/pretrained",
)  # fmt: skip
# Nothing may differentiate for a submission: not by steps, nor, but where its process has an
# engine, by the rules of any operation.
STEPS = "minitorch_attn.autograd.numeric:slopes"
ENGINE = "minitorch_attn.autograd.engine:run_backward"


def write_package(assignment, folder, stripped=False):
    """Copy the package without the bodies that an assignment takes out.

    Parameters
    ----------
    assignment : Assignment
    folder : path
        Gets a folder `minitorch_attn`.
    stripped : bool, default False
        For a submission's process: without an engine that differentiates, without the parts that
        no check needs, and compiled, but for the files that are handed in.
    """
    source = package_root() / "minitorch_attn"
    target = Path(folder) / "minitorch_attn"
    changed = changed_files(assignment, stripped)
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if not path.is_file() or not _is_wanted(relative, stripped):
            continue
        goal = target / relative
        goal.parent.mkdir(parents=True, exist_ok=True)
        name = f"minitorch_attn/{relative.as_posix()}"
        if name in changed:
            goal.write_text(changed[name], encoding="utf-8")
        else:
            shutil.copyfile(path, goal)
        if stripped and goal.suffix == ".py" and name not in assignment.files:
            _compile(goal, name)


def _is_wanted(relative, stripped):
    """Python files and package data; nothing compiled, hidden or half-written."""
    left_out = NOT_GRADED if stripped else NOT_RELEASED
    if any(relative.is_relative_to(part) for part in left_out):
        return False
    odd = any(part == "__pycache__" or part.startswith(".") for part in relative.parts)
    return not odd and relative.suffix not in (".pyc", ".tmp", ".orig")


def _compile(path, name):
    """Compile a file once and for all: it is never looked at again, nor is its time."""
    py_compile.compile(
        str(path), dfile=name, doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )  # fmt: skip


def changed_files(assignment, stripped=False):
    """The text of each file that loses bodies.

    Parameters
    ----------
    assignment : Assignment
    stripped : bool, default False
        As of `write_package`.

    Returns
    -------
    dict of str to str
        By their paths.
    """
    bodies = {}
    for part in assignment.blanks:
        bodies.setdefault(part.target.module, {})[part.target.name] = None
    for part in assignment.groups:
        bodies.setdefault(part.target.module, {})[part.target.name] = part.body
    for target in _differentiating(assignment.engine) if stripped else ():
        bodies.setdefault(target.module, {}).setdefault(target.name, None)
    texts = {}
    for module, wanted in bodies.items():
        path = module.replace(".", "/") + ".py"
        text = (package_root() / path).read_text(encoding="utf-8")
        texts[path] = blank(text, module, wanted)
    return texts


@lru_cache(maxsize=2)
def _differentiating(engine):
    """Whatever derives something in the package; with an engine, what does without it."""
    found = [Target.parse(text) for text in ((STEPS,) if engine else (STEPS, ENGINE))]
    if engine:
        return tuple(found)
    root = package_root()
    for path in sorted((root / "minitorch_attn").rglob("*.py")):
        name = path.relative_to(root)
        if not _is_wanted(name.relative_to("minitorch_attn"), stripped=True):
            continue
        module = ".".join(name.with_suffix("").parts)
        known = functions(path.read_text(encoding="utf-8"))
        found += [Target(module, text) for text in known if text.endswith(".backward")]
    return tuple(found)


def starter_files(assignment):
    """The files that a student begins with.

    Returns
    -------
    dict of str to str
        By their paths: those of the manifest.
    """
    changed = changed_files(assignment, stripped=False)
    return {
        path: changed.get(path) or (package_root() / path).read_text(encoding="utf-8")
        for path in assignment.files
    }


def solution_files(assignment, calling=""):
    """The library's own files in the places of a student's.

    Parameters
    ----------
    assignment : Assignment
    calling : str
        The text of a way round the work: the functions of a group that it names are taken out, as
        they are of the files that a student begins with.

    Returns
    -------
    dict of str to str
    """
    found = {}
    for path in assignment.files:
        text = (package_root() / path).read_text(encoding="utf-8")
        groups = {
            group.target.name: group.body
            for group in assignment.groups
            if group.target.path == path and group.target.name.split(".")[-1] in calling
        }
        module = path.removesuffix(".py").replace("/", ".")
        found[path] = blank(text, module, groups) if groups else text
    return found
