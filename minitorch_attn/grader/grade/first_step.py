"""First step that differs between a submission and the library. It does not affect the points.

A failed check runs a second time in the submission's process, and `Steps` records its steps. The
library's steps are recorded in the grader's process, only once for all students. A step can contain
steps, so both recordings are trees. The search starts at the check's calls and descends to the
lines of the student's file. It pairs the submission's calls with the library's calls (as in
`trace_diff`), and finds the first call whose result differs. Forward passes run first, so they are
compared before backward passes.

The search never decides whether a check passes. If a submission sends false data, the worst outcome
is a missing or wrong message about that submission. All lines shown are from the submitted files.

The feedback reveals one entry of one result of the solution. The submission should compute this
result, too: it is a result of a function to be written, or of a package function that the student's
file calls. The name, line and number of a step that only the solution has are never shown.
"""

import math

import numpy as np

from ...tracing.compare import compare_values
from ...tracing.diff import side_by_side
from ...tracing.equivalent_forms import detours

__all__ = ["first_step"]

_RTOL = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}
_ATOL = 1e-14
_LONGEST = 160  # maximum number of characters of a line to show


def first_step(mine, library, rtol, texts):
    """Find the first step that differs between a submission and the library.

    Parameters
    ----------
    mine, library : list of Step
        Steps of the submission and of the library.
    rtol : float
        Relative tolerance of the check.
    texts : dict of str to str
        Text of the submitted files.

    Returns
    -------
    dict or None
        None if no such step is found. Otherwise, a dict with these fields:

        * The step: `number` (position, from 1), `of` (number of steps), `name`, `path` of its
          layer, `file`, `line`, `text` of the line, `own` (whether the line is the definition of
          the step), and `given` ("same" if its inputs agree with the library's, otherwise "other").
        * The result that differs: `what` (its name), `kind` ("values", "shape", "dtype" or
          "missing"), `index` (of the largest difference), `got` and `expected` (both as text),
          `largest` (the largest difference), `count` (number of wrong entries), `size` (number of
          compared entries), `sampled` (whether these are a sample), `shape`, `dtype`, and `left`
          (whether the result is an argument that was changed in place).
        * The student's function: `in` (its name, or ""), `differ` and `agree` (names of the results
          that differ and agree), and `until` (line up to which all calls agree, or None).
        * The earlier steps: `before` (how many agree), `all_before` (whether all agree), and
          `forward` (whether the matching forward pass agrees).
    """
    level, inside, found, same = (mine, library), None, None, True
    agreed, clean, forward, until = 0, True, False, None
    while True:
        comparison = _Level(*level, rtol, found[0].inputs if found else ())
        pair = comparison.first()
        agreed += comparison.agreeing_before(pair)
        if pair is None:
            until = comparison.until(None)
            break
        clean = clean and comparison.all_agree_before(pair)
        given = pair[0].number in comparison.given
        if not given and found is not None and pair[0].called is None:
            break  # different values reach a layer that calls the student's function
        forward = forward or comparison.forward_agrees(pair[0])
        found, same = pair, given
        names, until = _names(pair[1], level[1]), comparison.until(pair[0])
        if not given:
            break  # the mistake is not inside this step
        if pair[0].defined:
            inside = pair, names
        level = (pair[0].children, pair[1].children)
    if found is None:
        return None
    return {
        **_where(found[0], same, texts, mine), **_what(found, names, rtol),
        **_function(found[0], inside, rtol), "given": "same" if same else "other",
        "left": found[1].left, "before": agreed, "all_before": clean, "until": until,
        "forward": forward,
    }  # fmt: skip


