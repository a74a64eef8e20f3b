"""What a submission has to compute, and whether the arrays it returned are that.

The expected values never leave this process. The arrays of a submission are compared with NumPy's
functions as this process has them: nothing that a submission does to its own NumPy matters here.
"""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Check", "Verdict", "judge"]


@dataclass
class Check:
    """One computation that is asked for.

    Attributes
    ----------
    name : str
    driver : callable
        `run(inputs, settings)` -> {name: ndarray}. Its source text is sent to the submission's
        process, so it imports what it needs in its body, and holds no answer.
    inputs : dict of str to ndarray
        Drawn when the check is made.
    expected : dict of str to ndarray
        The truth, computed here, in float64 where there is a choice.
    settings : dict
        What JSON can hold.
    rtol : float
        Allowed error as a share of the largest expected entry of an array: round-off is of that
        size, however small an entry itself is.
    limit_s : float
    what : str
        For the student: what is asked, in words.
    library_steps : list or None
        How the library computes it, once that was asked for; see `first_step`.
    """

    name: str
    driver: Callable
    inputs: dict
    expected: dict
    settings: dict = field(default_factory=dict)
    rtol: float = 1e-7
    limit_s: float = 5.0
    what: str = ""
    library_steps: list | None = field(default=None, repr=False, compare=False)

    @property
    def source(self):
        """The driver's text."""
        text = textwrap.dedent(inspect.getsource(self.driver))
        return text if self.driver.__name__ == "run" else f"{text}\nrun = {self.driver.__name__}\n"

    @property
    def max_bytes(self):
        """More than a right answer takes, and little more."""
        return sum(np.asarray(array).nbytes + 4096 for array in self.expected.values()) + 4096

    def header(self):
        """The message that asks for it."""
        return {
            "driver": self.source, "settings": self.settings, "wanted": list(self.expected),
        }  # fmt: skip


@dataclass
class Verdict:
    """What became of a check.

    Attributes
    ----------
    status : {"passed", "failed", "error", "timeout", "crashed", "misbehaved"}
    message : str
        For the student.
    first_difference : dict or None
        Of the entry with the largest error: array, index, got, expected.
    seconds : float
    gradcheck : str or None
        Where a gradient is wrong: a table of the gradients, and guesses at the cause.
    first_step : dict or None
        Where the way to a wrong result first leaves the library's; see `first_step`.
    """

    status: str
    message: str = ""
    first_difference: dict | None = None
    seconds: float = 0.0
    gradcheck: str | None = None
    first_step: dict | None = None

    @property
    def passed(self):
        """Whether the points are earned."""
        return self.status == "passed"


def judge(check, arrays):
    """Compare the arrays of a submission with the truth.

    Parameters
    ----------
    check : Check
    arrays : dict of str to ndarray

    Returns
    -------
    Verdict

    Examples
    --------
    >>> def run(inputs, settings):
    ...     return {"y": inputs["x"] * 2}
    >>> check = Check("twice", run, {"x": np.ones(2)}, {"y": np.array([2.0, 2.0])})
    >>> judge(check, {"y": np.array([2.0, 3.0])}).message
    'y[1] is 3.0, expected 2.0; the largest of 1 wrong entries of 2'
    """
    for name, expected in check.expected.items():
        found = arrays.get(name)
        if type(found) is not np.ndarray:
            return Verdict("failed", f"{name} is missing")
        verdict = _judge_one(name, found, np.asarray(expected), check.rtol)
        if verdict is not None:
            return verdict
    return Verdict("passed")


def _judge_one(name, found, expected, rtol):
    if found.shape != expected.shape:
        return Verdict("failed", f"{name} has shape {found.shape}, expected {expected.shape}")
    if found.dtype != expected.dtype:
        return Verdict("failed", f"{name} has dtype {found.dtype}, expected {expected.dtype}")
    finite = np.isfinite(expected)
    if not np.array_equal(np.isfinite(found), finite):
        index = np.unravel_index(np.argmax(np.isfinite(found) != finite), found.shape)
        return _different(name, found, expected, index, "which entries are finite differs")
    error = np.zeros(found.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        error[finite] = abs(found[finite].astype(complex) - expected[finite])
        wrong_infinite = ~finite & ~_same(found, expected)
    error[wrong_infinite] = np.inf
    scale = abs(expected[finite]).max(initial=0.0)
    wrong = error > rtol * scale if expected.dtype.kind in "fc" else error > 0
    if not wrong.any():
        return None
    index = np.unravel_index(np.argmax(error), error.shape)
    count = f"the largest of {int(wrong.sum()):,} wrong entries of {error.size:,}"
    return _different(name, found, expected, index, count)


def _same(a, b):
    """Entries that are the same infinity, or both not a number."""
    return (a == b) | ((a != a) & (b != b))


def _different(name, found, expected, index, more):
    index = tuple(int(i) for i in index)
    place = f"[{', '.join(map(str, index))}]" if index else ""
    got, truth = found[index].item(), expected[index].item()
    first = {"array": name, "index": list(index), "got": repr(got), "expected": repr(truth)}
    return Verdict("failed", f"{name}{place} is {got!r}, expected {truth!r}; {more}", first)
