"""Child process of a check: run a learner's file.

The arguments are the file and a folder. The child process reads the inputs from the folder, calls
the file's function, and writes the outputs. The parent process judges the outputs.
"""

import importlib.machinery
import importlib.util
import json
import sys
import traceback
from pathlib import Path

import numpy as np

from ... import autograd
from ...autograd.listener import Listener
from ...tensor import tensor

__all__ = ["Note", "load", "main", "read", "write"]


class Ran(Listener):
    """Listener that records which `Function` classes of the learner's file have run."""

    def __init__(self, module):
        self.module, self.names = module, set()

    def record_forward(self, ctx, inputs, outputs):
        if ctx.function.__module__ == self.module:
            self.names.add(ctx.function.__name__)


def main(file, folder):
    """Run the learner's function on all test cases in a folder, and write the results there.

    Parameters
    ----------
    file, folder : str
        Paths of the learner's file and of the folder that contains the cases.
    """
    folder = Path(folder)
    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    note = Note(folder / "note.json")
    with note.stage("import"):
        entry = getattr(load(file, "exercise"), order["entry"])
    for case in order["cases"]:
        with note.stage(case["name"]):
            if case["kind"] == "gradients":
                with Ran("exercise") as ran:
                    derive(entry, folder, case["name"])
                note.fields["ran"] = sorted(ran.names)
            elif case["kind"] == "forward":
                outputs = as_tuple(entry(*tensors(read(folder, case["name"]))))
                write(folder, case["name"], {f"y{i}": y.numpy() for i, y in enumerate(outputs)})
            else:
                report = autograd.gradcheck_report(entry, tensors(read(folder, case["of"])))
                note.fields["report"] = {
                    "text": report.facts(), "causes": report.causes(), "ok": bool(report.ok)
                }  # fmt: skip
    note.write("end")


class _Uncached(importlib.machinery.SourceFileLoader):
    """Loader that always compiles the source.

    Python uses cached bytecode if the size of the file and the time of its last change, in whole
    seconds, are the same as before. If a file is saved twice within a second, the cached bytecode
    may therefore belong to the earlier version.
    """

    def get_code(self, fullname):
        return self.source_to_code(self.get_data(self.path), self.path)


def load(file, name):
    """Import a learner's file as a module with this name."""
    spec = importlib.util.spec_from_file_location(name, file, loader=_Uncached(name, str(file)))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Note:
    """Note for the parent process: the stage that the check has reached, and errors."""

    def __init__(self, path):
        self.path, self.fields, self.running = path, {"errors": {}}, None

    def stage(self, name):
        """Record an error in a `with` block, and continue after the block.

        After an error in the stage "import", the program ends instead.
        """
        self.running = name
        self.write(name)
        return self

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None:
            return False
        if isinstance(error, KeyboardInterrupt):
            return False
        lines = traceback.TracebackException(kind, error, trace)
        own = [frame for frame in lines.stack if frame.filename == sys.argv[1]]
        self.fields["errors"][self.running] = {
            "kind": kind.__name__,
            "text": str(error),
            "line": own[-1].lineno if own else None,
            "source": own[-1].line if own else None,
            "calls": [f"line {frame.lineno}: {frame.line}" for frame in own[:-1]][-3:],
        }
        if self.running == "import":
            self.write("end")
            sys.exit(0)
        return True

    def write(self, stage):
        """Write the note to disk, so that the parent can read it even if this process is killed."""
        text = json.dumps({**self.fields, "stage": stage})
        part = self.path.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(self.path)


def derive(entry, folder, name):
    """Compute and write the outputs of a case, and the gradients for the case's cotangents."""
    arrays = read(folder, name)
    inputs = tensors(arrays)
    outputs = as_tuple(entry(*inputs))
    found = {f"y{i}": y.numpy() for i, y in enumerate(outputs)}
    leaves = {i: x for i, x in enumerate(inputs) if x.requires_grad}
    given = [tensor(arrays[f"g{i}"].copy()) for i in range(len(outputs)) if f"g{i}" in arrays]
    if [y.shape for y in outputs] == [g.shape for g in given]:  # otherwise the parent reports it
        gradients = autograd.grad(outputs, list(leaves.values()), given, allow_unused=True)
        for i, gradient in zip(leaves, gradients, strict=True):
            if gradient is not None:
                found[f"d{i}"] = gradient.numpy()
    write(folder, name, found)


def tensors(arrays):
    """Convert inputs to Tensors. Tensors of dtype float64 require a gradient."""
    found = []
    while f"x{len(found)}" in arrays:
        array = arrays[f"x{len(found)}"]
        found.append(tensor(array, requires_grad=array.dtype == np.float64))
    return tuple(found)


def as_tuple(outputs):
    """Return the outputs as a tuple, even if there is only one Tensor."""
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def read(folder, name):
    """Read the arrays of a case: its inputs, and its cotangents if it has any."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return dict(file)


def write(folder, name, arrays):
    """Write the results of a case atomically."""
    part = folder / f"{name}-out.part.npz"
    np.savez(part, **arrays)
    part.replace(folder / f"{name}-out.npz")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
