"""Find the file and line of a dotted name in the package.

>>> place = locate("ops.softmax.Softmax.backward")
>>> place.file
'minitorch_attn/ops/softmax.py'
>>> place.text
'def backward(ctx, grad_y):'
"""

import ast
import functools
import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "minitorch_attn"
ROOT = Path(importlib.import_module(PACKAGE).__file__).resolve().parent.parent


class UnknownNameError(LookupError):
    """Raised for a name that is not in the package, or whose source line cannot be found."""


@dataclass(frozen=True)
class Place:
    """Line of the package's source code.

    `file` is its path relative to the repository root, and `text` is the line itself.
    """

    file: str
    line: int
    text: str

    def __str__(self):
        return f"{self.file}:{self.line}"

    @property
    def short(self):
        """File and line, such as "ops/softmax.py:36", without the folder of the package."""
        return str(self).removeprefix(f"{PACKAGE}/")

    @property
    def page(self):
        """Name of the site's page that shows this file."""
        return "source/" + self.file.removesuffix(".py")


@functools.cache
def locate(name):
    """Find the line that defines a name such as "nn.Linear" or "ops.softmax.Softmax.backward".

    For a class, function, method or property, this is the line of the definition, even if the
    module in `name` only imports the object, as in "nn.Linear". For another value, it is the line
    of the assignment, and for a module, line 1.
    """
    module, rest = _module(f"{PACKAGE}.{name}")
    found, owner, last = module, None, name.rpartition(".")[2]
    for part in rest:
        try:
            owner, found = found, inspect.getattr_static(found, part)
        except AttributeError:
            found = _attribute(owner := found, part, name)
    if inspect.ismodule(found):
        return _place(found.__file__, 1)
    found = inspect.unwrap(_function(found))
    if inspect.isclass(found) or inspect.isfunction(found):
        return _definition(found, name)
    if inspect.ismodule(owner):
        return _assignment(owner.__file__, last, name)
    raise UnknownNameError(f"{name} is not a class, a function, a module or a value of a module")


def _module(dotted):
    """Import the longest prefix of `dotted` that is a module; return it and the other names."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        try:
            return importlib.import_module(".".join(parts[:size])), parts[size:]
        except ModuleNotFoundError as error:
            if not dotted.startswith(error.name):
                raise
    raise UnknownNameError(f"{dotted} cannot be imported")


def _attribute(owner, part, name):
    """Look up `part` with `getattr`, which also finds names that a module imports on demand."""
    try:
        return getattr(owner, part)
    except AttributeError:
        raise UnknownNameError(f"{PACKAGE}.{name} does not exist: {part} is not found") from None


def _function(found):
    if isinstance(found, property):
        return found.fget
    return getattr(found, "__func__", found)  # static and class methods


def _definition(found, name):
    try:
        lines, first = inspect.getsourcelines(found)
    except (OSError, TypeError):
        raise UnknownNameError(f"the source of {name} is unavailable") from None
    for number, line in enumerate(lines, first):
        if re.match(r"\s*(async def|def|class) ", line):  # after the decorators
            return _place(inspect.getsourcefile(found), number)
    raise UnknownNameError(f"{name} is defined without def or class")


def _assignment(file, target, name):
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(part, ast.Name) and part.id == target
            for goal in node.targets
            for part in ast.walk(goal)
        ):
            return _place(file, node.lineno)
    raise UnknownNameError(f"{name} is not assigned in {file}")


def _place(file, line):
    file = Path(file).resolve()
    if not file.is_relative_to(ROOT / PACKAGE):
        raise UnknownNameError(f"{file} is outside {PACKAGE}")
    text = file.read_text(encoding="utf-8").splitlines()[line - 1].strip()
    return Place(file.relative_to(ROOT).as_posix(), line, text)
