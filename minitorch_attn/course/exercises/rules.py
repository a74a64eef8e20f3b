"""What a solution may use, read from its syntax tree.

The rules keep a solution to the task: its gradient is to be written, not to be taken from the
library or from differences. They are a help for the honest, not a barrier: what is judged is the
arrays that the file computes.
"""

import ast

__all__ = ["function_classes", "not_python", "rule_broken"]

_MODULES = {"__future__", "functools", "itertools", "math", "numpy", "pdb"}
_BUILTINS = {"__import__", "compile", "eval", "exec", "globals", "open"}
_RUNS = {"apply", "backward", "call", "forward", "grad", "jvp", "vjp"}


def not_python(text, name):
    """Why Python cannot read a text.

    Parameters
    ----------
    text : str
    name : str
        The file, as it is to be named.

    Returns
    -------
    str or None
        The place, the line with a caret below it, and the reason; None if it can be read.
    """
    try:
        ast.parse(text)
    except SyntaxError as error:
        reason = f"{type(error).__name__}: {error.msg}"
        if not error.lineno:
            return f"{name}: {reason}"
        line = (error.text or "").rstrip().expandtabs(1)
        start = len(line) - len(line.lstrip())
        width = error.end_offset - error.offset if error.end_lineno == error.lineno else 1
        column = min(max((error.offset or 1) - 1, start), len(line))
        width = max(1, min(width, len(line) - column))
        caret = " " * (column - start) + "^" * width
        return f"{name}:{error.lineno}: {reason}\n\n    {line.lstrip()}\n    {caret}"
    except ValueError as error:  # a null character
        return f"{name}: {error}"
    return None


def rule_broken(text, original):
    """What a solution does that the exercise does not allow.

    Parameters
    ----------
    text, original : str
        The learner's file, which Python can read, and the file as it was.

    Returns
    -------
    str or None
        A sentence with the line, or None if all is well.
    """
    tree, model = ast.parse(text), ast.parse(original)
    for part in (tree, model):
        part.body = [node for node in part.body if not _is_main(node)]  # which no check runs
    missing = set(function_classes(model)) - set(function_classes(tree))
    if missing:
        return f"the class {sorted(missing)[0]} of the exercise is gone"
    changed = _changed_function(tree, model)
    if changed:
        return f"{changed}() was changed: only the class is to be"
    for find in (_imports, _library_names, _builtins):
        known = {name for name, _ in find(model)}
        for name, line in find(tree):
            if name not in known and name not in _MODULES:
                return f"line {line}: {name} is not part of this exercise"
    return _backward_runs(tree)


def function_classes(tree):
    """The names of the classes of a file that are Functions with a forward and a backward."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
                     for base in node.bases}  # fmt: skip
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            if "Function" in bases and {"forward", "backward"} <= methods:
                found.append(node.name)
    return found


def _is_main(node):
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _changed_function(tree, model):
    """A function beside the classes that is not as it was, where classes hold the task."""
    if not function_classes(model):
        return None
    for node in model.body:
        if isinstance(node, ast.FunctionDef):
            same = [
                ast.dump(other) for other in tree.body if getattr(other, "name", 0) == node.name
            ]
            if same != [ast.dump(node)]:
                return node.name
    return None


def _imports(tree):
    """(module or module.name, line) of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module in _MODULES:
                continue
            base = "." * node.level + (node.module or "")
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def _library_names(tree):
    """(dotted name, line) of what is taken from the library: `mt.softmax`, or `mt` as a whole."""
    names = {"minitorch_attn"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname for a in node.names if a.asname and a.name == "minitorch_attn"}
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            parts, value = [node.attr], node.value
            while isinstance(value, ast.Attribute):
                parts.append(value.attr)
                value = value.value
            if isinstance(value, ast.Name) and value.id in names:
                roots.add(id(value))
                yield ".".join(["mt", *reversed(parts)]), node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names and id(node) not in roots:
            yield node.id, node.lineno


def _builtins(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _BUILTINS:
            yield node.id, node.lineno


def _backward_runs(tree):
    """Whether a `backward` runs a forward pass, or another differentiation."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != "backward":
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                if call.func.attr in _RUNS:
                    return f"line {call.lineno}: a backward is not to call .{call.func.attr}(...)"
    return None
