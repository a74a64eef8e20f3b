"""Blank out functions: remove their bodies from the source text of a module.

The signature, decorators, docstring and shape comments are kept. The comments stay in order, as a
guide for writing the body.
"""

import ast
import io
import re
import textwrap
import tokenize
from dataclasses import dataclass
from functools import lru_cache

from ...errors import ArgumentError

__all__ = ["Target", "blank", "code_lines", "functions", "replace_body"]

_SHAPE = re.compile(r"\((?:\.\.\.|[\w*/+ -]+)(?:, *(?:\.\.\.|[\w*/+ -]+))+,?\)|\(\w+,\)")


@dataclass(frozen=True)
class Target:
    """Function of the package, identified by module and name.

    Parameters
    ----------
    module : str
        Dotted module name, for example "minitorch_attn.ops.softmax".
    name : str
        Dotted name in the module, for example "Softmax.backward". Nested functions are excluded.
    """

    module: str
    name: str

    @classmethod
    def parse(cls, text):
        """Parse a name such as "minitorch_attn.ops.softmax:Softmax.backward"."""
        module, colon, name = text.partition(":")
        words = [*module.split("."), *name.split(".")]
        if not colon or words[0] != "minitorch_attn" or not all(map(str.isidentifier, words)):
            raise ArgumentError(
                "the function name is malformed or not in this package",
                got=repr(text),
                expected="minitorch_attn.module:function or minitorch_attn.module:Class.method",
            )
        return cls(module, name)

    @property
    def path(self):
        """Path of the file, for example "minitorch_attn/ops/softmax.py"."""
        return self.module.replace(".", "/") + ".py"

    def __str__(self):
        return f"{self.module}:{self.name}"


def functions(source):
    """Return the functions and methods in a file as a dict, with dotted names as keys.

    Parameters
    ----------
    source : str

    Returns
    -------
    dict of str to ast.FunctionDef
        Definitions by name, without nested functions. If a name occurs twice (a property and its
        setter), the first definition is kept.
    """
    return dict(_functions(source))


@lru_cache(maxsize=128)  # loading all assignments parses the same files a thousand times
def _functions(source):
    found = {}
    _collect(ast.parse(source), "", found)
    return found


def _collect(node, prefix, found):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.setdefault(prefix + child.name, child)
        elif isinstance(child, ast.ClassDef):
            _collect(child, f"{prefix}{child.name}.", found)
        elif isinstance(child, (ast.If, ast.Try)):
            _collect(child, prefix, found)


def blank(source, module, bodies):
    """Replace the bodies of the functions named in `bodies`, in source text.

    Parameters
    ----------
    source : str
    module : str
        Dotted name of the module, used to import `NotYetWritten`.
    bodies : dict of str to (str or None)
        New body by dotted function name. None keeps the shape comments of the old body, and puts
        `raise NotYetWritten(...)` below them.

    Returns
    -------
    str
    """
    new = {name: body or _guide(source, name) for name, body in bodies.items()}
    source = _with_bodies(source, new)
    return _with_import(source, module) if None in bodies.values() else source


def replace_body(source, name, body):
    """Replace the body of one function in source text, but keep its docstring."""
    return _with_bodies(source, {name: body})


def code_lines(source, name):
    """Return the lines of a function's body without docstring, comments or indentation.

    Returns
    -------
    list of str
        Lines without empty ones. Repeated spaces are collapsed.
    """
    first, last = _span(source, name)
    lines = source.splitlines()[first - 1 : last]
    return [line for line in map(bare, lines) if line]


def bare(line):
    """Strip the comment from a line of code and collapse repeated spaces."""
    cut = line
    for place in (match.start() for match in re.finditer("#", line)):
        before = line[:place]
        if before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
            cut = before
            break
    return " ".join(cut.split())


def _with_bodies(source, bodies):
    lines = source.splitlines()
    spans = sorted(((*_span(source, name), name) for name in bodies), reverse=True)
    for first, last, name in spans:
        column = functions(source)[name].col_offset
        body = textwrap.indent(textwrap.dedent(bodies[name]).strip("\n"), " " * (column + 4))
        lines[first - 1 : last] = body.splitlines()
    return "\n".join(lines) + "\n"


def _guide(source, name):
    """Make a body that consists of the shape comments and `raise NotYetWritten(...)`."""
    first, last = _span(source, name)
    comments = [
        text for line, text in _comments(source) if first <= line <= last and _SHAPE.search(text)
    ]
    return "\n".join([*comments, f'raise NotYetWritten("{name}")'])


def _span(source, name):
    """Return the numbers of the first and last line of a body, without its docstring."""
    node = functions(source).get(name)
    if node is None:
        raise ArgumentError("the function does not exist", got=name)
    lines = source.splitlines(keepends=True)
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if documented and isinstance(first.value.value, str):
        start = first.end_lineno + 1
        if len(node.body) == 1:
            raise ArgumentError("the function must have a body below its docstring", got=name)
    else:
        start = _header_end(lines, node.lineno) + 1
        if first.lineno < start:
            raise ArgumentError("the body must start on a new line", got=name)
    return start, node.end_lineno


def _header_end(lines, first):
    """Return the number of the last line of the function header that starts on line `first`."""
    tokens = tokenize.generate_tokens(iter(lines[first - 1 :]).__next__)
    return next(token.end[0] for token in tokens if token.type == tokenize.NEWLINE) + first - 1


@lru_cache(maxsize=128)
def _comments(source):
    """Return (line number, text) of each comment."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT]


def _with_import(source, module):
    """Add an import of `NotYetWritten` below the last import at the top of the file."""
    dots = "." * (module.count(".") or 1)
    imports = [n for n in ast.parse(source).body if isinstance(n, (ast.Import, ast.ImportFrom))]
    place = max((node.end_lineno for node in imports), default=_docstring_end(source))
    lines = source.splitlines()
    lines.insert(place, f"from {dots}errors import NotYetWritten")
    return "\n".join(lines) + "\n"


def _docstring_end(source):
    body = ast.parse(source).body
    first = body[0] if body else None
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return first.end_lineno if documented else 0
