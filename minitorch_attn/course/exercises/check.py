"""Check a learner's file: run it in a separate process, and judge the results in the main process.

The separate process receives inputs and returns arrays. The main process compares these arrays with
the results of the library's own operations, for a small and a large case. So a file cannot pass by
manipulating the process in which it runs.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from ... import autograd
from ...errors import DataError
from ...schema import (
    ANY,
    FLAG,
    INTEGER,
    TEXT,
    check,
    list_of,
    map_of,
    optional,
    read_json,
    record,
)
from ...tensor import tensor
from ..run_lesson import environment
from .judges import JUDGES
from .rules import function_classes, not_python, rule_broken
from .work import near

__all__ = [
    "Outcome", "Part", "check_file", "difference", "error_text", "printed", "read_note",
    "read_results", "run_child",
]  # fmt: skip

SECONDS = 60.0
_TOLERANCE = 1e-12  # error relative to the largest entry; central differences reach 1e-11 at best
_ERROR = record(
    {"kind": ANY, "text": ANY},
    {"line": optional(INTEGER), "source": ANY, "calls": list_of(TEXT)},
)
_NOTE = record(
    {},
    {
        "report": optional(record({"text": ANY, "ok": FLAG})), "ran": optional(list_of(ANY)),
        "errors": optional(map_of(_ERROR)),
    },
)  # fmt: skip
_OUTPUT = 4000  # maximum number of characters of the file's output to keep


@dataclass(frozen=True)
class Part:
    """Result of one part of a check.

    Parameters
    ----------
    name : str
    passed : bool
    text : str, default ""
        Message for the learner.
    """

    name: str
    passed: bool
    text: str = ""


@dataclass
class Outcome:
    """Result of a check.

    Attributes
    ----------
    exercise : str
        Name of the exercise.
    parts : list of Part
    report : str or None
        The gradcheck report without its guesses at the cause.
    causes : str
        The guesses of gradcheck at the cause, shown as the last hint, or "" if there are none.
    report_ok : bool
        Whether the gradcheck report found no mistake.
    output : str
        Text that the file printed.
    seconds : float
        Duration of the check.
    """

    exercise: str
    parts: list = field(default_factory=list)
    report: str | None = None
    causes: str = ""
    report_ok: bool = False
    output: str = ""
    seconds: float = 0.0

    @property
    def passed(self):
        """Whether all parts passed."""
        return bool(self.parts) and all(part.passed for part in self.parts)

    def to_json(self):
        """Return the result as a dict for `--json`."""
        return {**asdict(self), "passed": self.passed}


@dataclass
class Case:
    """Inputs of a test case, with the outputs and gradients that the library computes."""

    name: str
    inputs: list
    outputs: list = field(default_factory=list)
    cotangents: list = field(default_factory=list)
    gradients: dict = field(default_factory=dict)

    def arrays(self):
        """Return the arrays to send to the child process: the inputs and the cotangents."""
        given = {f"x{i}": x for i, x in enumerate(self.inputs)}
        return {**given, **{f"g{i}": g for i, g in enumerate(self.cotangents)}}


def check_file(exercise, path, seconds=SECONDS, columns=None):
    """Check a learner's file.

    Parameters
    ----------
    exercise : Exercise
    path : str or path
        The learner's file.
    seconds : float
        Time limit for the process, in seconds.
    columns : int, optional
        Width of the report in characters. Defaults to 96.

    Returns
    -------
    Outcome
    """
    outcome, started = Outcome(exercise.name), time.perf_counter()
    refused = _refused(exercise, path)
    if refused:
        outcome.parts.append(refused)
        return outcome
    judge, rng = JUDGES[exercise.judge], np.random.default_rng()
    small, big = (_case(name, judge, rng, name == "big") for name in ("small", "big"))
    calls = [prop.draw(rng) for prop in judge.properties]
    with tempfile.TemporaryDirectory(prefix="mta-exercise-") as folder:
        folder = Path(folder)
        _give(folder, judge, small, big, calls)
        ended = run_child(f"{__package__}.child", Path(path).resolve(), folder, seconds, columns)
        note, outcome.output = read_note(folder), printed(folder)
        report = note.get("report") or {}
        outcome.report, outcome.report_ok = report.get("text"), bool(report.get("ok"))
        outcome.causes = str(report.get("causes") or "")
        outcome.parts = _judge(exercise, judge, folder, note, small, big, ended, seconds)
    outcome.seconds = round(time.perf_counter() - started, 2)
    return outcome


def _refused(exercise, path):
    """Return the reason not to run the file, as a failed Part, or None if it may be run."""
    try:
        text = Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        return Part("the file is readable", False, f"it is not UTF-8 text: {error}")
    except OSError as error:
        return Part("the file is readable", False, f"it could not be read: {error.strerror}")
    unclear = not_python(text, near(path))
    if unclear:
        return Part("the file is valid Python", False, unclear)
    broken = rule_broken(text, exercise.text)
    return Part("the solution follows the task", False, broken) if broken else None


# Input of the process


def _case(name, judge, rng, big):
    """Create inputs and random cotangents, and compute the library's outputs and gradients."""
    inputs = judge.draw(rng, big)
    leaves = [tensor(x, requires_grad=x.dtype == np.float64) for x in inputs]
    outputs = judge.truth(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    case = Case(name, inputs, [y.numpy() for y in outputs])
    case.cotangents = [np.asarray(rng.normal(size=y.shape)) for y in outputs]
    wanted = {i: x for i, x in enumerate(leaves) if x.requires_grad}
    given = [tensor(g) for g in case.cotangents]
    found = autograd.grad(outputs, list(wanted.values()), given)
    case.gradients = {i: g.numpy() for i, g in zip(wanted, found, strict=True)}
    return case


def _give(folder, judge, small, big, calls):
    """Write the files that the child process reads: the inputs, and the list of cases to run."""
    cases = [{"name": "small", "kind": "gradients"}]
    for number, arguments in enumerate(calls):
        for i, arrays in enumerate(arguments):
            name = f"property-{number}-{i}"
            np.savez(folder / f"{name}.npz", **{f"x{k}": x for k, x in enumerate(arrays)})
            cases.append({"name": name, "kind": "forward"})
    cases.append({"name": "gradcheck", "kind": "gradcheck", "of": "small"})
    cases.append({"name": "big", "kind": "gradients"})
    for case in (small, big):
        np.savez(folder / f"{case.name}.npz", **case.arrays())
    order = {"entry": judge.entry, "cases": cases}
    (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")


def run_child(module, path, folder, seconds, columns=None):
    """Run a module of this package on a learner's file, in a separate process.

    Parameters
    ----------
    module : str
        Module that is run with the arguments `path` and `folder`.
    path, folder : Path
        The learner's file, and a folder for inputs and results. What the module prints is written
        to `printed.txt` in this folder.
    seconds : float
        Time limit.
    columns : int, optional
        Width of the output in characters. Defaults to 96.

    Returns
    -------
    int or None
        Exit status, or None if the process exceeded the time limit.
    """
    command = [sys.executable, "-P", "-m", module, str(path), str(folder)]
    settings = {**environment(), "COLUMNS": str(columns or 96)}
    with open(folder / "printed.txt", "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env=settings, start_new_session=os.name == "posix",
        )  # fmt: skip
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process):
    """Kill the process and all processes that it has started."""
    if os.name == "posix":
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    elif process.poll() is None:
        process.kill()
    process.wait()


def read_note(folder):
    """Return the child process's note, or an empty dict if it is missing or invalid."""
    try:
        note = read_json(folder / "note.json")
        check(note, _NOTE, "note.json")
    except DataError:
        return {}
    return note


def printed(folder):
    """Return what the process printed, truncated after a few thousand characters."""
    with open(folder / "printed.txt", "rb") as file:
        text = file.read(4 * _OUTPUT).decode("utf-8", "replace")
    return text if len(text) <= _OUTPUT else text[:_OUTPUT] + "\n..."


# Output of the process


def _judge(exercise, judge, folder, note, small, big, ended, seconds):
    """Compare the child process's results with the library's, and return the Parts of the check."""
    import ast

    errors = note.get("errors") or {}
    early = errors.get("import") or errors.get("small")
    if early:
        return [Part("the file runs", False, error_text(early))]
    stopped = _stopped(note, ended, seconds)
    results = read_results(folder, "small")
    if results is None:
        return [Part("the file runs", False, stopped or "it returned nothing")]
    parts = [_compare_outputs("forward returns the correct values", small, results)]
    if exercise.kind == "property" and not parts[0].passed:
        parts = []  # the properties are more helpful, and the last part reports the error anyway
    for number, prop in enumerate(judge.properties):
        parts.append(_property(prop, number, folder, errors))
    parts.append(_gradcheck_part(note, errors))
    parts.append(_compare_gradients("gradients match the library's", small, results))
    full = read_results(folder, "big")
    if full is None:
        reason = error_text(errors["big"]) if "big" in errors else stopped
        parts.append(Part("large inputs", False, reason or "it returned nothing"))
    else:
        both = (_compare_outputs("", big, full), _compare_gradients("", big, full))
        wrong = [part.text for part in both if not part.passed]
        parts.append(Part("large inputs", not wrong, " ".join(wrong)))
    classes = set(function_classes(ast.parse(exercise.text)))
    unused = classes - set(note.get("ran") or ())
    if unused:
        text = f"{min(unused)} is no longer used"
        parts.append(Part("the solution follows the task", False, text))
    return parts


def _stopped(note, ended, seconds):
    """Explain why the process ended too early. Return None if it finished."""
    if note.get("stage") == "end":
        return None
    where = {"big": "for large inputs", "gradcheck": "in the gradient check"}.get(
        note.get("stage"), ""
    )
    if ended is None:
        text = f"it did not finish {where} within {seconds:g} s".replace("  ", " ")
        if note.get("stage") == "big":
            text += ": a formula takes less than a second; finite differences and loops take longer"
        return text
    return f"the program exited {where} with status {ended} before the end".replace("  ", " ")


def error_text(error):
    """Describe an error in the learner's file, with its line and the calls that led to the line."""
    if error["kind"] == "NotImplementedError":
        return f"line {error['line']} is not written yet: {error['text']}"
    place = f"line {error['line']}: {error['source']}\n" if error.get("line") else ""
    for call in reversed(error.get("calls") or ()):
        place += f"  called from {call}\n"
    return f"{place}{error['kind']}: {error['text']}"


def read_results(folder, name):
    """Return the arrays that the learner's file returned for a case, or None if unreadable."""
    try:
        with np.load(folder / f"{name}-out.npz", allow_pickle=False) as file:
            return dict(file)
    except Exception:  # malformed bytes can make NumPy raise anything
        return None


def _property(prop, number, folder, errors):
    results = []
    while True:
        name = f"property-{number}-{len(results)}"
        if not (folder / f"{name}.npz").exists():
            break
        if name in errors:
            return Part(prop.name, False, error_text(errors[name]))
        arrays = read_results(folder, name)
        if arrays is None:
            return Part(prop.name, False, "it returned nothing")
        results.append([arrays[f"y{i}"] for i in range(len(arrays)) if f"y{i}" in arrays])
    try:
        holds, text = prop.look(results)
    except (IndexError, ValueError, TypeError) as error:
        return Part(prop.name, False, f"the outputs do not have the expected form: {error}")
    return Part(prop.name, bool(holds), "" if holds else text)


def _gradcheck_part(note, errors):
    name = "gradcheck"
    if "gradcheck" in errors:
        return Part(name, False, error_text(errors["gradcheck"]))
    report = note.get("report")
    if not report:
        return Part(name, False, "it did not finish")
    return Part(name, bool(report["ok"]), str(report["text"]).splitlines()[0])


def _compare_outputs(name, case, results):
    for i, wanted in enumerate(case.outputs):
        text = difference(results.get(f"y{i}"), wanted)
        if text:
            which = f"output {i}" if len(case.outputs) > 1 else "the output"
            return Part(name, False, f"{which}: {text}")
    return Part(name, True)


def _compare_gradients(name, case, results):
    for i, wanted in case.gradients.items():
        text = difference(results.get(f"d{i}"), wanted)
        if text:
            return Part(name, False, f"the gradient of input {i}: {text}")
    return Part(name, True)


def difference(found, wanted, tolerance=_TOLERANCE):
    """Describe how an array differs from the correct one. Return None if it does not differ."""
    if found is None:
        return "it is missing"
    if found.dtype != np.float64 or found.shape != wanted.shape:
        return f"{found.dtype} {found.shape} instead of {wanted.dtype} {wanted.shape}"
    if not np.isfinite(found).all():
        kind = "NaN" if np.isnan(found).any() else "infinite"
        count = int(np.isnan(found).sum() if kind == "NaN" else np.isinf(found).sum())
        return f"{count} of {found.size} entries {'is' if count == 1 else 'are'} {kind}"
    size = max(np.abs(wanted).max(initial=0.0), 1e-300)
    off = np.abs(found - wanted)
    if off.max(initial=0.0) <= tolerance * size:
        return None
    at = tuple(map(int, np.unravel_index(off.argmax(), off.shape)))
    text = f"{found[at]:.6g} instead of {wanted[at]:.6g}" + (f" at {at}" if at else "")
    if off.max() < 1e-5 * size:
        return f"relative error {off.max() / size:.0e}, too large for an exact formula"
    return text
