"""Lint rules of test_lint.py for the package: functions from syntax trees to complaints."""

import ast
from pathlib import Path

PACKAGE = "minitorch_attn"

# A file may import only from its own floor and the floors before it.
FLOORS = (
    {"computes", "errors"},
    {"absent_names", "named_errors"},
    {"backend"},
    {"tensor", "methods", "formatting", "typed"},
    {"autograd"},
    {"ops"},
    {"distributed"},
    {"gradcheck"},
    {"fft", "linalg"},
    {"files", "folder_lock", "schema"},
    {"serialization"},
    {"nn"},
    {"einops", "optim"},
    {"amp"},
    {"kernels"},  # they replace operations of the floors before; the backend imports them by name
    {"models"},
    {"generation"},
    {"pretrained"},  # models/pretrained: the Hugging Face and timm interfaces, which generate
    {"utils"},
    {"backends", "cuda", "jit"},
    {"data"},
    {"training"},
    {"viz"},
    {"memory", "profiling", "tracing"},  # they draw what they have measured
    {"course"},
    {"grader"},
    {"cli", "__init__", "__main__"},
)
# The declared knot: operators and `backward` need what needs Tensor.
KNOT = {"tensor": {"ops", "autograd"}, "methods": {"ops", "autograd"}}

# What means the same on an array and on a Tensor.
COMMON_METHODS = {"sum", "mean", "reshape", "swapaxes", "call"}  # OtherOp.call takes either
COMMON_ATTRIBUTES = {"shape", "dtype", "ndim"}
PYTHON_MODULES = {"math", "operator"}
LIST_METHODS = {"append", "extend", "index"}
ARRAY_NAMES = {"xp", "np", "numpy", "cupy", "array_module"}
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}


def floor_of(name):
    """The number of the floor that holds `name`, a file or folder directly in the package."""
    return next((i for i, floor in enumerate(FLOORS) if name in floor), None)


def place_of(parts):
    """What stands on a floor: a file or folder of the package, and `pretrained` within `models`."""
    if parts[1:3] == ["models", "pretrained"]:
        return "pretrained"
    return parts[1] if len(parts) > 1 else "__init__"


def imported_modules(tree, module):
    """(line, dotted name) of every import, also inside functions; relative ones resolved.

    `module` is the dotted name of the file, with a last part `__init__` for a package. For
    `from a import b` the name is `a.b`: whether b is a module makes no difference to a floor.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            base = ".".join(base + ([node.module] if node.module else []))
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def upward_imports(tree, module):
    """Imports of a floor further down than the file's own."""
    own = place_of(module.split("."))
    if floor_of(own) is None:
        yield f"{own} has no floor: give it one in tests/lint_rules.py"
        return
    for line, name in imported_modules(tree, module):
        parts = name.split(".")
        if parts[0] != PACKAGE:
            continue
        target = place_of(parts)
        floor = floor_of(target)
        if floor is None:
            floor = floor_of("__init__")  # a name of the whole package's namespace
        if floor > floor_of(own) and target not in KNOT.get(own, ()):
            yield f"line {line}: {own} imports {name}, which stands below it"


def array_library_uses(tree):
    """NumPy or CuPy by name, where `array_module` should choose."""
    for line, name in imported_modules(tree, "none.none"):
        if name.split(".")[0] in ("numpy", "cupy"):
            yield f"line {line}: imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("np", "numpy", "cupy"):
            yield f"line {node.lineno}: uses {node.id}"


def cupy_imports(tree):
    """CuPy, which only the backend may import."""
    for line, name in imported_modules(tree, "none.none"):
        if name.split(".")[0] in ("cupy", "cupyx"):
            yield f"line {line}: imports {name}"


def pickle_uses(tree):
    """Anything that could run code while it reads a file."""
    for line, name in imported_modules(tree, "none.none"):
        if name.split(".")[0] in PICKLES:
            yield f"line {line}: imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                yield f"line {node.value.lineno}: allow_pickle is not False"


def asserts(tree):
    """`assert`, which vanishes under -O and explains nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield f"line {node.lineno}: assert"


def negatives_in_place(tree):
    """`xp.negative(x, out=y)`: several versions of NumPy are wrong where `out` is strided."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            written = len(node.args) > 1 or any(word.arg == "out" for word in node.keywords)
            if node.func.attr == "negative" and written:
                yield f"line {node.lineno}: negative(..., out=...): use `x *= -1`"


