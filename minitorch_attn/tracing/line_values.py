"""Values that a statement reads and writes, found without running any of its code."""

import ast
from types import ModuleType

import numpy as np

from ..backend import is_array
from ..tensor import Tensor

__all__ = ["computes", "header_of", "held_array", "read", "targets_of", "values_read"]

_MISSING = object()
_HEADERS = {ast.For: "iter", ast.While: "test", ast.If: "test"}
_WORK = (ast.BinOp, ast.Call, ast.UnaryOp, ast.Compare, ast.AugAssign, ast.Lambda)


def computes(statement):
    """Return True if a statement computes a value. Loops and definitions do not count."""
    if isinstance(statement, (ast.For, ast.FunctionDef, ast.ClassDef)):
        return False
    return any(isinstance(node, _WORK) for node in ast.walk(statement))


def header_of(statement):
    """Return the part that is recorded as a step: an `if`'s condition, or a whole statement."""
    name = next((name for kind, name in _HEADERS.items() if isinstance(statement, kind)), None)
    return statement if name is None else getattr(statement, name)


def values_read(statement, frame):
    """Return the arrays and floats that a statement reads, each as a pair (source text, value).

    Parameters
    ----------
    statement : ast.AST
    frame : frame
        Frame in which the statement is about to run.

    Returns
    -------
    list of (str, array, Tensor or float)
        Pairs in the order in which they appear in the statement, without repetition.
    """
    found = {}
    for node in _expressions(statement):
        text, value = _longest(node, frame)
        if text is not None and text not in found:
            for part in held_array(value):
                found.setdefault(text, part)
    return list(found.items())


def targets_of(statement):
    """Return the expressions to which a statement assigns."""
    if isinstance(statement, ast.Assign):
        nodes = statement.targets
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        nodes = [statement.target]
    else:
        nodes = []
    return [part for node in nodes for part in _parts(node)]


def _parts(target):
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for element in target.elts for part in _parts(element)]
    if isinstance(target, ast.Subscript):  # x[i] = y changes x
        return [target.value]
    return [target]


def _expressions(statement):
    """Return the names, attributes and subscripts that a statement reads, outermost first."""
    if header_of(statement) is not statement:
        roots = [header_of(statement)]
    elif isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
        roots = []
    elif isinstance(statement, ast.Assign):
        roots = [statement.value]
    elif isinstance(statement, ast.AugAssign):
        roots = [statement.target, statement.value]
    else:
        roots = [statement]
    found = []
    for root in roots:
        _collect(root, found, top=root)
    return found


def _collect(node, found, top):
    if isinstance(node, ast.Lambda) and node is not top:  # its body runs later, if at all
        return
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        found.append(node)
    if isinstance(node, ast.Subscript):
        _collect(node.slice, found, top)
    inner = node
    while isinstance(inner, (ast.Attribute, ast.Subscript)):
        inner = inner.value
    if inner is not node:
        _collect(inner, found, top) if not isinstance(inner, ast.Name) else None
        return
    for child in ast.iter_child_nodes(node):
        _collect(child, found, top)


def _longest(node, frame):
    """Find the longest prefix of an expression whose value is or contains an array or a float.

    Return the prefix as source text, and its value. The prefixes of `a.b["c"]` are
    `a.b["c"]`, `a.b` and `a`.
    """
    while isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        value = read(node, frame)
        if held_array(value):
            return ast.unparse(node), value
        node = getattr(node, "value", None)
    return None, None


def read(node, frame):
    """Read a variable, an attribute or an item (`a[0]`) without calling properties or methods.

    Returns
    -------
    object
        None if the value cannot be read in this way.
    """
    value = _read(node, frame)
    return None if value is _MISSING else value


def _read(node, frame):
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        local = frame.f_locals.get(node.id, _MISSING)
        return frame.f_globals.get(node.id, _MISSING) if local is _MISSING else local
    if isinstance(node, ast.Attribute):
        holder = _read(node.value, frame)
        return getattr(holder, "__dict__", {}).get(node.attr, _MISSING)
    if isinstance(node, ast.Subscript):
        holder, index = _read(node.value, frame), _read(node.slice, frame)
        if type(holder) in (dict, list, tuple) and isinstance(index, (str, int)):
            try:
                return holder[index]
            except (KeyError, IndexError):
                return _MISSING
    return _MISSING


def held_array(value, depth=0):
    """Return the arrays, tensors and floats that a value is or contains.

    A tuple or list of at most eight items is searched item by item. From any other object, take the
    attribute `data` if it is an array or a float, or else the first attribute that is an array.

    Parameters
    ----------
    value : object
    depth : int
        Number of tuples and lists around `value`. Only the outermost tuple or list is searched.

    Returns
    -------
    list of array, Tensor or float

    Examples
    --------
    >>> held_array((np.ones(2), "text", 3))
    [array([1., 1.])]
    """
    if is_array(value) or isinstance(value, (Tensor, float, np.generic)):
        return [value]
    if type(value) in (tuple, list) and depth == 0 and len(value) <= 8:
        return [array for part in value for array in held_array(part, 1)]
    fields = getattr(value, "__dict__", None)
    if isinstance(value, (type, ModuleType)) or type(fields) is not dict:
        return []
    data = fields.get("data", _MISSING)
    fitting = [data] if is_array(data) or isinstance(data, (float, np.generic)) else []
    return fitting or [part for part in fields.values() if is_array(part)][:1]
