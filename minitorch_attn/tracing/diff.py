"""Diff two recordings: find the first step at which they differ.

`Difference.document()` returns the data of the HTML page, a dict with these fields:

* version (2, as for recordings), title and report (text).
* same and kind: see `Difference`. `kind` is null if `same` is true.
* what: name of the tensor that differs, or null.
* mine_step and reference_step: ids of the steps that differ, or null.
* index, mine_value, reference_value, largest, count and size: the difference, as in `Unlike`.
* mine and reference: documents of the two recordings.
* pairs: [mine id, reference id, "same" or a text that describes the difference] for each pair of
  steps.
* structure: {"mine": [ids], "reference": [ids], "harmless": true or false} for each place where the
  sequences of steps differ. A place is harmless if its steps do not change the result.
"""

from difflib import SequenceMatcher

from ..files import atomic_file
from ..named_errors import names_arguments
from .compare import Unlike, compare_steps
from .equivalent_forms import detours

__all__ = ["Difference", "side_by_side", "trace_diff"]


class Gap:
    """Adjacent steps that occur in only one of two recordings.

    Attributes
    ----------
    mine, reference : list of Step
    harmless : bool
        True if these steps do not change the result.
    """

    def __init__(self, mine, reference, position):
        self.mine, self.reference, self.position = mine, reference, position
        self.harmless = False


class Difference:
    """Result of `trace_diff`.

    Attributes
    ----------
    same : bool
        True if nothing differs, or if the recordings compute the same values in different ways.
    kind : str or None
        "values", "shape", "dtype", "number", "missing" or "structure".
    mine, reference : Step or None
        The steps that differ. For "structure", the first steps at which the sequences diverge.
    unlike : Unlike or None
        The difference between the two steps.
    gaps : list of Gap
        All places where the sequences differ.
    pairs : list of (Step, Step, Unlike or None)
        The compared steps.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[1.0, 2.0], [3.0, 5.0]])
    >>> with mt.trace() as mine:
    ...     y = x.exp().softmax(0)
    >>> with mt.trace() as reference:
    ...     y = x.exp().softmax(1)
    >>> found = mt.trace_diff(mine, reference)
    >>> found.mine.op, found.unlike.name, found.unlike.index
    ('Softmax', 'output y', (1, 0))
    """

    def __init__(self, recordings, pairs, gaps):
        self.recordings, self.pairs, self.gaps = recordings, pairs, gaps
        self.mine = self.reference = self.unlike = self.kind = self.gap = None
        self._find()

    def _find(self):
        """Find the first difference that does not cancel out."""
        fine = self._detours()
        self.healed = [u is not None and {a.number, -b.number} <= fine for a, b, u in self.pairs]
        for gap in self.gaps:
            numbers = [s.number for s in gap.mine] + [-s.number for s in gap.reference]
            gap.harmless = fine.issuperset(numbers)
        bad = [
            u is not None and not healed
            for (*_, u), healed in zip(self.pairs, self.healed, strict=True)
        ]
        at = next((i for i, wrong in enumerate(bad) if wrong), len(self.pairs))
        gap = next((g for g in self.gaps if g.position <= at and not g.harmless), None)
        if gap is not None:
            self.kind, self.gap, at = "structure", gap, gap.position
            self.mine = next(iter(gap.mine), None)
            self.reference = next(iter(gap.reference), None)
        elif at < len(self.pairs):
            self.mine, self.reference, self.unlike = self.pairs[at]
            self.kind = self.unlike.kind
        self.position = at
        self.agreed = sum(unlike is None for *_, unlike in self.pairs[:at])

    def _detours(self):
        """Return the numbers of the detours: steps whose differences do not change the result.

        Detours of the reference have negative numbers: -n stands for its step n.
        """
        within = [gap for gap in self.gaps if gap.position < len(self.pairs)]
        agree = [pair for pair in self.pairs if pair[2] is None]
        given = [pair for pair in self.pairs if pair[2] is None or not pair[2].of_input]
        mine = detours(
            self.recordings[0].steps,
            {a.number for a, _, _ in agree},
            {a.number for a, _, _ in given},
            {step.number for gap in within for step in gap.mine},
        )
        reference = detours(
            self.recordings[1].steps,
            {b.number for _, b, _ in agree},
            {b.number for _, b, _ in given},
            {step.number for gap in within for step in gap.reference},
        )
        return mine | {-number for number in reference}

    @property
    def same(self):
        """True if no difference was found."""
        return self.kind is None

    def report(self):
        """Describe the first difference.

        Returns
        -------
        str
        """
        from .report import diff_report

        return diff_report(self)

    def _repr_html_(self):
        """Return the page of both recordings as HTML, which a notebook displays inline."""
        from .page import diff_page, frame

        return frame(diff_page(self.document(values=1024)))

    def __str__(self):
        return self.report()

    def __repr__(self):
        return f"<Difference: {'none' if self.same else self.kind}>"

    def document(self, values=2048):
        """Return the difference as a dict for JSON; see this module's docstring.

        Parameters
        ----------
        values : int
            Maximum number of values per tensor.

        Returns
        -------
        dict
        """
        mine, reference = self.recordings
        unlike = self.unlike
        return {
            "version": 2,
            "title": f"{mine.title or 'mine'} and {reference.title or 'the reference'}",
            "report": self.report(),
            "same": self.same,
            "kind": self.kind,
            "what": None if unlike is None else unlike.name,
            "mine_step": None if self.mine is None else self.mine.number,
            "reference_step": None if self.reference is None else self.reference.number,
            **(Unlike("", "", None, None) if unlike is None else unlike).document(),
            "pairs": [
                [a.number, b.number, _state(unlike, healed)]
                for (a, b, unlike), healed in zip(self.pairs, self.healed, strict=True)
            ],
            "structure": [
                {
                    "mine": [step.number for step in gap.mine],
                    "reference": [step.number for step in gap.reference],
                    "harmless": gap.harmless,
                }
                for gap in self.gaps
            ],
            "mine": mine.document(values),
            "reference": reference.document(values),
        }

    def save_html(self, path):
        """Write an HTML page that shows both recordings and the first difference.

        Parameters
        ----------
        path : str or path
        """
        from .page import diff_page

        with atomic_file(path) as file:
            file.write(diff_page(self.document()).encode())


