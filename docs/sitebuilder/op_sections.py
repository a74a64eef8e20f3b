"""Sections on API pages for the operations of a file: formulas, and links to forward and backward.

The classes that implement operations are not public, so they have no API entry. Their docstrings
contain the derivations, which these sections show.
"""

import importlib
import inspect
import pkgutil

from minitorch_attn.autograd import Function

from .docstrings import prepared
from .names import PACKAGE


def _modules():
    """Yield the names of the modules in `ops`, without the name of the package."""
    ops = importlib.import_module(f"{PACKAGE}.ops")
    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        yield module.name.removeprefix(f"{PACKAGE}.")


def operations(file):
    """Return a file's operations in source order.

    Operations are Function subclasses whose docstring has a "Backward:" entry.
    """
    module = importlib.import_module(f"{PACKAGE}.{file}".rstrip("."))
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Function)
        if value.__module__ == module.__name__ and "Backward:" in (value.__doc__ or "")
    ]
    return sorted(found, key=lambda value: inspect.getsourcelines(value)[1])


def files():
    """Return the names of the files that define operations."""
    return [file for file in _modules() if operations(file)]


def section(operation):
    """Return the lines of an operation's section on the API page of its file."""
    name = f"{operation.__module__.removeprefix(PACKAGE + '.')}.{operation.__name__}"
    first, *rest = inspect.getdoc(operation).split("\n")
    heading = f"Backward of {operation.__name__}"
    return [
        f".. index:: ! {operation.__name__} forward",
        "",
        heading,
        "-" * len(heading),
        "",
        *prepared([first]),
        f"Source: :where:`forward <{name}.forward>`, :where:`backward <{name}.backward>`",
        "",
        ".. code-block:: none",
        "",
        *(f"   {line}".rstrip() for line in "\n".join(rest).strip("\n").split("\n")),
        "",
    ]
