"""Report of a gradient check, as an object that can be printed."""

import shutil
import textwrap
from dataclasses import dataclass, field

import numpy as np

from ..errors import NumericError

__all__ = ["GradcheckError", "GradcheckItem", "GradcheckReport", "Hint", "wrapped"]

_WIDTH, _NARROWEST = 96, 60


@dataclass(frozen=True)
class Hint:
    """A hint about the cause of a wrong gradient.

    Attributes
    ----------
    kind : str
        One word for the kind of mistake: "factor", "transpose", "roll", ...
    text : str
        Explanation of the mistake, as a sentence.
    """

    kind: str
    text: str

    def __str__(self):
        return self.text


@dataclass
class GradcheckItem:
    """Result for one input or parameter.

    Attributes
    ----------
    name : str
    shape : tuple of int
    ok : bool
    error : float
        `|derived - numeric| / max(|derived|, |numeric|)` in the 2-norm, excluding the `kinks`.
    worst_error : float
        Error of the worst entry, relative to the entry's magnitude or to 1/1000 of the largest
        magnitude, whichever is larger. Both `error` and `worst_error` are divided by a larger
        number if rounding errors alone could otherwise exceed the tolerance.
    worst_index : tuple of int, or None
    analytic, numeric : float
        Gradients from backward and from central differences at `worst_index`.
    kinks : list of tuple of int
        Entries excluded because the function is not differentiable there or within the step.
    analytic_grad, numeric_grad : array or None
        Both gradients of all entries, on the host; `analytic_grad` is None if no gradient arrived.
    hints : list of Hint
    """

    name: str
    shape: tuple
    ok: bool = True
    error: float = 0.0
    worst_error: float = 0.0
    worst_index: tuple | None = None
    analytic: float = 0.0
    numeric: float = 0.0
    kinks: list = field(default_factory=list)
    noisy: int = 0
    analytic_grad: np.ndarray | None = None
    numeric_grad: np.ndarray | None = None
    hints: list = field(default_factory=list)

    @property
    def verdict(self):
        """ "ok" or "WRONG"."""
        return "ok" if self.ok else "WRONG"


@dataclass(repr=False)
class GradcheckReport:
    """Result of a gradient check. It is truthy if the check passed.

    Attributes
    ----------
    items : list of GradcheckItem
        Results, one per input or parameter that was checked.
    problems : list of Hint
        Other problems, such as a changed input or two runs that differ.
    fault : Fault or None
        Going back from the output, the first operation whose own gradient is wrong.
    notes : list of str
        Notes on how the check was done and what was excluded.
    """

    items: list
    problems: list = field(default_factory=list)
    fault: object = None
    notes: list = field(default_factory=list)
    title: str = "gradcheck"

    @property
    def ok(self):
        """True if every gradient is correct and the check found no other problems."""
        return not self.problems and all(item.ok for item in self.items)

    @property
    def hints(self):
        """All hints about the inputs, about the whole check and about the faulty operation."""
        found = [hint for item in self.items for hint in item.hints] + self.problems
        return found + (self.fault.hints if self.fault is not None else [])

    def __bool__(self):
        return self.ok

    def __getitem__(self, name):
        """Return the item of one input or parameter."""
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(name)

    def raise_if_wrong(self):
        """Raise GradcheckError with this report if the check failed."""
        if not self.ok:
            raise GradcheckError(self)

    def __str__(self):
        return "\n".join([*self._values(), *self._causes(), *self._remarks()])

    __repr__ = __str__  # a notebook shows the report as it is printed

    def facts(self):
        """Return the report as text, without the possible causes of wrong gradients."""
        return "\n".join([*self._values(), *self._remarks()])

    def causes(self):
        """Return the possible causes of wrong gradients as text; "" if there are none."""
        return "\n".join(self._causes()).strip("\n")

    def _values(self):
        return [self._headline(), "", *_table(self.items)]

    def _causes(self):
        lines = []
        for item in self.items:
            lines += _bullets(item.name, item.hints)
        lines += _bullets("also wrong" if self.items else "wrong", self.problems)
        if self.fault is not None:
            known = {hint.text for item in self.items for hint in item.hints}
            known |= {hint.text for hint in self.problems}
            lines += ["", *self.fault.lines(known)]
        return lines

    def _remarks(self):
        return ["", *wrapped("; ".join(self.notes) + ".", "  ")] if self.notes else []

    def _headline(self):
        wrong = sum(not item.ok for item in self.items)
        count = len(self.items)
        if self.ok:
            agree = "the gradient agrees" if count == 1 else f"all {count} gradients agree"
            return f"{self.title}: {agree} with central differences."
        if wrong:
            some = "the gradient" if count == 1 else f"{wrong} of the {count} gradients"
            verb = "disagrees" if wrong == 1 else "disagree"
            return f"{self.title}: {some} {verb} with central differences."
        return f"{self.title}: the gradients agree with central differences, but:"


class GradcheckError(NumericError):
    """Raised when a gradient check fails; its text is the report.

    Attributes
    ----------
    report : GradcheckReport
    """

    def __init__(self, report):
        super().__init__(str(report))
        self.report = report


def wrapped(text, indent, first=None):
    """Wrap text to the terminal's width, at most 96 characters; `first` indents the first line."""
    return textwrap.wrap(
        text, _width(), initial_indent=indent if first is None else first, subsequent_indent=indent
    )


def _width():
    return min(_WIDTH, max(_NARROWEST, shutil.get_terminal_size((_WIDTH, 24)).columns))


def _bullets(name, hints):
    """Return an empty line and the hints as lines of text; `name` starts the first hint."""
    lines = []
    for i, hint in enumerate(hints):
        first = f"  {name}: " if i == 0 else "    "
        lines += wrapped(hint.text, "    ", first)
    return ["", *lines] if lines else []


def _table(items):
    """Format the name, shape, errors and worst entry of each item as the lines of a table."""
    wide = _width() == _WIDTH
    digits, space = (6, " ") if wide else (4, "")
    rows = [("", "name", "shape", "error", "worst", "at", "backward", "numeric", "")]
    for item in items:
        rows.append((
            item.verdict,
            item.name,
            str(item.shape).replace(" ", space),
            f"{item.error:.1e}",
            f"{item.worst_error:.1e}",
            _place(item).replace(", ", f",{space}"),
            "none" if item.analytic_grad is None else f"{item.analytic:.{digits}g}",
            f"{item.numeric:.{digits}g}",
            _left_out(item),
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = {3, 4, 6, 7}
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _place(item):
    if item.worst_index is not None:
        return str(item.worst_index)
    return "" if 0 in item.shape else "a direction"


def _left_out(item):
    parts = []
    if item.kinks:
        parts.append(f"{len(item.kinks)} kink{'s' if len(item.kinks) > 1 else ''}")
    if item.noisy:
        parts.append(f"{item.noisy} uncertain")
    return ", ".join(parts)
