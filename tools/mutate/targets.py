"""Find the targets: `backward` methods, and the functions that only `backward` methods call."""

import ast
import importlib
from pathlib import Path

__all__ = ["Target", "find_targets", "public_names"]


class Target:
    """One function to mutate.

    Attributes
    ----------
    file : str
        Path relative to the package, such as "ops/softmax.py".
    name : str
        Qualified name, such as "Softmax.backward".
    owner : ast.ClassDef or None
        Class of a method. None for a function.
    node : ast.FunctionDef
    """

    def __init__(self, path, package_dir, owner, node):
        self.path = path
        self.file = path.relative_to(package_dir).as_posix()
        self.name = node.name if owner is None else f"{owner.name}.{node.name}"
        self.module = ".".join(path.relative_to(package_dir.parent).with_suffix("").parts)
        self.owner = owner
        self.node = node

    def __repr__(self):
        return f"{self.file}:{self.name}"

    def function(self):
        """Import the module and return the function object."""
        found = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = vars(found)[part]
        return getattr(found, "__func__", found)

    def code(self):
        """Compile the current syntax tree to the code object of the function."""
        body = [self.node]
        if self.owner is not None:
            body = [ast.ClassDef(self.owner.name, bases=[], keywords=[], body=body, **_PLAIN)]
            ast.copy_location(body[0], self.owner)
        code = compile(ast.Module(body, type_ignores=[]), str(self.path), "exec")
        for part in self.name.split("."):
            code = next(c for c in code.co_consts if getattr(c, "co_name", None) == part)
        return code


_PLAIN = {"decorator_list": []}
if "type_params" in ast.ClassDef._fields:  # Python 3.12
    _PLAIN["type_params"] = []


def find_targets(package_dir, folders=("ops", "nn"), only=()):
    """Return the functions to mutate in a package, sorted by file.

    Parameters
    ----------
    package_dir : Path
    folders : sequence of str
    only : sequence of str
        Relative paths of the files to search. Empty for all files.

    Returns
    -------
    list of Target
    """
    package_dir = Path(package_dir).resolve()
    modules = {path: _Module(path, package_dir) for path in sorted(package_dir.rglob("*.py"))}
    derivative_only = _derivative_only(modules.values())
    targets = []
    for path, module in modules.items():
        file = path.relative_to(package_dir)
        if file.parts[0] not in folders or (only and file.as_posix() not in only):
            continue
        for node in module.definitions.values():
            whole = (module.name, node.name) in derivative_only
            if isinstance(node, ast.FunctionDef):
                if whole:
                    targets.append(Target(path, package_dir, None, node))
                continue
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and (whole or is_backward(method)):
                    targets.append(Target(path, package_dir, node, method))
    return targets


def is_backward(method):
    """Return True for the `backward(ctx, ...)` of a Function."""
    arguments = [argument.arg for argument in method.args.args]
    return method.name == "backward" and arguments[:1] == ["ctx"]


class _Module:
    """One file: its top-level definitions, and the names that they use."""

    def __init__(self, path, package_dir):
        parts = path.relative_to(package_dir.parent).with_suffix("").parts
        self.name = ".".join(parts)
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.definitions = {
            node.name: node
            for node in self.tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        }
        self.meanings = {name: (self.name, name) for name in self.definitions}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                base = list(parts[: -node.level]) if node.level else []
                base = ".".join(base + ([node.module] if node.module else []))
                for alias in node.names:
                    self.meanings[alias.asname or alias.name] = (base, alias.name)

    def uses(self):
        """Yield each use of a name as (user, used).

        `used` is the tuple (module, name). `user` is the tuple (module, name) of the function or
        class that uses the name, `BACKWARD` for a method that computes gradients, or None if the
        name is used outside of functions and classes.
        """
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                for part in ast.iter_child_nodes(node):
                    backward = isinstance(part, ast.FunctionDef) and is_backward(part)
                    yield from self._used_in(part, BACKWARD if backward else (self.name, node.name))
            elif isinstance(node, ast.FunctionDef):
                yield from self._used_in(node, (self.name, node.name))
            elif not isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from self._used_in(node, None)

    def _used_in(self, node, user):
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in self.meanings:
                yield user, self.meanings[part.id]
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                base, name = self.meanings.get(part.value.id, (None, None))
                if base is not None:
                    yield user, (f"{base}.{name}", part.attr)


BACKWARD = "backward"


def _derivative_only(modules):
    """Return (module, name) of the functions and classes that only `backward` methods use."""
    users, public = {}, set()
    for module in modules:
        public |= {(module.name, name) for name in _listed(module.tree)}
        for user, used in module.uses():
            if user != used:
                users.setdefault(used, set()).add(user)
    found = {key for key in users if key not in public}
    while True:
        allowed = found | {BACKWARD}
        smaller = {key for key in found if users[key] <= allowed}
        if smaller == found:
            return found
        found = smaller


def public_names(path):
    """Return the names in `__all__` of a file."""
    return _listed(ast.parse(path.read_text(encoding="utf-8")))


def _listed(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
    return []
