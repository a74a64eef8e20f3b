"""Source places: the expression that a step computes, and the lines of code around it."""

import ast
import linecache
import os
import sys
from functools import cached_property, lru_cache
from itertools import islice

from ..autograd.op_log import definition, passes_on

__all__ = ["PACKAGE", "Place", "definitions", "here", "position_of"]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OPS = os.path.join(PACKAGE, "ops") + os.sep
# Files that implement operations. Frames outside these files use the operations.
_MACHINERY = tuple(
    os.path.join(PACKAGE, name)
    for name in ("autograd", "backend", "ops", "tensor.py", "methods", "tracing")
)
_MOST_LINES = 15  # maximum number of lines of code around a step


class Place:
    """A line of source code, the lines around it, and the expression that was running.

    Parameters
    ----------
    file : str
    line : int
    function : str
    position : (int, int, int, int) or (code, int), optional
        First line, first column, last line and end column of the expression, with columns in
        bytes of UTF-8, as in `ast`. Alternatively, the code object and the offset of the running
        instruction. The position is then computed only when needed, so recording is fast.

    Attributes
    ----------
    file : str
        Path relative to the current folder or to this package's parent folder, with forward
        slashes. "Cell In[3]" for a cell of a notebook.
    line : int
    function : str
    """

    def __init__(self, file, line, function, position=None):
        self.path, self.line, self.function = file, line, function
        self.file = _cell(file) or _short(file, os.getcwd())
        self._position = position

    @classmethod
    def of(cls, frame):
        """Return the expression that a frame is running, or None if `frame` is None."""
        if frame is None:
            return None
        code = frame.f_code
        return cls(code.co_filename, frame.f_lineno, code.co_name, (code, frame.f_lasti))

    @cached_property
    def span(self):
        """First line, first column, last line and end column of the expression that was running.

        Lines are counted from 1 and columns from 0, in characters. None if the position is
        unknown: Python was started with `-X no_debug_ranges`, or there is no source.
        """
        position = self._position
        if position is not None and len(position) == 2:
            code, offset = position
            first, last, column, end = next(islice(code.co_positions(), offset // 2, None))
            position = (first, column, last, end)
        if position is None or None in position:
            return None
        first, column, last, end = _whole_chain(self.path, *position)
        column, end = self._characters(first, column), self._characters(last, end)
        return None if column is None or end is None else (first, column, last, end)

    def _characters(self, line, column):
        """Convert a column from bytes to characters. Return None if the line ends before it."""
        text = linecache.getline(self.path, line).rstrip("\n").encode()
        return None if column > len(text) else len(text[:column].decode(errors="replace"))

    @property
    def first(self):
        """Number of the first line in `text`."""
        first = min(self.line, self.span[0] if self.span else self.line) - 1
        return max(first, self.line - _MOST_LINES // 2)

    @property
    def text(self):
        """Source lines of the expression, with one line before it and one line after it."""
        last = max(self.line, self.span[2] if self.span else self.line) + 1
        return [
            linecache.getline(self.path, number).rstrip() if number > 0 else ""
            for number in range(self.first, min(last, self.line + _MOST_LINES // 2) + 1)
        ]

    @property
    def source(self):
        """Source text of this line."""
        return linecache.getline(self.path, self.line).strip()

    def __str__(self):
        return f"{self.file}:{self.line}"


def _whole_chain(path, first, column, last, end):
    """Extend the position of a method call to the start of the whole chain of calls.

    If `x.exp().sum()` is written over several lines, the position that Python stores for the call
    of `sum` starts at `sum`.
    """
    position = (first, column, last, end)
    if not linecache.getline(path, first).encode()[:column].endswith(b"."):
        return position
    return _chains("".join(linecache.getlines(path))).get((last, end), position)


@lru_cache(maxsize=8)
def _chains(source):
    """Return {(last line, end column): position} for each attribute access and method call."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:  # for example, a notebook cell with IPython commands
        return {}
    return {
        (node.end_lineno, node.end_col_offset): position_of(node)
        for node in nodes
        if isinstance(getattr(node, "func", node), ast.Attribute)
    }


def position_of(node):
    """Return the position of a syntax node in the form that `Place` expects."""
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _cell(file):
    """Return the name that tracebacks give to an IPython or Jupyter cell; None for other files."""
    if "ipykernel_" not in file and not file.startswith("<ipython"):
        return None
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)(file)
    return None if named is None else " ".join(named)


@lru_cache(maxsize=256)
def _short(file, folder):
    """Return a path with forward slashes, relative to `folder` or to this package's parent folder.

    The path of a file outside these folders is not shortened.
    """
    for start in (folder, os.path.dirname(PACKAGE)):
        if file.startswith(start + os.sep):
            file = os.path.relpath(file, start)
    return file.replace(os.sep, "/")


def here():
    """Find the code that called the running operation.

    Returns
    -------
    source : Place
        Innermost expression that uses the operation: in your code, in a layer, or, for a fused
        operation that runs step by step, in its composed version or its backward.
    called_at : Place
        Innermost expression outside this package.
    names : dict of int to str
        Variables in the function that contains `source`, as {id of the value: name}.
    """
    frame, used = sys._getframe(1), None
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if used is None and _uses(code):
            used = frame
        if not file.startswith(PACKAGE + os.sep):
            break
        frame = frame.f_back
    names = {}
    if used is not None:
        for name, value in used.f_locals.items():
            if hasattr(value, "dtype") or isinstance(value, float):
                names.setdefault(id(value), name)
    return Place.of(used), Place.of(frame or used), names


def _uses(code):
    """Return True if this code calls operations, and is not the machinery that runs operations.

    A wrapper that only passes a call on does not count as code that calls an operation.
    """
    if not code.co_filename.startswith(_MACHINERY):
        return not passes_on(code)
    # An operation's methods in `ops/` call other operations. Their first argument is `ctx`.
    first = code.co_varnames[0] if code.co_argcount else ""
    return first == "ctx" and code.co_filename.startswith(_OPS)


def definitions(function):
    """Return the lines at which a Function's forward and backward are defined.

    Returns
    -------
    (Place or None, Place or None)
    """
    if function is None:
        return None, None
    found = (definition(function.forward), definition(function.backward))
    return tuple(None if at is None else Place(at.file, at.number, at.function) for at in found)