def _state(unlike, healed):
    if unlike is None:
        return "same"
    return f"{unlike.text}; later steps agree again" if healed else unlike.text


@names_arguments
def trace_diff(mine, reference, rtol=None, atol=None):
    """Find the first step, forward or backward, at which two recordings differ.

    Both recordings should start from the same inputs and the same parameters. Steps are matched by
    operation, and by module if most modules are in both recordings. Differences that cancel out,
    such as the difference between `(q / 3) @ k` and `(q @ k) / 3`, are ignored.

    Parameters
    ----------
    mine, reference : Recording
    rtol : float, optional
        Relative tolerance, as a multiple of the tensor's largest value. Default: 1e-4 for float32,
        1e-9 for float64, 1e-2 for float16.
    atol : float, optional
        Absolute tolerance, added to the relative one. Default: the dtype's smallest normal number.

    Returns
    -------
    Difference
        Result; printing it shows a description of the difference.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> def run(scale):
    ...     x = mt.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    ...     with mt.trace() as t:
    ...         ((x @ x.T) / scale).softmax(1).square().sum().backward()
    ...     return t
    >>> print(mt.trace_diff(run(2.0), run(2**0.5)).report())  # doctest: +ELLIPSIS
    The recordings differ from forward step 3 on: Div. The 2 steps before it agree.
    ...
      what       input b
      mine       2
      reference  1.41421
    ...
    """
    pairs, gaps = [], []
    a, b = mine.steps, reference.steps
    for tag, i, i_end, j, j_end in side_by_side(a, b):
        if tag == "equal":
            for one, other in zip(a[i:i_end], b[j:j_end], strict=True):
                pairs.append((one, other, compare_steps(one, other, rtol, atol)))
        else:
            gaps.append(Gap(a[i:i_end], b[j:j_end], len(pairs)))
    return Difference((mine, reference), pairs, gaps)


def side_by_side(a, b):
    """Divide two sequences of steps into ranges that match and ranges that differ.

    Parameters
    ----------
    a, b : sequence of Step
        Steps, matched by their `kind`, `op` and `module`.

    Returns
    -------
    list of (str, int, int, int, int)
        Tuples (tag, i, i_end, j, j_end), as in `difflib`. If the tag is "equal", the steps
        `a[i:i_end]` and `b[j:j_end]` match one by one.
    """
    return SequenceMatcher(None, *_keys(a, b), autojunk=False).get_opcodes()


def _keys(a, b):
    """Return a key (kind, operation, module) for each step of both recordings.

    If at most half of the modules occur in both recordings, the module in each key is "".
    """
    paths = [{str(step.module) for step in steps} for steps in (a, b)]
    with_module = 2 * len(paths[0] & paths[1]) > max(map(len, paths))
    return [
        [(step.kind, step.op, str(step.module) if with_module else "") for step in steps]
        for steps in (a, b)
    ]
