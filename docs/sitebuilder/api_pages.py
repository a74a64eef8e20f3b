"""The pages of the API reference: a table for each namespace, a page for each file.

Written before Sphinx reads its sources, from the names that the package has then.
"""

import importlib
import inspect
from pathlib import Path

from .docstrings import prepared
from .names import PACKAGE, ROOT

# Namespace -> what its page is called. A name belongs to the first that has it.
NAMESPACES = {
    "": "mt: tensors and operations",
    "autograd": "mt.autograd: derivatives and how they are checked",
    "nn": "mt.nn: layers",
    "nn.functional": "mt.nn.functional: layers as functions",
    "nn.init": "mt.nn.init: first values of parameters",
    "nn.masks": "mt.nn.masks: who may attend to whom",
    "nn.utils": "mt.nn.utils: gradients and parameters together",
    "nn.utils.rnn": "mt.nn.utils.rnn: sequences of different lengths",
    "optim": "mt.optim: optimisers",
    "optim.lr_scheduler": "mt.optim.lr_scheduler: learning rates over time",
    "linalg": "mt.linalg: norms",
    "models": "mt.models: one file per paper",
    "models.pretrained": "mt.models.pretrained: folders with weights",
    "generation": "mt.generation: greedy, beam search, sampling",
    "data": "mt.data: text, tokens, pictures, batches",
    "data.tokenizers": "mt.data.tokenizers: from text to ids and back",
    "training": "mt.training: loops, checkpoints, runs",
    "training.recipes": "mt.training.recipes: complete trainings",
    "viz": "mt.viz: pictures",
    "memory": "mt.memory: which tensor takes how much",
    "profiling": "mt.profile: where the time goes",
    "tracing": "mt.trace: every step of a run",
    "course.lesson": "minitorch_attn.course.lesson: what the lessons call",
    "backend": "minitorch_attn.backend: NumPy, CuPy and the strict device",
    "serialization": "minitorch_attn.serialization: files of weights",
    "errors": "minitorch_attn.errors: what goes wrong, and what to try",
}


def _module(dotted):
    """A module of the package; "" and "__init__" are the package itself."""
    return importlib.import_module(f"{PACKAGE}.{dotted.replace('__init__', '')}".rstrip("."))


def public_names(namespace):
    """Names that a namespace offers: its `__all__`, or else all that do not begin with `_`."""
    module = _module(namespace)
    names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
    found = {name: getattr(module, name) for name in names}
    return {
        name: value
        for name, value in found.items()
        if inspect.isclass(value) or inspect.isroutine(value)
        if (value.__module__ or "").startswith(PACKAGE)
    }


def existing_namespaces():
    """Those namespaces that this version of the package has."""
    for namespace in NAMESPACES:
        parts = (ROOT / PACKAGE).joinpath(*namespace.split("."))
        if parts.is_dir() or parts.with_suffix(".py").exists():
            yield namespace


def plan():
    """(namespace -> file -> canonical names to list, file -> canonical names to document)."""
    tables, files, canonical = {}, {}, {}
    for namespace in existing_namespaces():
        for name, value in public_names(namespace).items():
            full = f"{namespace}.{name}".lstrip(".")
            first = canonical.setdefault(id(value), _own_name(value, full))
            file = value.__module__.removeprefix(PACKAGE).lstrip(".") or "__init__"
            tables.setdefault(namespace, {}).setdefault(file, set()).add(first)
            files.setdefault(file, set()).add(first)
    return tables, files


def _own_name(value, name):
    """The name to document a value under: for a class the one that it was given as a class."""
    if not inspect.isclass(value) or name.rpartition(".")[2] == value.__name__:
        return name
    for namespace in existing_namespaces():
        if public_names(namespace).get(value.__name__) is value:
            return f"{namespace}.{value.__name__}".lstrip(".")
    return name


def title(text, underline="="):
    """Lines of a heading."""
    return [text, underline * len(text), ""]


def namespace_page(namespace, table):
    """The table of a namespace: its names, file by file, with the first line of each."""
    module = _module(namespace)
    lines = title(NAMESPACES[namespace])
    lines += [f".. py:module:: {module.__name__}", "", ".. py:currentmodule:: None", ""]
    lines += [*_docstring(module), ""]
    if namespace == "":
        lines += _dtypes(module)
    for name, value in public_names(namespace).items():
        if inspect.isclass(value) and _own_name(value, name) != f"{namespace}.{name}".lstrip("."):
            if value.__name__ != name:
                target = f"{PACKAGE}.{_own_name(value, name)}"
                lines += [f"``{name}`` is another name of :class:`~{target}`.", ""]
    for file, names in sorted(table.items()):
        lines += [f".. rubric:: :doc:`{file} <files/{file}>`", ""]
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   ~{PACKAGE}.{name}" for name in sorted(names)] + [""]
    return lines


def _docstring(module):
    return prepared((inspect.getdoc(module) or "").split("\n"))


def _dtypes(module):
    kinds = {}
    for name, value in vars(module).items():
        if type(value).__module__.startswith("numpy"):
            kinds.setdefault(value.name, []).append(f"``mt.{name}``")
    names = "; ".join(" = ".join(same) for same in kinds.values())
    return [f"Dtypes, which are NumPy's: {names}.", ""]


def file_page(file, names):
    """Everything public that a file defines, in the order of the file."""
    module = _module(file)
    lines = title(file) + [*_docstring(module), ""]
    for name in sorted(names, key=_line_of):
        value = _value(name)
        kind = "autoclass" if inspect.isclass(value) else "autofunction"
        lines += [f".. {kind}:: {PACKAGE}.{name}"]
        if kind == "autoclass":
            lines += ["   :members:", "   :member-order: bysource"]
            lines += ["   :inherited-members: object"] if name == "Tensor" else []
        lines += [""]
    return lines


def _value(name):
    namespace, _, last = name.rpartition(".")
    return getattr(_module(namespace), last)


def _line_of(name):
    try:
        return inspect.getsourcelines(inspect.unwrap(_value(name)))[1]
    except (OSError, TypeError):
        return 0


def pages():
    """Name of a page in `docs/api` -> its text."""
    tables, files = plan()
    written = {"index.rst": title("API reference")}
    written["index.rst"] += [
        "Names follow PyTorch. ``import minitorch_attn as mt`` gives all of them; what is written",
        "out here with ``minitorch_attn`` has to be imported from there. Each name leads to its",
        "arguments and to its source text.",
        "",
        ".. toctree::",
        "   :maxdepth: 1",
        "",
    ]
    for namespace, table in tables.items():
        page = namespace or "mt"
        written["index.rst"].append(f"   {page}")
        written[f"{page}.rst"] = namespace_page(namespace, table)
    written["index.rst"] += ["   files/index", ""]
    written["files/index.rst"] = title("The same by file") + [".. toctree::", "   :maxdepth: 1", ""]
    for file in sorted(files):
        written["files/index.rst"].append(f"   {file}")
        written[f"files/{file}.rst"] = file_page(file, files[file])
    return {name: "\n".join(lines) + "\n" for name, lines in written.items()}


def write(app):
    """Write what has changed; remove pages of files that are no more."""
    folder = Path(app.srcdir) / "api"
    texts = {folder / name: text for name, text in pages().items()}
    for path in folder.rglob("*.rst"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app):
    """Write the pages as soon as the source folder is known."""
    app.connect("builder-inited", write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
