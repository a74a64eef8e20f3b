"""Compare a recorded step with a reference step."""

import numpy as np

from .steps import Entry
from .values import plain

__all__ = ["Unlike", "compare_steps", "compare_values"]

_RTOL = {2: 1e-2, 4: 1e-4, 8: 1e-9}  # default tolerance by the dtype's size in bytes


class Unlike:
    """A difference between two steps.

    Attributes
    ----------
    name : str
        Name of the tensor, such as "input a (w_q)" or "output c".
    kind : str
        "values", "shape", "dtype", "number" or "missing".
    mine, reference
        The two shapes, dtypes or numbers. For "values", the values at `index`. For "missing",
        "nothing", "a tensor" or "a number".
    index : tuple of int or None
        Index of the largest difference; None unless `kind` is "values".
    largest : float or None
        Size of the largest difference; None unless `kind` is "values".
    count, size : int
        Number of values that differ, and number of values that were compared.
    entries : tuple of Entry, or None
        The two tensors; None unless both values are tensors.
    """

    entries = None
    of_input = False  # the difference is in an input

    def __init__(self, name, kind, mine, reference, index=None, largest=None, count=0, size=0):
        self.name, self.kind, self.mine, self.reference = name, kind, mine, reference
        self.index, self.largest, self.count, self.size = index, largest, count, size

    @property
    def text(self):
        """Short description of the difference."""
        if self.kind == "values":
            return f"{self.name}: {self.count} of {self.size} values differ"
        return f"{self.name}: {self.kind}"

    def document(self):
        """Return this difference as a dict of fields, which `Difference.document` includes."""
        numbers = [_json(value) for value in (self.mine, self.reference, self.largest)]
        return {
            "index": None if self.index is None else list(self.index),
            "mine_value": numbers[0],
            "reference_value": numbers[1],
            "largest": numbers[2],
            "count": self.count,
            "size": self.size,
        }


def _json(value):
    if isinstance(value, (float, np.floating)):
        return plain(np.array([value]), 9)[0]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return list(value) if isinstance(value, tuple) else str(value)


def compare_steps(mine, reference, rtol=None, atol=None):
    """Find the first difference between two steps of the same kind. Inputs are compared first.

    Parameters
    ----------
    mine, reference : Step
    rtol, atol : float, optional
        Tolerances; see `trace_diff`.

    Returns
    -------
    Unlike or None
    """
    given, made = ("input", "output") if mine.kind == "forward" else ("", "")
    for word, names, ours, theirs, of_input in (
        (given, mine.input_names, mine.inputs, reference.inputs, True),
        (made, mine.output_names, mine.outputs, reference.outputs, False),
        ("", [], *map(_additions, (mine, reference)), mine.kind == "accumulate"),
    ):
        for index in range(max(len(ours), len(theirs))):
            name = names[index] if index < len(names) else _added_name(mine, index)
            pair = [list_[index] if index < len(list_) else None for list_ in (ours, theirs)]
            name = f"{word} {name}{_variable(pair[0])}".strip()
            found = _compare(name, *pair, rtol, atol)
            if found is not None:
                found.of_input = of_input
                return found
    return None


def _additions(step):
    """Return the gradient after each addition of this step.

    For an addition to a `.grad`, also return the two terms: the gradient before, and the new one.
    """
    if step.kind != "accumulate":
        return [addition.after for addition in step.added]
    return [entry for a in step.added for entry in (a.before, a.contribution, a.after)]


def _added_name(step, index):
    if step.kind != "accumulate":
        addition = step.added[index] if index < len(step.added) else None
        tensor = "?" if addition is None or addition.tensor is None else addition.tensor.name
        return f"gradient of {tensor} after this step"
    tensor = step.added[0].tensor
    name = "?" if tensor is None else tensor.name
    return (f"{name}.grad before", f"new gradient of {name}", f"{name}.grad after")[index]


def _variable(value):
    known = isinstance(value, Entry) and (value.variable or value.role == "parameter")
    if not known:
        return ""
    return f" ({value.name if value.role == 'parameter' else value.variable})"


def _compare(name, mine, reference, rtol, atol):
    if mine is None and reference is None:
        return None
    if mine is None or reference is None:
        present = ["nothing" if value is None else "a tensor" for value in (mine, reference)]
        return Unlike(name, "missing", *present)
    entries = [isinstance(value, Entry) for value in (mine, reference)]
    if not any(entries):
        equal = mine == reference or (mine != mine and reference != reference)
        close = equal or abs(mine - reference) <= 1e-9 * max(abs(mine), abs(reference))
        return None if close else Unlike(name, "number", mine, reference)
    if not all(entries):
        kinds = ["a tensor" if entry else "a number" for entry in entries]
        return Unlike(name, "missing", *kinds)
    unlike = compare_values(name, mine.values, reference.values, rtol, atol)
    if unlike is not None:
        unlike.entries = (mine, reference)
    return unlike


def compare_values(name, mine, reference, rtol=None, atol=None):
    """Return how the values of two arrays differ, or None if they agree.

    Parameters
    ----------
    name : str
        Name of both arrays.
    mine, reference : Values
    rtol, atol : float, optional
        Tolerances; see `trace_diff`.

    Returns
    -------
    Unlike or None
    """
    if mine.shape != reference.shape:
        return Unlike(name, "shape", mine.shape, reference.shape)
    if mine.dtype != reference.dtype:
        return Unlike(name, "dtype", str(mine.dtype), str(reference.dtype))
    a, b = mine.array, reference.array
    if mine.steps != reference.steps or not a.size:
        return None  # the recordings kept different samples, which cannot be compared
    if a.dtype.kind != "f":
        wrong = a != b
        size = np.abs(a.astype(np.float64) - b.astype(np.float64))
    else:
        size = _distance(a, b)
        wrong = size > _limit(b, rtol, atol)
    if not wrong.any():
        return None
    index = np.unravel_index(np.argmax(np.where(wrong, size, -1.0)), a.shape)
    values = (a[index].item(), b[index].item())
    worst = (mine.place(index), float(size[index]))
    return Unlike(name, "values", *values, *worst, int(wrong.sum()), a.size)


def _distance(a, b):
    """Return `|a - b|`. Use 0 where a and b are equal or both NaN, and inf where one is NaN."""
    with np.errstate(invalid="ignore"):
        size = np.abs(a.astype(np.float64) - b.astype(np.float64))
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(alike, 0.0, np.where(np.isnan(size), np.inf, size))


def _limit(b, rtol, atol):
    rtol = _RTOL.get(b.dtype.itemsize, 1e-4) if rtol is None else rtol
    atol = float(np.finfo(b.dtype).tiny) if atol is None else atol
    finite = np.abs(b[np.isfinite(b)])
    return atol + rtol * (float(finite.max()) if finite.size else 0.0)
