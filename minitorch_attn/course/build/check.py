"""Check a step: run the learner's functions in a child process and compare with the library."""

import ast
import json
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from ... import autograd
from ...tensor import tensor
from ..exercises.check import (
    Part,
    difference,
    error_text,
    printed,
    read_note,
    read_results,
    run_child,
)  # fmt: skip
from ..exercises.rules import not_python
from ..exercises.work import near
from .checks import CHECKS
from .diagnosis import cause, first_difference
from .steps import unwritten

__all__ = ["SECONDS", "StepOutcome", "check_step", "demonstrate", "show_step"]

SECONDS = 120.0
_CHILD = f"{__package__}.child"
_EXACT = 1e-11  # tolerance, relative to the largest entry
_TRAINED = 1e-9  # relative tolerance of the losses of several training steps
_ZERO = 1e-12  # smaller entries, relative to the largest entry of all results, count as 0
_OWN = ("minitorch_attn", "torch", "tensorflow", "jax")


@dataclass
class StepOutcome:
    """Result of the check of one step.

    Attributes
    ----------
    step : int
    parts : list of Part
        One part for each written function, in order. If nothing could run, a single part that says
        why.
    missing : list of str
        Functions that are not written yet, in order.
    output : str
        Text that the file printed.
    shown : str
        Text that shows what the model can do now, or "" if the step has not passed.
    """

    step: int
    parts: list = field(default_factory=list)
    missing: list = field(default_factory=list)
    output: str = ""
    shown: str = ""
    seconds: float = 0.0

    @property
    def passed(self):
        """Whether all functions of the step are written and correct."""
        return bool(self.parts) and all(p.passed for p in self.parts) and not self.missing

    @property
    def wrong(self):
        """First part that failed, or None."""
        return next((part for part in self.parts if not part.passed), None)

    def to_json(self):
        """Return the outcome as a dict for `--json`."""
        return {**asdict(self), "passed": self.passed}


def check_step(step, path, seconds=SECONDS, only=None):
    """Check the functions of a step.

    Parameters
    ----------
    step : Step
    path : str or path
        The learner's file.
    seconds : float
        Time limit for the child process.
    only : str, optional
        Name of the only function to check.

    Returns
    -------
    StepOutcome
    """
    outcome, started = StepOutcome(step.number), time.perf_counter()
    names = [item.name for item in step.functions if only in (None, item.name)]
    refused, text = _refused(step, path, names)
    if refused:
        outcome.parts.append(refused)
        return outcome
    holes = unwritten(text)
    outcome.missing = [name for name in names if name in holes]
    written = [name for name in names if name not in holes]
    with tempfile.TemporaryDirectory(prefix="mta-build-") as folder:
        folder = Path(folder)
        cases = _give(folder, written)
        ended = run_child(_CHILD, Path(path).resolve(), folder, seconds)
        note, outcome.output = read_note(folder), printed(folder)
        outcome.parts = _judge(folder, written, cases, note, ended, seconds)
    outcome.seconds = round(time.perf_counter() - started, 2)
    return outcome


def demonstrate(outcome, step, path):
    """Run the demonstration of a step that passed. If it raises an error, the step has failed."""
    outcome.shown, error = show_step(step, path)
    if error:
        what = "every function passes its own checks, but they do not work together:"
        outcome.parts.append(Part(step.next.rstrip("."), False, f"{what}\n{error}"))