class _Level:
    """Comparison of the submission's steps with the library's steps at one level of nesting."""

    def __init__(self, mine, library, rtol, given=()):
        self.mine, self.rtol = mine, rtol
        self.keys = [entry.number for entry in given]
        left = list(library)
        self.agreeing, unmatched, sure = set(), [], []
        for step in mine:
            match = next((other for other in left if self._equal(step, other)), None)
            if match is None:
                unmatched.append(step)
            else:
                left.remove(match)
                self.agreeing.add(step.number)
                if _same(step.inputs, match.inputs, rtol):
                    sure.append(step)
        self.pairs = [
            pair
            for tag, i, i_end, j, j_end in side_by_side(unmatched, left)
            if tag == "equal"
            for pair in zip(unmatched[i:i_end], left[j:j_end], strict=True)
        ]
        self.sure = sure  # steps whose inputs also agree
        self.given = {a.number for a, b in self.pairs if _same(a.inputs, b.inputs, rtol)}

    def _equal(self, step, other):
        if (step.name, step.module) != (other.name, other.module):
            return False
        pairs = zip(step.outputs, other.outputs, strict=False)
        if any(_far(a.values, b.values, self.rtol) for a, b in pairs):
            return False  # a fast test that rejects most pairs
        return not _differences(step, other, self.rtol)

    def first(self):
        """Return the faulty step and the library's matching step, or None if there is no clear one.

        A step is faulty if it gets correct values and returns wrong values. A step that gets
        different values may compute the same result in a different way. Such a step counts as
        faulty only if no later step that may depend on it agrees with the library.
        """
        paired = {step.number for step, _ in self.pairs}
        loose = {step.number for step in self.mine} - paired - self.agreeing
        fine = detours(self.mine, self.agreeing, self.agreeing | self.given, loose)
        pairs = [pair for pair in self.pairs if pair[0].number not in fine]
        for pair in pairs:
            if pair[0].number in self.given:
                return pair
        return next((pair for pair in pairs if not self._heals(pair[0])), None)

    def _heals(self, step):
        """Return whether a later step agrees with the library although it may depend on `step`."""
        known = set(self.keys)  # arrays that existed before the step
        for other in self.mine:
            if other.number < step.number:
                known.update(entry.number for entry in (*other.inputs, *other.outputs))
        return any(
            other.number > step.number and any(e.number not in known for e in other.inputs)
            for other in self.sure
        )

    def agreeing_before(self, pair):
        """Count the submission's steps that agree with the library.

        If `pair` (submission's step, library's step) is not None, count only the steps before
        the submission's step.
        """
        end = math.inf if pair is None else pair[0].number
        return sum(number < end for number in self.agreeing)

    def all_agree_before(self, pair):
        """Return whether all steps before the submission's step in `pair` agree."""
        return all(s.number in self.agreeing for s in self.mine if s.number < pair[0].number)

    def forward_agrees(self, step):
        """Return whether a step is a backward pass whose forward pass agrees with the library."""
        name = f"{step.name.removesuffix('.backward')}.forward"
        return step.name.endswith(".backward") and any(
            other.name == name and other.number in self.agreeing for other in self.mine
        )

    def until(self, step):
        """Return the line of the last call before the first call that differs, or None.

        If `step` is given, consider only the calls before `step`.
        """
        line = None
        for inner in self.mine:
            if inner is step or inner.number not in self.agreeing:
                break
            line = inner.called[1] if inner.called else line
        return line


def _differences(mine, library, rtol):
    """List (position, difference) for each result that differs from the library's.

    The difference is None if the submission does not have this result.
    """
    found = {}
    for place, entry in zip(mine.places, mine.outputs, strict=True):
        found.setdefault(place, []).append(entry)
    different = []
    for position, (place, entry) in enumerate(zip(library.places, library.outputs, strict=True)):
        own = found.get(place)
        if not own:
            different.append((position, None))
            continue
        unlike = _unlike(own.pop(0).values, entry.values, rtol)
        if unlike is not None:
            different.append((position, unlike))
    return different


def _same(mine, library, rtol):
    """Return whether two lists contain the same arrays, up to rounding."""
    pairs = zip(mine, library, strict=False)
    return len(mine) == len(library) and not any(
        _unlike(a.values, b.values, rtol) for a, b in pairs
    )


