"""Take the bodies of functions out of source text, by the positions that the parser gives.

Signature, decorators and docstring stay, and so do the comments that tell shapes, in their order:
they are the guide of whoever writes the body anew.
"""

import ast
import io
import re
import textwrap
import tokenize
from dataclasses import dataclass

from ...errors import ArgumentError

__all__ = ["Target", "blank", "code_lines", "functions", "replace_body"]

_SHAPE = re.compile(r"\((?:\.\.\.|[\w*/+ -]+)(?:, *(?:\.\.\.|[\w*/+ -]+))+,?\)|\(\w+,\)")


@dataclass(frozen=True)
class Target:
    """A function of the package.

    Parameters
    ----------
    module : str
        "minitorch_attn.ops.softmax"
    name : str
        "Softmax.backward": through classes, not through functions.
    """

    module: str
    name: str

    @classmethod
    def parse(cls, text):
        """Read "minitorch_attn.ops.softmax:Softmax.backward"."""
        module, colon, name = text.partition(":")
        words = [*module.split("."), *name.split(".")]
        if not colon or words[0] != "minitorch_attn" or not all(map(str.isidentifier, words)):
            raise ArgumentError(
                "this names no function of the package.",
                got=repr(text),
                expected="minitorch_attn.module:function or minitorch_attn.module:Class.method",
            )
        return cls(module, name)

    @property
    def path(self):
        """The file, below the folder that holds the package: "minitorch_attn/ops/softmax.py"."""
        return self.module.replace(".", "/") + ".py"

    def __str__(self):
        return f"{self.module}:{self.name}"


def functions(source):
    """The functions and methods of a file by their dotted names.

    Parameters
    ----------
    source : str

    Returns
    -------
    dict of str to ast.FunctionDef
        Of two with one name (a property and its setter) the first; none from inside functions.
    """
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
    """Source text without some of its bodies.

    Parameters
    ----------
    source : str
    module : str
        The dotted name of its module, for the import of the error.
    bodies : dict of str to (str or None)
        The dotted names of functions, and what is to stand in the place of their bodies; None for
        `raise NotYetWritten(...)` below the shape comments of the old one.

    Returns
    -------
    str
    """
    new = {name: body or _guide(source, name) for name, body in bodies.items()}
    source = _with_bodies(source, new)
    return _with_import(source, module) if None in bodies.values() else source


def replace_body(source, name, body):
    """Source text with another body of one function; its docstring stays."""
    return _with_bodies(source, {name: body})


def code_lines(source, name):
    """The lines of a function's body, below its docstring, without comments and indentation.

    Returns
    -------
    list of str
        Single-spaced; none that is empty.
    """
    first, last = _span(source, name)
    lines = source.splitlines()[first - 1 : last]
    return [line for line in map(bare, lines) if line]


def bare(line):
    """A line of code without its comment, and with single spaces."""
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
    """The shape comments of a body, and the error."""
    comments = [text for text in _comments(source, *_span(source, name)) if _SHAPE.search(text)]
    return "\n".join([*comments, f'raise NotYetWritten("{name}")'])


def _span(source, name):
    """First and last line of a body below its docstring, counted from 1."""
    node = functions(source).get(name)
    if node is None:
        raise ArgumentError("there is no such function.", got=name)
    lines = source.splitlines(keepends=True)
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if documented and isinstance(first.value.value, str):
        start = first.end_lineno + 1
        if len(node.body) == 1:
            raise ArgumentError("this function has a docstring and no body.", got=name)
    else:
        start = _header_end(lines, node.lineno) + 1
        if first.lineno < start:
            raise ArgumentError("this function stands on one line.", got=name)
    return start, node.end_lineno


def _header_end(lines, first):
    """The line on which the header that begins on line `first` ends."""
    tokens = tokenize.generate_tokens(iter(lines[first - 1 :]).__next__)
    return next(token.end[0] for token in tokens if token.type == tokenize.NEWLINE) + first - 1


def _comments(source, first, last):
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    inside = (t for t in tokens if t.type == tokenize.COMMENT and first <= t.start[0] <= last)
    return [token.string for token in inside]


def _with_import(source, module):
    """Import the error below the last import at the top of the file."""
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
