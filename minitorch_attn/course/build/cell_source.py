"""Functions from notebook cells: find their source, and put it into the learner's file."""

import ast
import inspect
import linecache
import textwrap
from dataclasses import dataclass

from .steps import functions_of, unwritten

__all__ = ["CellSource", "cell_source", "function_text", "with_function"]

_HELPERS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
_DECORATOR = "add_to"


@dataclass(frozen=True)
class CellSource:
    """A function that a notebook cell defines.

    Parameters
    ----------
    text : str
        The function, without the decorator `add_to`.
    line : int
        Line number in the cell where `text` starts: the line of `def` or of a decorator.
    helpers : tuple of str
        Other definitions and imports of the same cell that the function uses.
    """

    text: str
    line: int
    helpers: tuple = ()

    @property
    def is_written(self):
        """Whether the function does more than raise NotImplementedError."""
        return not unwritten(self.text)


def cell_source(function, namespace):
    """Find the source of a function in the notebook cell that last defined it.

    Parameters
    ----------
    function : object
    namespace : dict
        Global namespace of the notebook. Functions that its cells did not define are not found.

    Returns
    -------
    CellSource, or None if no cell defines the function
    """
    function = inspect.unwrap(function) if callable(function) else None
    code = getattr(function, "__code__", None)
    if code is None or function.__globals__ is not namespace:
        return None
    cell = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _first_line(node) == code.co_firstlineno:
            kept = [item for item in node.decorator_list if not _is_add_to(item)]
            line = kept[0].lineno if kept else node.lineno
            text = "\n".join(cell.split("\n")[line - 1 : node.end_lineno])
            return CellSource(text, line, tuple(_helpers(node, tree, cell)))
    return None


def _first_line(node):
    """Return the number of the statement's first line, including its decorators."""
    return min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])


def _is_add_to(node):
    function = node.func if isinstance(node, ast.Call) else node
    return getattr(function, "attr", getattr(function, "id", None)) == _DECORATOR


def _helpers(function, tree, cell):
    """Return the source of a cell's other definitions that a function uses, even indirectly."""
    known = [
        node for node in tree.body
        if node is not function and isinstance(node, _HELPERS)
        and not any(map(_is_add_to, getattr(node, "decorator_list", ())))
    ]  # fmt: skip
    used, chosen, size = _loads(function), [], -1
    while len(chosen) > size:
        size = len(chosen)
        chosen = [node for node in known if used & _names(node)]
        used = used.union(*map(_loads, chosen))
    return ["\n".join(cell.split("\n")[_first_line(n) - 1 : n.end_lineno]) for n in chosen]


def _loads(node):
    return {item.id for item in ast.walk(node)
            if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)}  # fmt: skip


def _names(node):
    """Return the names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(item.asname or item.name).partition(".")[0] for item in node.names}
    return {item.id for item in ast.walk(node)
            if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}  # fmt: skip


# The file


def function_text(text, name):
    """Return a function's text without indentation, or "" if the file does not define it.

    Parameters
    ----------
    text : str
        Valid Python.
    name : str
        Name of the function, such as "softmax" or "Tensor.sum".

    Returns
    -------
    str
    """
    node = functions_of(text).get(name)
    if node is None:
        return ""
    return textwrap.dedent("\n".join(text.split("\n")[_first_line(node) - 1 : node.end_lineno]))


def with_function(text, name, source):
    """Put a cell's function and its helpers into a file's text, and return the new text.

    Parameters
    ----------
    text : str
        Valid Python. If `name` is a method whose class is missing, the text is not changed.
    name : str
    source : CellSource

    Returns
    -------
    str

    Examples
    --------
    >>> cell = CellSource("def f():\\n    return 2", line=1)
    >>> with_function("x = 1\\ndef f():\\n    raise NotImplementedError\\n", "f", cell)
    'x = 1\\ndef f():\\n    return 2\\n'
    """
    node = functions_of(text).get(name)
    prefix, _, _ = name.rpartition(".")
    if node is not None:
        text = _replaced(text, _first_line(node), node.end_lineno, source.text, node.col_offset)
    elif prefix:
        holders = [n for n in ast.parse(text).body if getattr(n, "name", None) == prefix]
        if not holders:
            return text  # the check will report that the function is missing
        (*_, holder) = holders
        end = holder.end_lineno
        text = _replaced(text, end + 1, end, f"\n{source.text}", holder.body[0].col_offset)
    else:
        text = f"{text.rstrip()}\n\n\n{source.text}\n"
    for helper in source.helpers:
        text = _with_helper(text, name.partition(".")[0], helper)
    return text


def _with_helper(text, before, helper):
    """Put a helper into a file's text: in place of its earlier version, or above `before`."""
    tree, (new,) = ast.parse(text), ast.parse(helper).body
    same = [node for node in tree.body if isinstance(node, _HELPERS) and _names(node) & _names(new)]
    if any(ast.dump(node) == ast.dump(new) for node in same):
        return text
    for node in same:
        if isinstance(node, type(new)) and _names(node) == _names(new):
            return _replaced(text, _first_line(node), node.end_lineno, helper, 0)
    place = next(node for node in tree.body if getattr(node, "name", None) == before)
    return _replaced(text, _first_line(place), _first_line(place) - 1, f"{helper}\n\n", 0)


def _replaced(text, first, last, new, indent):
    """Replace lines `first` to `last`, counted from 1, with `new`, indented by `indent`."""
    lines = text.split("\n")
    lines[first - 1 : last] = textwrap.indent(new, " " * indent).split("\n")
    return "\n".join(lines)