def _far(mine, library, rtol):
    """Return True if the sums of two arrays show that some entry differs by more than `rtol`."""
    most = _allowed(library, rtol) * max(mine.scale, library.scale) * (library.array.size + 1)
    return abs(mine.total - library.total) > most + _ATOL  # False if a sum is NaN


def _allowed(library, rtol):
    return max(rtol, _RTOL.get(library.dtype, 1e-9))


def _unlike(mine, library, rtol):
    rtol = _allowed(library, rtol)
    with np.errstate(all="ignore"):
        found = compare_values("", mine, library, rtol, _ATOL)
        if found is None and mine.shape == library.shape and len(library.measures):
            scale = max(abs(library.measures[0]), abs(library.measures[1]))
            far = abs(mine.measures - library.measures) > rtol * scale + _ATOL
            if len(mine.measures) and far.any():
                found = compare_values("", mine, library, 0.0, 0.0)
    return found


# Description


def _where(step, same, texts, top):
    """Return where a step is: its definition if its own code is wrong, otherwise its call."""
    steps = list(_by_end(top))
    own = step.defined is not None and (same or step.called is None)
    file, line = step.defined if own else step.called
    lines = texts[file].splitlines()
    while own and line < len(lines) and lines[line - 1].lstrip().startswith("@"):
        line += 1
    text = lines[line - 1].strip() if line <= len(lines) else ""
    return {
        "number": 1 + steps.index(step), "of": len(steps), "name": step.name, "path": step.module,
        "own": own, "file": file, "line": line, "text": text[:_LONGEST],
    }  # fmt: skip


def _by_end(steps):
    """Yield all steps in the order in which they end, so nested steps come first."""
    for step in steps:
        yield from _by_end(step.children)
        yield step


def _names(step, beside):
    """Return a name for each result of a library step, such as "grad_x" for the gradient of x."""
    class_name, _, method = step.name.rpartition(".")
    count = len(step.outputs)
    if step.left:
        takes = [str(name) for name in step.takes]
        return [takes[place] if place < len(takes) else "the result" for place in step.places]
    if method == "backward":
        forward = next((s for s in beside if s.name == f"{class_name}.forward"), None)
        if forward is not None:
            takes = [str(name) for name in forward.takes][1:]  # arguments without ctx
            return [f"grad_{takes[p]}" if p < len(takes) else f"gradient {p}" for p in step.places]
        return [f"gradient {place}" for place in step.places] if count > 1 else ["the gradient"]
    return [f"result {place}" for place in step.places] if count > 1 else ["the result"]


def _what(pair, names, rtol):
    mine, library = pair
    different = _differences(mine, library, rtol)
    position, unlike = different[0]
    right = library.outputs[position].values
    found = {
        "what": names[position], "kind": "missing", "index": None, "got": "nothing",
        "expected": "an array", "largest": None, "count": 0, "size": 0,
        "sampled": right.every > 1, "shape": list(right.shape), "dtype": right.dtype,
    }  # fmt: skip
    if unlike is not None:
        numbers = unlike.kind == "values"
        found |= {
            "kind": unlike.kind, "index": None if unlike.index is None else list(unlike.index),
            "got": _text(unlike.mine, right), "expected": _text(unlike.reference, right),
            "largest": f"{unlike.largest:.3g}" if numbers else None, "count": unlike.count,
            "size": unlike.size,
        }  # fmt: skip
    return found


def _function(step, inside, rtol):
    """Return the name of the function with the mistake, and which of its results are wrong."""
    name = step.name if inside and step is inside[0][0] else step.by
    found = {"in": name, "differ": [], "agree": []}
    if inside and inside[0][0].name == name:
        pair, names = inside
        wrong = {names[position] for position, _ in _differences(*pair, rtol)}
        for result in dict.fromkeys(names):
            found["differ" if result in wrong else "agree"].append(result)
    return found


def _text(value, right):
    if isinstance(value, float):
        if right.dtype == "bool" and value in (0.0, 1.0):
            return str(bool(value))
        return f"{value:.9g}"
    return str(value)
