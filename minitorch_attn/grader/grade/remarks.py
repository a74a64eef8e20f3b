"""Remarks: parts of a submission that need human review, because no check can judge them.

Complex numbers: a small step along the imaginary axis, `imag(f(x + 1e-30j * g)) / 1e-30`, gives the
exact derivative of f in the direction g. If the Jacobian is symmetric, as for the softmax, this is
also the gradient, computed with one forward pass. A submission that uses this trick therefore
passes the checks although the student derived nothing. The grader finds code that uses complex
numbers, and a person decides whether the trick was used.
"""

import ast
import threading

__all__ = ["remarks"]

_COMPLEX = {
    "complex", "complex64", "complex128", "cdouble", "csingle", "clongdouble", "cmath", "imag",
    "real", "emath", "scimath", "angle", "conj", "conjugate", "eigvals", "fft", "roots",
}  # fmt: skip
_INDIRECT = {"eval", "exec", "compile", "__import__", "getattr", "import_module"}
# Python 3.11 has one depth counter for the syntax trees of all threads. It raises SystemError if a
# garbage collection lets a second thread build a tree at the same time (python/cpython#106905).
_PARSING = threading.Lock()


def remarks(files, starter=None):
    """List the places in a submission that a person should look at.

    Parameters
    ----------
    files : dict of str to bytes
        Content of each submitted file, by path.
    starter : dict of str to bytes, optional
        Files that students start from. Words that occur in them are not reported.

    Returns
    -------
    list of str

    Examples
    --------
    >>> remarks({"softmax.py": b"def backward(g, x): return f(x + 1e-30j * g).imag"})
    ['uses complex numbers: softmax.py, line 1 (1e-30j, imag)']
    """
    found = []
    for name, data in files.items():
        for said, words in (("uses complex numbers", _complex), ("runs hidden code", _indirect)):
            known = {word for _, word in _places((starter or {}).get(name, b""), words)}
            places = [place for place in _places(data, words) if place[1] not in known]
            if places:
                named = ", ".join(dict.fromkeys(word for _, word in places[:5]))
                found.append(f"{said}: {name}, line {places[0][0]} ({named})")
    return found


def _places(data, words):
    """Return sorted pairs (line, word): the words that the function `words` finds in a file."""
    try:
        with _PARSING:
            tree = ast.parse(data)
        return sorted({(node.lineno, word) for node, word in words(tree)})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # a file that cannot be parsed cannot run either


def _complex(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, complex):
            yield node, f"{node.value.imag:g}j"
        else:
            yield from ((node, name) for name in _names(node) if name in _COMPLEX)


def _indirect(tree):
    """Yield calls that let code use names that do not appear in the source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from ((node, name) for name in _names(node.func) if name in _INDIRECT)


def _names(node):
    """Return the names in a syntax tree node: variables, attributes, imports and strings."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Import | ast.ImportFrom):
        parts = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
        return [word for part in parts for word in part.split(".")]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return []
