"""Step lists: read the steps that a submission sends, and record the steps of the library.

The steps of a submission are untrusted data. This module checks their size and format.
"""

import math
import re
import threading
from pathlib import Path

import numpy as np

from ...tracing.steps import Entry
from .steps import MOST_ARRAYS, MOST_STEPS, Steps

__all__ = ["BadSteps", "Kept", "Step", "library_steps", "read_steps"]

_ROOT = Path(__file__).resolve().parents[3]  # parent folder of the package
_DTYPES = (
    "bool", "float16", "float32", "float64",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)  # fmt: skip
_NAME, _PATH = re.compile(r"[\w.<>]{1,120}"), re.compile(r"[\w.<>]{0,200}")
_ONE_AT_A_TIME = threading.Lock()  # all threads share the state of the random numbers


class BadSteps(Exception):
    """The data sent by a submission is not a list of steps."""


class Kept:
    """Stored values of an array, all or a sample, as a 1-d array for `compare_values`."""

    def __init__(self, numbers, shape, dtype, every):
        self.shape, self.dtype, self.every = shape, dtype, every
        kept = len(numbers) - 4 if every > 1 else len(numbers)
        self.array, self.measures = numbers[:kept], numbers[kept:]
        self.steps = (every,)
        with np.errstate(all="ignore"):
            self.total, self.scale = float(self.array.sum()), float(abs(self.array).max(initial=0))

    def place(self, index):
        """Convert an index in `self.array` (possibly a sample) to an index in the whole array."""
        return tuple(int(i) for i in np.unravel_index(int(index[0]) * self.every, self.shape))


class Step:
    """One step of the submission or the library. Steps are matched by `kind`, `op`, `module`."""

    def __init__(self, number, found):
        self.number, self.kind, self.added = number, "forward", ()
        self.name, self.module, self.takes = found["name"], found["path"], found["takes"]
        self.op = self.name
        self.defined, self.called, self.left = found["defined"], found["called"], found["left"]
        self.by = found["by"]
        self.inputs, self.outputs, self.places = found["given"], found["made"], found["places"]
        self.children = []


def library_steps(check, files):
    """Return the steps of a check in the library. The first call records them.

    Parameters
    ----------
    check : Check
    files : sequence of str
        Paths of the student's files.

    Returns
    -------
    list of Step
        Top-level steps of the check. Empty if the check fails with the library.
    """
    with _ONE_AT_A_TIME:
        if check.library_steps is None:
            recorder = Steps(_ROOT, files)
            inputs = {key: np.array(array) for key, array in check.inputs.items()}
            try:
                with recorder:
                    check.driver(inputs, check.settings)
                check.library_steps = read_steps(*recorder.message(), files)
            except Exception:
                check.library_steps = []
        return check.library_steps


def read_steps(found, numbers, files):
    """Check the untrusted steps in a message, and return them as a tree.

    Parameters
    ----------
    found : list of dict
        Untrusted steps, expected in the format of `Steps.steps`.
    numbers : ndarray
        Elements of all the steps' arrays, as one flat array.
    files : sequence of str
        Paths of the student's files.

    Returns
    -------
    list of Step
        Steps at the top level of the tree.

    Raises
    ------
    BadSteps
        If the data is not a list of steps, or is too large.
    """
    if type(numbers) is not np.ndarray or numbers.dtype != np.float64 or numbers.ndim != 1:
        raise BadSteps("the array of numbers is invalid")
    if not isinstance(found, list) or len(found) > MOST_STEPS:
        raise BadSteps("the list of steps is invalid")
    steps, top = [], []
    for number, item in enumerate(found):
        step, parent = _step(number, item, numbers, files)
        steps.append(step)
        (top if parent is None else steps[parent].children).append(step)
    return _with_results(top)


def _with_results(steps):
    """Remove steps without a result, unless a step inside them has one.

    A function that returns None may store its results where they are not compared. Therefore,
    the steps inside such a function are moved out of it: they come before the function's own step,
    in the same list.
    """
    found = []
    for step in steps:
        step.children = _with_results(step.children)
        if step.left:
            found += step.children
            step.children = []
        if step.outputs or step.children:
            found.append(step)
    return found


def _step(number, item, numbers, files):
    if not isinstance(item, dict):
        raise BadSteps("a step is not a dict")
    item = dict(item)
    for name, form in (("name", _NAME), ("path", _PATH), ("by", _PATH)):
        if not isinstance(item.get(name), str) or not form.fullmatch(item[name]):
            raise BadSteps(f"the field {name} of a step is invalid")
    parent = item.get("parent")
    if parent is not None and not 0 <= _whole(parent) < number:
        raise BadSteps("the parent of a step is invalid")
    for name in ("defined", "called"):
        item[name] = _line(item.get(name), files)
    if item["defined"] is None and item["called"] is None:
        raise BadSteps("the line of a step is missing")
    if not isinstance(item.get("takes"), (list, tuple)) or type(item.get("left")) is not bool:
        raise BadSteps("the arguments of a step are invalid")
    for name in ("given", "made"):
        arrays = item.get(name)
        if not isinstance(arrays, list) or len(arrays) > MOST_ARRAYS:
            raise BadSteps(f"the arrays of a step are invalid: {name}")
    item["places"] = [_place(array) for array in item["made"]]
    item["given"] = [_entry(array, numbers) for array in item["given"]]
    item["made"] = [_entry(array, numbers) for array in item["made"]]
    return Step(number, item), parent


def _line(value, files):
    """Check a pair (student's file, line number) and return it as a tuple. None stays None."""
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2 or value[0] not in files:
        raise BadSteps("the file of a step is invalid")
    if not 1 <= _whole(value[1]) < 1_000_000:
        raise BadSteps(f"the line number of a step is invalid: {value[1]}")
    return tuple(value)


def _whole(value):
    if type(value) is not int:
        raise BadSteps("a value is not an integer")
    return value


def _place(item):
    if not isinstance(item, dict):
        raise BadSteps("the description of an array is not a dict")
    return _whole(item.get("place"))


def _entry(item, numbers):
    if not isinstance(item, dict):
        raise BadSteps("the description of an array is not a dict")
    at, count, every, key = (_whole(item.get(name)) for name in ("at", "count", "every", "key"))
    shape = item.get("shape")
    if not isinstance(shape, list) or len(shape) > 32 or any(_whole(n) < 0 for n in shape):
        raise BadSteps("the shape of an array is invalid")
    if item.get("dtype") not in _DTYPES or every < 1:
        raise BadSteps("the dtype of an array is invalid")
    size = math.prod(shape)
    if size >= 1 << 40 or count != -(-size // every) + (4 if every > 1 else 0):
        raise BadSteps("the size of an array is invalid")
    if not 0 <= at <= at + count <= len(numbers):
        raise BadSteps("the position of an array is out of range")
    values = Kept(numbers[at : at + count], tuple(shape), item["dtype"], every)
    return Entry(key, "result", "", values)
