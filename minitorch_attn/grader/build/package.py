"""Write the package with some function bodies removed, for students or to grade submissions."""

import py_compile
import shutil
from functools import lru_cache
from importlib.util import cache_from_source
from pathlib import Path

from .assignment import package_root
from .blank import Target, blank, functions

__all__ = ["changed_files", "solution_files", "starter_files", "write_package"]

# Files that students do not get: lessons, the grader, the commands, and the GPU kernels, which
# repeat the formulas. The package for a submission's process also lacks the files that record, draw
# or train.
NOT_RELEASED = ("course", "grader", "cli", "kernels", "__main__.py")
NOT_GRADED = (
    *NOT_RELEASED, "viz", "tracing", "profiling", "memory", "training", "data", "models/pretrained",
)  # fmt: skip
# A submission's process must not be able to differentiate. So its package does not contain finite
# differences. Unless the assignment needs the autograd engine, the package does not contain the
# engine and the backward passes either.
STEPS = "minitorch_attn.gradcheck.numeric:slopes"
ENGINE = "minitorch_attn.autograd.engine:run_backward"
_bytecode = {}  # (name, source) -> content of the compiled file


def write_package(assignment, folder, stripped=False):
    """Copy the package without the function bodies that an assignment removes.

    Parameters
    ----------
    assignment : Assignment
    folder : path
        Parent folder in which `minitorch_attn` is written.
    stripped : bool, default False
        If True, write the package for a submission's process: without functions that compute
        gradients, without parts that no check needs, and compiled except for the submitted files.
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
    """Return True for a file to copy. Skip excluded, compiled, hidden and temporary files."""
    left_out = NOT_GRADED if stripped else NOT_RELEASED
    if any(relative.is_relative_to(part) for part in left_out):
        return False
    odd = any(part == "__pycache__" or part.startswith(".") for part in relative.parts)
    return not odd and relative.suffix not in (".pyc", ".tmp", ".orig")


def _compile(path, name):
    """Compile a file so that Python never checks whether the source file has changed.

    The bytecode is cached in memory, because most files are the same in all assignments.
    """
    key, target = (name, path.read_bytes()), Path(cache_from_source(path))
    if key in _bytecode:
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(_bytecode[key])
        return
    py_compile.compile(
        str(path), dfile=name, doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )  # fmt: skip
    _bytecode[key] = target.read_bytes()


def changed_files(assignment, stripped=False):
    """Return the new text of each file in which function bodies are removed or replaced.

    Parameters
    ----------
    assignment : Assignment
    stripped : bool, default False
        Same as for `write_package`.

    Returns
    -------
    dict of str to str
        New text of each file, by path.
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
    """List the functions to remove from a stripped package, because they compute gradients.

    If `engine` is True, the checks run the library's backward passes. Then only the finite
    differences are removed.
    """
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
    """Return the files that a student starts from.

    Returns
    -------
    dict of str to str
        Text of each file in the manifest, by path.
    """
    changed = changed_files(assignment, stripped=False)
    return {
        path: changed.get(path) or (package_root() / path).read_text(encoding="utf-8")
        for path in assignment.files
    }


def solution_files(assignment, calling=""):
    """Return the library's versions of the files that a student submits.

    Parameters
    ----------
    assignment : Assignment
    calling : str
        Source code of a workaround (the body of a `[[way]]` in assignment.toml). If it contains the
        name of a function in `assignment.groups`, this function is removed, as in the starter
        files.

    Returns
    -------
    dict of str to str
        Text of each file, by path.
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
