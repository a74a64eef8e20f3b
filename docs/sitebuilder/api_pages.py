"""API reference: write one page for each namespace, and one page for each file.

The page of a namespace has one table for each file that defines names of it. The pages are written
from the package's current names before Sphinx reads its sources.
"""

import importlib
import inspect
from pathlib import Path

from . import op_sections
from .docstrings import prepared
from .names import PACKAGE, ROOT

# Namespace -> title of its page. A name belongs to the first namespace that contains it.
NAMESPACES = {
    "": "mt: tensors and operations",
    "autograd": "mt.autograd: derivatives",
    "gradcheck": "mt.gradcheck: gradient checks",
    "nn": "mt.nn: layers",
    "nn.functional": "mt.nn.functional: layers as functions",
    "nn.init": "mt.nn.init: initialization of parameters",
    "nn.masks": "mt.nn.masks: attention masks",
    "nn.utils": "mt.nn.utils: gradient clipping, parameters as one vector",
    "nn.utils.rnn": "mt.nn.utils.rnn: sequences of different lengths",
    "optim": "mt.optim: optimizers",
    "optim.lr_scheduler": "mt.optim.lr_scheduler: learning-rate schedules",
    "distributed": "mt.distributed: messages between processes",
    "distributed.functional": "mt.distributed.functional: collectives with a backward pass",
    "linalg": "mt.linalg: norms",
    "fft": "mt.fft: Fourier transforms",
    "models": "mt.models: one file per paper",
    "models.pretrained": "mt.models.pretrained: Hugging Face and timm folders",
    "generation": "mt.generation: greedy, beam search, sampling",
    "data": "mt.data: text, tokens, images, batches",
    "data.tokenizers": "mt.data.tokenizers: from text to ids and back",
    "utils.data": "mt.utils.data: data sets and loaders",
    "training": "mt.training: loops, checkpoints, runs",
    "training.recipes": "mt.training.recipes: recipes of `mta train`",
    "viz": "mt.viz: figures",
    "memory": "mt.memory: memory by tensor",
    "profiling": "mt.profile: time by operation",
    "tracing": "mt.trace: recordings of a computation, step by step",
    "course.lesson": "minitorch_attn.course.lesson: functions for lessons",
    "backend": "minitorch_attn.backend: NumPy, CuPy and the strict device",
    "serialization": "minitorch_attn.serialization: mt.save and mt.load",
    "cuda": "mt.cuda: CUDA devices",
    "amp": "mt.amp: mixed precision",
    "backends": "mt.backends: stand-ins for settings of compute libraries",
    "jit": "mt.jit: stand-ins for the compiler",
    "errors": "minitorch_attn.errors: error classes",
}


def _module(dotted):
    """Import a module of the package; "" and "__init__" stand for the package itself."""
    return importlib.import_module(f"{PACKAGE}.{dotted.replace('__init__', '')}".rstrip("."))


def public_names(namespace):
    """Return the public classes and functions of a namespace, as a dict from name to object.

    The public names are those in `__all__`. Without `__all__`, they are the names that do not
    start with `_`.
    """
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
    """Yield the names in `NAMESPACES` that exist in this version of the package."""
    for namespace in NAMESPACES:
        parts = (ROOT / PACKAGE).joinpath(*namespace.split("."))
        if parts.is_dir() or parts.with_suffix(".py").exists():
            yield namespace


def plan():
    """Return {namespace: {file: names in the table}} and {file: names on the file's page}."""
    tables, files, canonical = {}, {}, {}
    for namespace in existing_namespaces():
        for name, value in public_names(namespace).items():
            full = f"{namespace}.{name}".lstrip(".")
            first = canonical.setdefault(id(value), _own_name(value, full))
            file = value.__module__.removeprefix(PACKAGE).lstrip(".") or "__init__"
            tables.setdefault(namespace, {}).setdefault(file, set()).add(first)
            files.setdefault(file, set()).add(first)
    for file in op_sections.files():
        files.setdefault(file, set())
    return tables, files


def _own_name(value, name):
    """If `name` is an alias of a class, return the class's own name, provided that it is public.

    Otherwise, return `name`.
    """
    if not inspect.isclass(value) or name.rpartition(".")[2] == value.__name__:
        return name
    for namespace in existing_namespaces():
        if public_names(namespace).get(value.__name__) is value:
            return f"{namespace}.{value.__name__}".lstrip(".")
    return name


def title(text, underline="="):
    """Return the lines of a heading."""
    return [text, underline * len(text), ""]


def namespace_page(namespace, table):
    """Return the lines of a namespace's page: its names by file, each with its summary line."""
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
    """Return the lines of a file's page: its public definitions in order, then its operations."""
    module = _module(file)
    lines = title(file) + [*_docstring(module), ""]
    for name in sorted(sorted(names), key=_line_of):
        value = _value(name)
        kind = "autoclass" if inspect.isclass(value) else "autofunction"
        lines += [f".. {kind}:: {PACKAGE}.{name}"]
        if kind == "autoclass":
            lines += ["   :members:", "   :member-order: bysource"]
            lines += ["   :inherited-members: object"] if name == "Tensor" else []
        lines += [""]
    for operation in op_sections.operations(file):
        lines += op_sections.section(operation)
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
    """Return a dict from the name of each page in `docs/api` to its text."""
    tables, files = plan()
    written = {"index.rst": title("API reference")}
    written["index.rst"] += [
        "Names follow PyTorch. ``import minitorch_attn as mt`` provides all namespaces that start",
        "with ``mt``; import the others by their full names. Each name links to its arguments and",
        "to its source code.",
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
    written["files/index.rst"] = title("API by file") + [".. toctree::", "   :maxdepth: 1", ""]
    for file in sorted(files):
        written["files/index.rst"].append(f"   {file}")
        written[f"files/{file}.rst"] = file_page(file, files[file])
    return {name: "\n".join(lines) + "\n" for name, lines in written.items()}


def write(app):
    """Write the API pages whose text has changed, and remove outdated pages."""
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
    """Write the API pages when the build starts, before Sphinx reads its sources."""
    app.connect("builder-inited", write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
