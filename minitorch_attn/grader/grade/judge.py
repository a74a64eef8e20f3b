"""Judge a submission: compare the arrays that it returned with the expected arrays.

The expected values never leave this process. The comparison uses this process's NumPy, so a
submission that patches its own NumPy cannot affect it.
"""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Check", "Verdict", "judge"]


@dataclass
class Check:
    """One computation that a submission must perform.

    Attributes
    ----------
    name : str
    driver : callable
        Function `run(inputs, settings)` that returns {name: ndarray}. Its source text is sent to
        the submission's process. It must import what it needs and must not contain a solution.
    inputs : dict of str to ndarray
        Input arrays, sampled when the check is made.
    expected : dict of str to ndarray
        Correct results, computed in this process in float64 where possible.
    settings : dict
        Further arguments of the driver that JSON can represent.
    rtol : float
        Allowed error relative to the largest expected entry of an array. Rounding errors
        scale with the largest entry, even in small entries.
    limit_s : float
        Time limit in seconds.
    what : str
        Description for the student.
    library_steps : list or None
        Steps of the library, recorded on first use; see `first_step`.
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
        """Source text of the driver."""
        text = textwrap.dedent(inspect.getsource(self.driver))
        return text if self.driver.__name__ == "run" else f"{text}\nrun = {self.driver.__name__}\n"

    @property
    def max_bytes(self):
        """Size limit of the answer, slightly larger than a correct answer."""
        return sum(np.asarray(array).nbytes + 4096 for array in self.expected.values()) + 4096

    def header(self):
        """Return the header of the message that asks the worker to run this check."""
        return {
            "driver": self.source, "settings": self.settings, "wanted": list(self.expected),
        }  # fmt: skip


@dataclass
class Verdict:
    """Result of a check.

    Attributes
    ----------
    status : {"passed", "failed", "error", "timeout", "crashed", "misbehaved"}
    message : str
        Message for the student.
    first_difference : dict or None
        Entry with the largest error, as a dict with the fields `array`, `index`, `got` and
        `expected`.
    seconds : float
        Duration of the check.
    gradcheck : str or None
        Table of the gradients with possible causes, if a gradient is wrong.
    first_step : dict or None
        First step that differs from the library; see `first_step`.
    """

    status: str
    message: str = ""
    first_difference: dict | None = None
    seconds: float = 0.0
    gradcheck: str | None = None
    first_step: dict | None = None

    @property
    def passed(self):
        """Whether the check passed."""
        return self.status == "passed"


def judge(check, arrays):
    """Compare the arrays of a submission with the expected arrays.

    Parameters
    ----------
    check : Check
    arrays : dict of str to ndarray
        Arrays that the submission returned.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> def run(inputs, settings):
    ...     return {"y": inputs["x"] * 2}
    >>> check = Check("twice", run, {"x": np.ones(2)}, {"y": np.array([2.0, 2.0])})
    >>> judge(check, {"y": np.array([2.0, 3.0])}).message
    'y[1] is 3.0, expected 2.0; this is the largest error; 1 of 2 entries are wrong'
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
        text = "the positions of the finite entries differ"
        return _different(name, found, expected, index, text)
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
    count = f"this is the largest error; {int(wrong.sum()):,} of {error.size:,} entries are wrong"
    return _different(name, found, expected, index, count)


def _same(a, b):
    """Return a mask that is True where two entries are equal or both NaN."""
    return (a == b) | ((a != a) & (b != b))


def _different(name, found, expected, index, more):
    index = tuple(int(i) for i in index)
    place = f"[{', '.join(map(str, index))}]" if index else ""
    got, truth = found[index].item(), expected[index].item()
    first = {"array": name, "index": list(index), "got": repr(got), "expected": repr(truth)}
    return Verdict("failed", f"{name}{place} is {got!r}, expected {truth!r}; {more}", first)