def show_step(step, path, seconds=SECONDS):
    """Run the demonstration of a step in a child process.

    Returns
    -------
    (str, str)
        Text that the demonstration printed, and the error that stopped it, or "".
    """
    with tempfile.TemporaryDirectory(prefix="mta-build-") as folder:
        folder = Path(folder)
        order = {"checks": [], "show": step.number}
        (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")
        ended = run_child(_CHILD, Path(path).resolve(), folder, seconds)
        error = (read_note(folder).get("errors") or {}).get("show")
        text = printed(folder)
    if ended is None:
        text += f"\n... stopped after {seconds:g} s"
    return text, error_text(error) if error else ""


def _refused(step, path, required=None):
    """Return (part, text): why the file cannot be checked, and the text of the file.

    `part` is a failed Part that states the reason, or None if the file can be checked. `text` is ""
    if the file is not UTF-8. `required` lists the functions that the file must define. Default: all
    functions of the step.
    """
    required = [item.name for item in step.functions] if required is None else required
    try:
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        return Part("the file is readable", False, f"it is not UTF-8 text: {error}"), ""
    unclear = not_python(text, near(path))
    if unclear:
        return Part("the file is valid Python", False, unclear), text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        used = {name.partition(".")[0] for name in names} & set(_OWN)
        if used:
            text_ = f"line {node.lineno} imports {min(used)}: write the function yourself, in NumPy"
            return Part("the file is your own work", False, text_), text
    defined = {name for node in tree.body for name in _names_of(node)}
    lost = [item for item in step.functions if item.name in set(required) - defined]
    if lost:
        text_ = f"the file does not define it:\n{lost[0].stub.splitlines()[0]}"
        return Part(lost[0].name, False, text_), text
    return None, text


def _names_of(node):
    name = getattr(node, "name", "")
    inner = node.body if isinstance(node, ast.ClassDef) else []
    return [name, *(f"{name}.{item.name}" for item in inner if hasattr(item, "name"))]


# Input


def _give(folder, written):
    """Write the inputs of all checks. Return the library's results: {number of a check: result}."""
    rng, cases = np.random.default_rng(), {}
    for number, check in enumerate(CHECKS):
        if check.function in written:
            arrays = check.draw(rng)
            cases[number], cotangent = _expected(check, arrays, rng)
            extra = {} if cotangent is None else {"cotangent": cotangent}
            np.savez(folder / f"{number}.npz", **arrays, **extra)
    order = json.dumps({"checks": list(cases)})
    (folder / "order.json").write_text(order, encoding="utf-8")
    return cases


def _expected(check, arrays, rng):
    """Return the library's output and gradients, and the cotangent."""
    if check.kind == "plain":
        return {"y": np.asarray(check.library(**arrays))}, None
    if check.kind == "module":
        out, leaves = _run_module(check.library(), arrays)
    else:
        floats = {name: array for name, array in arrays.items() if array.dtype.kind == "f"}
        leaves = {name: tensor(array, requires_grad=True) for name, array in floats.items()}
        out = check.library(**{**arrays, **leaves})
    cotangent = np.asarray(rng.normal(size=out.shape))
    grads = autograd.grad([out], list(leaves.values()), [tensor(cotangent)], allow_unused=True)
    found = {f"d {n}": g.numpy() for n, g in zip(leaves, grads, strict=True) if g is not None}
    return {"y": out.detach().numpy(), **found}, cotangent


def _run_module(module, arrays):
    module.to("float64")
    state = {name: array for name, array in arrays.items() if name not in ("x", "ids")}
    leaves = {name: p for name, p in module.named_parameters() if name in state}
    for name, parameter in leaves.items():
        parameter.array[...] = state[name]
    x = tensor(arrays["x"], requires_grad=True) if "x" in arrays else tensor(arrays["ids"])
    return module(x), {**({"x": x} if "x" in arrays else {}), **leaves}


# Results


def _judge(folder, written, cases, note, ended, seconds):
    """Return one Part for each function, from the results of its checks."""
    errors = note.get("errors") or {}
    if "import" in errors:
        return [Part("the file runs", False, error_text(errors["import"]))]
    parts = []
    for name in written:
        numbers = [number for number in cases if CHECKS[number].function == name]
        texts = (_problem(folder, n, cases[n], errors, note, ended, seconds) for n in numbers)
        text = next(filter(None, texts), "")
        parts.append(Part(name, not text, text))
    return parts


def _problem(folder, number, wanted, errors, note, ended, seconds):
    """Describe what is wrong with the results of a check; return None if they are correct."""
    check = CHECKS[number]
    if str(number) in errors:
        return f"{check.what}\n{error_text(errors[str(number)])}"
    found = read_results(folder, str(number))
    if found is None:
        if ended is None:
            return f"{check.what}\nit did not finish within {seconds:g} s"
        return f"{check.what}\nthe program exited with status {ended} before the end"
    arrays = _drawn(folder, number)
    text = _wrong(check, found, wanted, arrays)
    return f"{check.what}\n{text}" if text else None


def _drawn(folder, number):
    with np.load(folder / f"{number}.npz", allow_pickle=False) as file:
        return dict(file)


def _wrong(check, found, wanted, arrays):
    def value_of(library):
        given = {name: array for name, array in arrays.items() if name != "cotangent"}
        other = replace(check, library=library)
        return _expected(other, given, np.random.default_rng(0))[0]["y"]

    sizes = [np.abs(array).max(initial=0.0) for array in wanted.values() if array.dtype.kind == "f"]
    for name, array in wanted.items():
        what = "the value" if name == "y" else f"the gradient of {name[2:]}"
        given = found.get(name)
        if array.dtype.kind == "f" and np.abs(array).max(initial=0.0) < _ZERO * max(sizes):
            array = np.zeros_like(array)  # the gradient of a key's bias: rounding errors
            if given is not None and np.abs(given).max(initial=0.0) < _ZERO * max(sizes):
                given = np.zeros_like(given, dtype=array.dtype)
        text = _unlike(given, array, _TRAINED if check.function == "train" else _EXACT)
        if (
            text
            and check.function == "train"
            and array.dtype.kind == "f"
            and given.shape == array.shape
        ):
            text = first_difference(given, array, _TRAINED) or text
        if text:
            probable = cause(check, name, found, wanted, arrays, value_of)
            return f"{what}: {text}" + (f"\nhint: {probable}" if probable else "")
    if "changed" in found:
        return f"it changes its input {found['changed'][0]} in place; make a new array"
    for line in found.get("dtypes", ()):
        name, dtype = str(line).rsplit(" ", 1)
        if dtype != "float32":
            what = "value" if name == "y" else f"gradient of {name[2:]}"
            return (
                f"for float32 arrays, the {what} is {dtype}. Arrays such as np.zeros(shape) and "
                "NumPy's float64 scalars cause this: use np.zeros_like, Python floats and math.sqrt"
            )
    return None


def _unlike(found, wanted, tolerance):
    if found is None:
        return "no gradient arrives"
    if found.dtype.kind in "fiub" and wanted.dtype.kind == "f" and found.shape == wanted.shape:
        return difference(found.astype(np.float64), wanted.astype(np.float64), tolerance)
    if wanted.dtype.kind == "U" and (found.dtype.kind != "U" or found.size != wanted.size):
        what = "a list of characters" if found.dtype.kind == "U" else f"{found.dtype} numbers"
        return f"{what} instead of a string"
    if found.shape != wanted.shape:
        return f"shape {found.shape} instead of {wanted.shape}"
    if found.dtype.kind != wanted.dtype.kind:
        return f"{found.dtype} instead of {wanted.dtype}"
    for at in np.ndindex(wanted.shape):
        if found[at] != wanted[at]:
            place = f" at {at}" if at and wanted.dtype.kind != "U" else ""
            return f"{found[at].item()!r} instead of {wanted[at].item()!r}{place}"
    return None
