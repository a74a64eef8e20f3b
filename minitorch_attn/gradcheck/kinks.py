"""Kinks: decide whether an entry's gradient or its difference quotient is wrong.

At a kink (relu at 0, the maximum of equal numbers) or a jump, a correct gradient can differ from
the difference quotient (the slope). Such an entry is excluded from the check in two cases:

* The gradient agrees with the slope at a smaller step size, which does not reach the kink.
* The kink is at the point itself. The gradient lies between the slopes on the two sides of the
  point, and gradient and slope agree at a short distance on either side.

Neither case applies to a wrong gradient.
"""

from typing import NamedTuple

import numpy as np

from ..autograd.modes import no_grad
from .numeric import Perturbed

__all__ = ["SecondLook", "Verdict"]

_SIDES = (16, 23)  # distances from a kink, in steps, at which its sides are examined


class Verdict(NamedTuple):
    """Verdict on an entry: "kink", "step" (correct at another step size), "noise" or "error"."""

    kind: str
    slope: float


class SecondLook:
    """Second examination of the entries of a leaf at which gradient and slope disagree.

    Parameters
    ----------
    probe : Probe
    leaf : Tensor
    step : float
    noise : float
        Bound on the rounding error of a slope at this step.
    gradient : callable
        Function that computes the leaf's gradient at its current value, on the host.
    """

    def __init__(self, probe, leaf, step, noise, gradient):
        self.probe, self.leaf, self.step, self.noise = probe, leaf, step, noise
        self.gradient = gradient

    def judge(self, position, derived, slope, allowed):
        """Decide why gradient and slope differ at one entry.

        Parameters
        ----------
        position : int
            Index of the entry in row-major order.
        derived, slope : float
            Gradient from the backward pass, and slope with step size `step`.
        allowed : float
            Largest difference that counts as agreement.

        Returns
        -------
        Verdict
        """
        with Perturbed(self.leaf) as moved, np.errstate(all="ignore"):
            start = moved.flat[position].item()
            sides = self._sides(moved, position, start, self.step)
            close = self._sides(moved, position, start, self.step / 10)
            gap = abs(derived - slope)
            bend = abs(sides[1] - sides[0])
            for factor, (below, above) in self._other_steps(moved, position, start, close):
                other = (below + above) / 2
                limit = allowed + self.noise * max(1.0, 1 / factor)
                sharp = limit < 3 * allowed or gap > 20 * limit
                bent = abs(above - below)  # at a kink, equal for all steps that reach it
                straight = bent <= 0.2 * bend + limit or (factor > 1 and bent > 3 * bend)
                if abs(derived - other) <= 2 * limit and sharp and straight:
                    crossed = factor < 1 and _crosses(sides, close, gap)
                    return Verdict("kink" if crossed else "step", other)
            if not np.isfinite(slope):
                return Verdict("noise", slope)
            if self._is_kink(moved, position, start, derived, sides, close, allowed):
                return Verdict("kink", slope)
            between = abs(sum(close) / 2 - slope)
            return Verdict("noise" if between > gap / 2 else "error", slope)

    def _other_steps(self, moved, position, start, close):
        yield 0.1, close
        yield 0.01, self._sides(moved, position, start, self.step / 100)
        yield 10.0, self._sides(moved, position, start, self.step * 10)

    def _sides(self, moved, position, start, step):
        """Return the one-sided slopes just below and just above a point."""
        values = []
        with no_grad():
            for value in (start - step, start, start + step):
                moved.flat[position] = value
                values.append(self.probe.vector())
        moved.flat[position] = start
        below = (values[1] - values[0]) @ self.probe.cotangent / step
        above = (values[2] - values[1]) @ self.probe.cotangent / step
        return float(below), float(above)

    def _is_kink(self, moved, position, start, derived, sides, close, allowed):
        """Return True if the entry is at a kink and its gradient fits the slopes on both sides."""
        low, high = min(close), max(close)
        bend = high - low
        curved = bend < abs(sides[1] - sides[0]) / 2  # at a kink, a smaller step has the same bend
        if not np.isfinite(bend) or curved or bend < 100 * (allowed + 10 * self.noise):
            return False
        slack = 1e-4 * abs(derived) + allowed + 10 * self.noise
        pairs = zip(sides, close, strict=True)
        stable = [abs(far - near) <= 1e-3 * abs(near) + slack for far, near in pairs]
        if all(stable):
            if not low - slack <= derived <= high + slack:
                return False
        else:  # at a jump, the slope may be stable on one side only
            fits = [s and abs(derived - c) <= slack for s, c in zip(stable, close, strict=True)]
            if not any(fits):
                return False
        return all(
            any(
                self._agrees(moved, position, start + side * far * self.step, allowed)
                for far in _SIDES
            )
            for side in (-1, 1)
        )

    def _agrees(self, moved, position, point, allowed):
        """Return True if gradient and slope agree after the entry is set to the value `point`."""
        moved.flat[position] = point
        derived = self.gradient().reshape(-1)[position]
        slope = sum(self._sides(moved, position, point, self.step)) / 2
        return bool(abs(derived - slope) <= 10 * allowed + self.noise + 1e-6 * abs(slope))


def _crosses(sides, close, gap):
    """Return True if the one-sided slopes differ as at a kink.

    For a smooth function, the difference between them is proportional to the step: in `close`,
    whose step is 10 times smaller, it is about 10 times smaller than in `sides`.
    """
    bend, closer = abs(sides[1] - sides[0]), abs(close[1] - close[0])
    return bend >= gap and not 0.05 * bend < closer < 0.2 * bend
