"""Compare one input's gradient from the backward pass with central differences."""

import numpy as np

from .kinks import SecondLook
from .numeric import directional_slope, host_normal, slopes
from .report import GradcheckItem, Hint

__all__ = ["compare"]

_DIRECTIONS = 3
_ENOUGH = 8  # number of wrong entries after which no more entries are examined again
_BEND = 1e-2  # a slope that changes by this fraction of the largest slope is examined again
_ROUNDING = 16  # assumed error of an evaluation, in units in the last place


def compare(probe, name, leaf, derived, options, gradient):
    """Compare the gradient of one input with central differences.

    Parameters
    ----------
    probe : Probe
    name : str
    leaf : Tensor
    derived : array or None
        Gradient from the backward pass; None counts as zeros.
    options : Options
    gradient : callable
        Function that computes the gradient of this leaf at its current value.

    Returns
    -------
    item : GradcheckItem
    jacobian : array of shape (entries, outputs), or None
    """
    item = GradcheckItem(name, leaf.shape, analytic_grad=derived)
    derived = np.zeros(leaf.shape) if derived is None else derived
    noise = rounding_noise(probe, leaf, options.eps)
    if options.fast:
        passed = _along_directions(probe, leaf, derived, options, noise, item)
        if passed or leaf.array.size > options.detail:
            return item, None
    numeric, bends, jacobian = slopes(probe, leaf, options.eps)
    judged = _Judged(derived, numeric, bends, noise, options.tol)
    if not judged.fine or judged.suspicious.any():
        judged.look_again(SecondLook(probe, leaf, options.eps, noise, gradient))
    judged.fill(item)
    return item, jacobian


def rounding_noise(probe, leaf, step):
    """Return a bound on the rounding error of a slope, based on the size of the outputs."""
    unit = np.finfo(leaf.dtype).eps
    size = np.linalg.norm(probe.values * probe.cotangent)
    return float(_ROUNDING * unit * size / step)


def _is_zero(derived, numeric, noise):
    """Return True if the gradient and its central differences are zero, up to rounding."""
    largest = np.abs(derived).max(initial=0.0)
    return largest <= 1e-3 * noise and np.abs(numeric).max(initial=0.0) <= noise


