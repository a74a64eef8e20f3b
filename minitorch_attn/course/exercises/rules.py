"""Rules for what a solution may use, checked on its syntax tree.

You must write the gradient yourself, instead of taking it from the library or from finite
differences. The rules remind you of this. They do not detect every way around the task.
"""

import ast

__all__ = ["function_classes", "not_python", "rule_broken"]

_MODULES = {"__future__", "functools", "itertools", "math", "numpy", "pdb"}
_BUILTINS = {"__import__", "compile", "eval", "exec", "globals", "open"}
_RUNS = {"apply", "backward", "call", "forward", "grad", "jvp", "vjp"}


def not_python(text, name):
    """Explain why a text is not valid Python.

    Parameters
    ----------
    text : str
    name : str
        File name to show in the message.

    Returns
    -------
    str or None
        Position, reason, and the line with a caret below it. None if the text is valid.
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
    except (ValueError, MemoryError, RecursionError) as error:  # a null character, or deep nesting
        return f"{name}: {str(error) or 'the code is nested too deeply'}"
    return None


def rule_broken(text, original):
    """Describe the first rule that a solution breaks.

    Parameters
    ----------
    text, original : str
        The learner's file, which must be valid Python, and the original file.

    Returns
    -------
    str or None
        A sentence that names the line, or None if the solution follows the rules.
    """
    tree, model = ast.parse(text), ast.parse(original)
    for part in (tree, model):
        part.body = [node for node in part.body if not _is_main(node)]  # not run by the check
    missing = set(function_classes(model)) - set(function_classes(tree))
    if missing:
        return f"the class {sorted(missing)[0]} of the exercise is missing"
    changed = _changed_function(tree, model)
    if changed:
        return f"{changed}() was changed: change only the class"
    for find in (_imports, _library_names, _builtins):
        known = {name for name, _ in find(model)}
        for name, line in find(tree):
            if name not in known and name not in _MODULES:
                return f"line {line}: {name} is not part of this exercise"
    return _backward_runs(tree)


def function_classes(tree):
    """Return the names of the `Function` subclasses that define forward and backward."""
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
    """Return whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _changed_function(tree, model):
    """Return the name of a top-level function that differs from `model`, the original file.

    Return None if no function differs. Also return None if the original has no `Function` class,
    because the learner's task is then to change a top-level function.
    """
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
    """Yield (module or module.name, line number) of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module in _MODULES:
                continue
            base = "." * node.level + (node.module or "")
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def _library_names(tree):
    """Yield (name, line number) of each use of the library, such as `mt.softmax` or `mt`."""
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
    """Describe the first forbidden call in a `backward`, such as autograd.grad(); else None."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != "backward":
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                if call.func.attr in _RUNS:
                    return f"line {call.lineno}: a backward must not call .{call.func.attr}(...)"
    return None
