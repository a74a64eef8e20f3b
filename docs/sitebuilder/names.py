"""From the dotted name of something in the package to its file and line.

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
    """A name that is not in the package, or has no line of its own."""


@dataclass(frozen=True)
class Place:
    """A line of the package: `file` is relative to the root, `text` is what stands there."""

    file: str
    line: int
    text: str

    def __str__(self):
        return f"{self.file}:{self.line}"

    @property
    def short(self):
        """The same without the folder of the package."""
        return str(self).removeprefix(f"{PACKAGE}/")

    @property
    def page(self):
        """Name of the site's page with this file."""
        return "source/" + self.file.removesuffix(".py")


@functools.cache
def locate(name):
    """The place of `name`, such as "nn.Linear", "ops.softmax.Softmax.backward" or "ops.softmax".

    Classes, functions, methods and properties are found where they are written, whatever name
    they were imported under; other values where they are assigned; modules at their first line.
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
    raise UnknownNameError(f"{name} is neither a class nor a function nor a value of a module")


def _module(dotted):
    """The longest importable beginning of `dotted`, and the names that follow it."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        try:
            return importlib.import_module(".".join(parts[:size])), parts[size:]
        except ModuleNotFoundError as error:
            if not dotted.startswith(error.name):
                raise
    raise UnknownNameError(f"{dotted} cannot be imported")


def _attribute(owner, part, name):
    """What only `getattr` finds: the names that a module imports on demand."""
    try:
        return getattr(owner, part)
    except AttributeError:
        raise UnknownNameError(f"{PACKAGE}.{name}: there is no {part}") from None


def _function(found):
    if isinstance(found, property):
        return found.fget
    return getattr(found, "__func__", found)  # static and class methods


def _definition(found, name):
    try:
        lines, first = inspect.getsourcelines(found)
    except (OSError, TypeError):
        raise UnknownNameError(f"{name} has no source") from None
    for number, line in enumerate(lines, first):
        if re.match(r"\s*(async def|def|class) ", line):  # below the decorators
            return _place(inspect.getsourcefile(found), number)
    raise UnknownNameError(f"{name} is written without def or class")


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
        raise UnknownNameError(f"{file} is outside of {PACKAGE}")
    text = file.read_text(encoding="utf-8").splitlines()[line - 1].strip()
    return Place(file.relative_to(ROOT).as_posix(), line, text)