class _Judged:
    """Entries of one input, each judged correct, wrong or excluded.

    The error of an entry is the difference between its gradient and its slope (the central
    difference), divided by a scale. The scale is the largest of three numbers:

    * the magnitude of the entry's gradient or slope, whichever is larger,
    * 1/1000 of the largest magnitude of all entries,
    * `noise / tol`, because at a smaller scale, rounding errors alone could make the error exceed
      `tol`. This number is limited to the largest magnitude of all entries. The limit does not
      apply if the gradient is zero, because then all magnitudes are rounding errors.
    """

    def __init__(self, derived, numeric, bends, noise, tol):
        self.derived, self.numeric = derived, numeric.copy()
        self.noise, self.tol = noise, tol
        self.kept = np.ones(derived.shape, bool)
        self.refuted = np.zeros(derived.shape, bool)
        self.noisy = 0
        with np.errstate(all="ignore"):
            self._measure()
            self.suspicious = np.abs(bends) > _BEND * self.largest + 100 * noise

    def _measure(self):
        derived, numeric = self.derived, self.numeric
        size = np.maximum(np.abs(derived), np.abs(numeric))
        self.largest = size[np.isfinite(size) & self.kept].max(initial=0.0)
        blurred = self.noise / self.tol
        if not _is_zero(derived, numeric, self.noise):
            blurred = min(blurred, self.largest)
        smallest = max(blurred, 1e-3 * self.largest, 1e-200)
        self.floors = np.maximum(size, smallest)
        errors = np.abs(derived - numeric) / self.floors
        self.errors = np.where(self.kept, np.where(np.isnan(errors), np.inf, errors), 0.0)
        top = np.linalg.norm((derived - numeric)[self.kept])
        bottom = max(
            np.linalg.norm(derived[self.kept]),
            np.linalg.norm(numeric[self.kept]),
            smallest * np.sqrt(max(derived.size, 1)),
        )
        self.error = float(top / bottom)
        if np.isnan(self.error):
            self.error = np.inf

    @property
    def fine(self):
        """True if gradient and slope agree at all entries that are not excluded."""
        worst = self.errors.max(initial=0.0)
        return bool(self.error < self.tol and worst < self.tol and not self.refuted.any())

    def look_again(self, look):
        """Re-examine entries whose gradient and slope disagree, or that may be at a kink.

        Begin with the entry that has the largest error.
        """
        errors = np.where(self.suspicious, np.maximum(self.errors, self.tol), self.errors)
        errors = errors.reshape(-1)
        found = 0
        for position in np.argsort(-errors, kind="stable").tolist():
            if errors[position] < self.tol or found >= _ENOUGH:
                break
            verdict = look.judge(
                position,
                float(self.derived.flat[position]),
                float(self.numeric.flat[position]),
                self.tol * float(self.floors.flat[position]),
            )
            if verdict.kind == "kink":
                self.kept.flat[position] = False
            elif verdict.kind == "step":
                self.numeric.flat[position] = verdict.slope
            else:
                found += 1
                self.noisy += verdict.kind == "noise"
                self.refuted.flat[position] = True
        with np.errstate(all="ignore"):
            self._measure()

    def fill(self, item):
        """Write the result of the comparison to `item`, a GradcheckItem."""
        if np.abs(self.numeric).max(initial=0.0) <= self.noise:
            self.numeric *= 0.0  # only rounding errors
        item.numeric_grad = self.numeric
        item.kinks = [tuple(map(int, index)) for index in np.argwhere(~self.kept)]
        item.noisy = self.noisy
        item.error = self.error
        item.ok = self.fine
        if self.derived.size:
            order = self.errors + self.refuted  # a wrong entry at a kink may have a small error
            index = np.unravel_index(int(order.argmax()), order.shape)
            item.worst_index = tuple(map(int, index))
            item.worst_error = float(self.errors[index])
            item.analytic, item.numeric = float(self.derived[index]), float(self.numeric[index])
        if self.noisy:
            item.hints.append(_uncertain(self.numeric))
        if (self.refuted & (self.errors < self.tol)).any():
            item.hints.append(
                Hint(
                    "kink_sides",
                    "at a kink of the function, the gradient agrees with the central difference "
                    "only by chance: at a short distance on one side, the gradient is wrong.",
                )
            )
        if self.derived.size and not self.kept.any():
            item.ok = False
            item.hints.append(
                Hint(
                    "kinks",
                    "nothing was checked: every entry is at a kink, where there is no derivative. "
                    "Move the values away from the kink, for example by 0.1.",
                )
            )


def _uncertain(numeric):
    if not np.isfinite(numeric).all():
        return Hint(
            "unreliable",
            "the function is infinite or NaN one step away from some entries, so their slopes are "
            "unknown: choose inputs well inside the function's domain.",
        )
    return Hint(
        "unreliable",
        "the central differences are uncertain here: two step sizes give different slopes. They "
        "are accurate for inputs and outputs near 1; a jump in the function cannot be checked.",
    )


def _along_directions(probe, leaf, derived, options, noise, item):
    """Compare the gradient with slopes along random directions; return whether all agree."""
    size = derived.size
    if size == 0:
        return True
    for number in range(_DIRECTIONS):
        direction = host_normal(size, options.seed + 1 + number).reshape(leaf.shape)
        direction *= min(1.0, 10 / np.linalg.norm(direction))  # limits the truncation error
        expected = float((derived * direction).sum())
        typical = np.linalg.norm(derived) * np.linalg.norm(direction) / np.sqrt(size)
        for factor in (1.0, 10.0, 0.1, 0.01):
            slope = directional_slope(probe, leaf, direction, options.eps * factor)
            scale = max(abs(slope), abs(expected), typical, 1e-200)
            error = abs(slope - expected) / scale if np.isfinite(expected - slope) else np.inf
            if _is_zero(np.array([typical, expected]), np.array(slope), noise / factor):
                error = 0.0  # rounding grows as the step shrinks
            if error < options.tol:
                break
        item.error = item.worst_error = max(item.error, float(error))
        item.analytic, item.numeric = expected, slope
    item.ok = item.error < options.tol
    return item.ok