def function_classes(tree):
    """(class, its methods by name) for every class with both a forward and a backward with ctx.

    A GPU kernel is not one of them: second derivatives run the operation that it replaces.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not _is_registered(node):
            methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
            pair = [methods.get("forward"), methods.get("backward")]
            if all(m is not None and m.args.args and m.args.args[0].arg == "ctx" for m in pair):
                yield node, methods


def _is_registered(node):
    """Is this class decorated with `register(...)`, as a kernel is?"""
    calls = [d.func for d in node.decorator_list if isinstance(d, ast.Call)]
    return any(isinstance(f, ast.Name) and f.id == "register" for f in calls)


def is_fused(forward):
    """Does this forward call ctx.save_intermediate?"""
    return any(
        isinstance(n, ast.Attribute) and n.attr == "save_intermediate" for n in ast.walk(forward)
    )


def function_layout(tree):
    """What every Function class must look like."""
    for node, methods in function_classes(tree):
        names = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
        if names.index("backward") != names.index("forward") + 1:
            yield f"line {node.lineno}: {node.name}.backward is not directly under forward"
        if not ast.get_docstring(node):
            yield f"line {node.lineno}: {node.name} has no docstring"
        if is_fused(methods["forward"]) and "composed" not in methods:
            yield f"line {node.lineno}: {node.name} is fused and does not have a composed version"


def backward_vocabulary(tree):
    """Lines of a backward that would not run alike on arrays and on Tensors.

    A fused backward is free: under create_graph its composed version runs instead. Functions of the
    same file that a backward calls are held to the same list, unless they ask which of the two
    they were given.
    """
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    helpers = {n.name: n for n in functions if not _asks_for_tensors(n)}
    for node, methods in function_classes(tree):
        if is_fused(methods["forward"]):
            continue
        pending, seen = [methods["backward"]], set()
        while pending:
            function = pending.pop()
            if function.name in seen:
                continue
            seen.add(function.name)
            for line, complaint in _body_complaints(function):
                yield f"line {line}: {node.name}.backward{_through(function)} {complaint}"
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                    if call.func.id in helpers:
                        pending.append(helpers[call.func.id])


def _asks_for_tensors(function):
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _is_named(node.func, {"isinstance"}):
            if _is_named(node.args[1], {"Tensor"}):
                return True
    return False


def _through(function):
    return "" if function.name == "backward" else f" (through {function.name})"


def _body_complaints(function):
    raw, plain = _raw_names(function), _plain_names(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in ARRAY_NAMES:
            yield node.lineno, f"uses {node.id}"
        elif isinstance(node, ast.AugAssign) and not _is_named(node.target, plain):
            yield node.lineno, "changes an array in place"
        elif isinstance(node, ast.Assign) and _writes_into(node, plain):
            yield node.lineno, "writes into an array"
        elif isinstance(node, ast.Attribute) and not _allowed_attribute(node, raw):
            yield node.lineno, f"uses .{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("sum", "mean"):
                extra = [k.arg for k in node.keywords if k.arg not in ("axis", "keepdims")]
                if extra or node.args:
                    yield node.lineno, f".{node.func.attr} takes axis= and keepdims= only"


def _is_named(node, names):
    """Is this one of `names`, or an element of one?"""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id in names


def _writes_into(assignment, plain):
    targets = [t for t in assignment.targets if isinstance(t, ast.Subscript)]
    return any(not _is_named(t, plain) for t in targets)


def _plain_names(function):
    """Names that start as a list, a dict or a number: never arrays."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            value = node.value.left if isinstance(node.value, ast.BinOp) else node.value
            if isinstance(value, (ast.List, ast.ListComp, ast.Dict, ast.Constant)):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _raw_names(function):
    """Names bound to ctx.constant: arrays without a derivative, never Tensors."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_ctx(node.value, "constant"):
            for target in node.targets:
                names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return names


def _is_ctx(node, attribute=None):
    if attribute is None:
        return isinstance(node, ast.Name) and node.id == "ctx"
    return isinstance(node, ast.Attribute) and node.attr == attribute and _is_ctx(node.value)


def _allowed_attribute(node, raw):
    owner = node.value
    if _is_ctx(owner) or node.attr in COMMON_METHODS | COMMON_ATTRIBUTES | LIST_METHODS:
        return True
    return isinstance(owner, ast.Name) and owner.id in PYTHON_MODULES | raw


def module_name(path, root):
    """The dotted name of a file under `root`, which holds the package."""
    return ".".join(Path(path).relative_to(root).with_suffix("").parts)
