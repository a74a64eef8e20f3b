"""Diagnose which mistake causes a wrong gradient.

Each hint describes a typical mistake, and has a formula for the wrong gradient that this mistake
would give. A hint is reported only if its formula matches the gradient to six digits. So a hint is
rarely wrong, but often there is no hint.
"""

import math
from functools import partial
from itertools import combinations, islice

import numpy as np

from .. import backend
from ..tensor import Tensor
from .clues import Evidence, fits
from .layout import layout_hints
from .report import Hint
from .terms import term_hints

__all__ = ["explain", "explain_result", "gather_evidence"]

_MOST = 2  # maximum number of hints per input


def gather_evidence(items, jacobians, inputs, names, cotangent, outputs):
    """Collect what is known about the gradient of each checked input, as evidence for `explain`.

    Parameters
    ----------
    items : list of GradcheckItem
    jacobians : list of array or None
    inputs : tuple
        All arguments of the function, checked or not.
    names : list of str
    cotangent : array of shape (n,)
    outputs : list of array

    Returns
    -------
    list of Evidence
    """
    floats = {
        name: backend.to_host(x.array)
        for name, x in zip(names, inputs, strict=False)
        if isinstance(x, Tensor) and x.dtype.kind == "f"
    }
    gathered = []
    for item, jacobian in zip(items, jacobians, strict=True):
        arrived = item.analytic_grad is not None
        gathered.append(
            Evidence(
                name=item.name,
                value=floats[item.name],
                derived=item.analytic_grad if arrived else np.zeros(item.shape),
                arrived=arrived,
                numeric=item.numeric_grad,
                jacobian=jacobian,
                cotangent=cotangent,
                outputs=outputs,
                inputs=floats,
            )
        )
    return gathered


def explain(clue, others, deep):
    """Return hints about why the gradient of one input is wrong, most likely first.

    Parameters
    ----------
    clue : Evidence
    others : list of Evidence
        Evidence about all checked inputs, including this one.
    deep : bool
        Whether to also look for mistakes within one operation, such as wrong terms in its formula.

    Returns
    -------
    list of Hint
    """
    if clue.numeric is None or not np.isfinite(clue.numeric).all():
        return []
    if not np.isfinite(clue.derived).all():
        return [Hint("nan", "the backward pass gives NaN or infinity.")]
    if clue.derived.size == 0 or not clue.numeric.any():
        return _where_zero_is_right(clue)
    if not clue.derived.any():
        return [_zeros(clue)]
    found = []
    terms = [term_hints] if deep else []
    layout = partial(layout_hints, deep=deep)
    for guesses in (_factor, _swapped(others), _some_items, layout, *terms):
        for hint in guesses(clue):
            if hint.kind not in [h.kind for h in found]:
                found.append(hint)
        if len(found) >= _MOST or any(h.kind != "items" for h in found):
            break
    return found[:_MOST]


def explain_result(found, correct, inputs):
    """Return hints about why the result of a function is wrong, most likely first.

    Parameters
    ----------
    found, correct : array
        The result and the correct result, of the same shape.
    inputs : dict of str to array
        Floating-point arguments of the function.

    Returns
    -------
    list of Hint

    Examples
    --------
    >>> correct = np.arange(6.0).reshape(2, 3)
    >>> print(*explain_result(-correct, correct, {}))
    the result is -1 times the correct one, at every entry: the sign is wrong.
    """
    clue = Evidence(
        name="the result", value=correct, derived=found, arrived=True, numeric=correct,
        jacobian=None, cotangent=np.ones(correct.size), outputs=[correct], inputs=inputs,
        noun="result",
    )  # fmt: skip
    if not np.isfinite(found).all() or not (found.any() and correct.any()):
        return []
    layout = partial(layout_hints, deep=False)
    hints = (hint for guesses in (_factor, layout, _offset, _some_items) for hint in guesses(clue))
    return list(islice(hints, 1))


def _offset(clue):
    """Yield a hint if the result is too large or too small by the same amount everywhere."""
    error = clue.error
    if error.size > 2 and fits(error, np.full_like(error, error.mean())):
        size = "large" if error.mean() > 0 else "small"
        yield Hint("offset", f"too {size} by {abs(error.mean()):.6g} at every entry.")


def _where_zero_is_right(clue):
    if clue.numeric.any() or not clue.derived.any():
        return []
    return [
        Hint(
            "not_zero",
            "the output does not depend on this input, so the correct gradient is zero.",
        )
    ]


def _zeros(clue):
    if clue.arrived:
        return Hint("zeros", "the gradient is zero at every entry: a backward returns zeros.")
    return Hint(
        "zeros",
        "no gradient arrives: an intermediate value was detached from the graph.",
    )


def _factor(clue):
    """Yield a hint if the gradient is c times the correct one, with one c for all entries."""
    numeric = clue.numeric
    c = float((clue.derived * numeric).sum() / (numeric * numeric).sum())
    if not fits(clue.derived, c * numeric) or abs(c) < 1e-9:
        return
    names = _names_of(c, clue)
    simple = len(names) == 1 and (c > 0 or math.isclose(c, -1))
    if numeric.size == 1 and not simple:  # any two numbers have a ratio
        return
    text = f"the {clue.noun} is {_number(c)} times the correct one, at every entry"
    if names:
        text += f": {'; or '.join(names[:3])}"
    yield Hint("factor", text + ".")


