"""Search the source code for functions that are declared to compute the same (`@computes`)."""

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...errors import DataError
from .blank import Target

__all__ = ["Declared", "alike", "declarations"]


@dataclass(frozen=True)
class Declared:
    """Function that is declared with `@computes(...)`, directly or through its class."""

    target: Target
    computes: tuple
    reveals: tuple = ()


@lru_cache(maxsize=4)
def declarations(root):
    """Find every function of the package under `root` with a `@computes(...)` declaration."""
    found = []
    for path in sorted(Path(root, "minitorch_attn").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "@computes(" in text:
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            found += _declared(ast.parse(text), module, "", ())
    return tuple(found)


def _declared(node, module, prefix, inherited):
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        name = prefix + child.name
        own = _arguments(child, module, name) or inherited
        if isinstance(child, ast.ClassDef):
            yield from _declared(child, module, f"{name}.", own)
        elif own:
            yield Declared(Target(module, name), *own)


def _arguments(node, module, name):
    """Return (computes, reveals) from a `@computes(...)` decorator, or () if there is none."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "computes":
            try:
                names = tuple(map(ast.literal_eval, decorator.args))
                reveals = {k.arg: ast.literal_eval(k.value) for k in decorator.keywords}
            except ValueError:
                raise DataError(
                    f"{module}:{name}: the arguments of @computes(...) must be literal strings",
                    got=ast.unparse(decorator),
                    hint='write for example @computes("attention", reveals=("softmax",))',
                ) from None
            return names, tuple(reveals.get("reveals", ()))
    return ()


def alike(written, root):
    """Find functions that compute or reveal what students must write in other functions.

    Parameters
    ----------
    written : collection of Target
    root : Path
        Parent folder of the package.

    Returns
    -------
    dict of Target to str
        Maps each function found, which is never in `written`, to the computation that it performs
        or reveals.
    """
    known = declarations(root)
    wanted = {name for entry in known if entry.target in written for name in entry.computes}
    found = {}
    for entry in known:
        same = [name for name in (*entry.computes, *entry.reveals) if name in wanted]
        if same and entry.target not in written:
            found[entry.target] = same[0]
    return found