def _number(c):
    for n in range(2, 130):
        ratios = ((1, n), (n, 1), (n, n + 1), (n + 1, n))
        for value, text in ((p / q, f"{p}/{q}" if q > 1 else f"{p}") for p, q in ratios):
            for sign in (1, -1):
                if math.isclose(c, sign * value, rel_tol=1e-6):
                    return text if sign > 0 else f"-{text}"
    return "-1" if math.isclose(c, -1, rel_tol=1e-6) else f"{c:.6g}"


def _names_of(c, clue):
    """Return the possible causes of a gradient that is `c` times the correct one."""

    def is_(value):
        return math.isclose(abs(c), value, rel_tol=1e-6)

    sign = "the sign is wrong" if c < 0 else None
    if is_(1.0):
        return [sign] if sign else []
    names = []
    for size, axes in _sizes(clue):
        of = f"{size} is the size of {axes}"
        if is_(math.sqrt(size)):
            names.append(f"sqrt({size}), where {of}: a factor 1/sqrt({size}) is missing")
        elif is_(1 / math.sqrt(size)):
            names.append(f"1/sqrt({size}), where {of}: the factor 1/sqrt({size}) is applied twice")
        elif is_(size):
            names.append(f"{of}: a sum instead of a mean, or a missing factor 1/{size}")
        elif is_(1 / size):
            names.append(f"{of}: a mean instead of a sum")
        elif size > 1 and is_(size / (size - 1)) or is_((size - 1) / size):
            names.append(f"{of}: n and n - 1 are confused, as in a variance")
    if is_(2.0):
        names.append("a term is counted twice")
    elif is_(0.5):
        names.append("a factor 2 is missing, as for a square or a tensor that is used twice")
    return [f"{sign}, and {name}" for name in names] or [sign] if sign else names


def _sizes(clue):
    """Return the sizes of axes and of groups of axes, as pairs such as (8, "axis 0 of x")."""
    found = {}

    def add(size, axes):
        if size > 1:
            found.setdefault(size, axes)

    shapes = [(clue.name, clue.derived.shape)]
    shapes += [("the output", output.shape) for output in clue.outputs]
    shapes += [(n, value.shape) for n, value in clue.inputs.items() if n != clue.name]
    batch = _batch(shapes, [output.shape for output in clue.outputs])
    if batch is not None:
        add(*batch)
    for name, shape in shapes:
        for axis, size in enumerate(shape):
            add(size, f"axis {axis} of {name}")
    for name, shape in shapes:
        for count in range(2, len(shape) + 1):
            for axes in combinations(range(len(shape)), count):
                size = math.prod(shape[axis] for axis in axes)
                whole = count == len(shape)
                text = " and ".join(map(str, axes))
                add(size, f"all of {name}" if whole else f"axes {text} of {name} together")
    return list(found.items())


def _batch(shapes, outputs):
    """Return the size and a description of the batch axis, or None if there seems to be none.

    The batch axis is axis 0 of an input with several axes. Axis 0 of every non-scalar output must
    have the same size.
    """
    firsts = {shape[0] for shape in outputs if shape}
    for name, shape in shapes:
        if name != "the output" and len(shape) > 1 and firsts <= {shape[0]}:
            return shape[0], f"the batch (axis 0 of {'the output' if firsts else name})"
    return None


def _swapped(others):
    """Return a function that yields a hint if the gradient equals the gradient of another input."""

    def guesses(clue):
        for other in others:
            if other is clue or other.numeric is None or other.numeric.shape != clue.derived.shape:
                continue
            if not other.numeric.any() or clue.derived.size < 2:
                continue
            if fits(clue.derived, other.numeric):
                yield Hint(
                    "swapped",
                    f"this is the gradient of {other.name}: the gradients are not returned in the "
                    "order of the inputs.",
                )
                return
            square = float((other.numeric * other.numeric).sum())
            c = float((clue.derived * other.numeric).sum()) / square
            if fits(clue.derived, c * other.numeric):
                yield Hint("swapped", f"this is {_number(c)} times the gradient of {other.name}.")
                return

    return guesses


def _some_items(clue):
    """Yield a hint if some slices along one axis are correct and the others are wrong."""
    best = None
    wrong = clue.wrong
    for axis, size in enumerate(clue.derived.shape):
        if size < 2:
            continue
        rest = tuple(i for i in range(wrong.ndim) if i != axis)
        bad = wrong.any(axis=rest)
        share = wrong.mean(axis=rest)[bad]  # fraction of wrong entries in each wrong item
        if bad.all() or share.size == 0 or share.min() < 0.5:
            continue
        fewest = min(bad.sum(), size - bad.sum())
        if best is None or fewest < best[0]:
            best = (fewest, axis, size, np.flatnonzero(bad).tolist())
    if best is None:
        return
    _, axis, size, bad = best
    good = [i for i in range(size) if i not in bad]
    zero = not np.take(clue.derived, bad, axis=axis).any()
    how = "zero" if zero else "wrong"
    if len(good) <= len(bad):
        text = f"only {_items(good)} correct; the others are {how}"
    else:
        text = f"only {_items(bad)} {how}; the others are correct"
    yield Hint("items", f"along axis {axis} (of size {size}) {text}.")


def _items(numbers):
    """Format indices as `item 3 is`, or `items 0-3, 7 are`."""
    runs = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs[:6])
    shown += ", ..." if len(runs) > 6 else ""
    return f"item {shown} is" if len(numbers) == 1 else f"items {shown} are"
