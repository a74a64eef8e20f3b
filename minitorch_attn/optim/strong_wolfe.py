"""Line search for a step that satisfies the strong Wolfe conditions, used by LBFGS.

Along a direction d, phi(t) = loss(p + t d) has the slope phi'(t) = grad . d. A step t is accepted
if the loss falls enough, and the slope has become small enough:

    phi(t) <= phi(0) + c1 t phi'(0)        abs(phi'(t)) <= c2 abs(phi'(0))

with c1 = 1e-4 and c2 = 0.9. First, t grows until an interval is known to contain a step that
satisfies both conditions. Then the interval shrinks: each new t is the minimum of the cubic
polynomial that matches the losses and slopes at both ends. As in PyTorch, t is moved inward if it
is at an end of the interval, or if it is close to an end (within 10 % of the length) twice in a
row. The two phases are algorithms 3.5 and 3.6 of Nocedal and Wright 2006, "Numerical
Optimization", section 3.5.
"""

import math
from typing import NamedTuple

__all__ = ["strong_wolfe"]

C1, C2 = 1e-4, 0.9


class Point(NamedTuple):
    """A step size t, with the loss after this step, its gradient (a vector) and slope phi'(t)."""

    t: float
    loss: float
    grad: object
    slope: float


def strong_wolfe(evaluate, start, t, tolerance, most):
    """Search along a direction for a step that satisfies the strong Wolfe conditions.

    Parameters
    ----------
    evaluate : callable
        Function `evaluate(t)` that returns the Point at step t.
    start : Point
        The point at t = 0, with a negative slope.
    t : float
        The step to try first.
    tolerance : float
        The search ends if t would change by less than this.
    most : int
        Limit on the number of calls of `evaluate`. The search may exceed it by one call.

    Returns
    -------
    Point
        The accepted point, or the point with the smallest loss if no point was accepted.
    count : int
        Number of calls of `evaluate`.

    Examples
    --------
    >>> def evaluate(t):  # the loss (t - 3)^2
    ...     return Point(t, (t - 3) ** 2, None, 2 * (t - 3))
    >>> point, count = strong_wolfe(evaluate, evaluate(0.0), 1.0, 1e-9, 25)
    >>> round(point.t, 6), count
    (1.0, 1)
    """
    low, high, tried = _bracket(evaluate, start, t, most)
    if high is None:
        return low, tried
    if low.loss > high.loss:
        low, high = high, low
    return _zoom(evaluate, start, low, high, tried, most, tolerance)


def _falls_enough(point, start):
    return point.loss <= start.loss + C1 * point.t * start.slope


def _flat_enough(point, start):
    return abs(point.slope) <= -C2 * start.slope


def _bracket(evaluate, start, t, most):
    """Find a point that satisfies both conditions, or an interval that contains such a point.

    Return (point, None, count) or (one end, other end, count), where `count` is the number of calls
    of `evaluate`.
    """
    before, point = start, evaluate(t)
    for tried in range(1, most + 1):
        rises = tried > 2 and point.loss >= before.loss
        if not _falls_enough(point, start) or rises:
            return before, point, tried
        if _flat_enough(point, start):
            return point, None, tried
        if point.slope >= 0:
            return before, point, tried
        bounds = (point.t + 0.01 * (point.t - before.t), 10 * point.t)
        t = _cubic_minimum(before, point, bounds)
        before, point = point, evaluate(t)
    return start, point, most + 1


def _zoom(evaluate, start, low, high, tried, most, tolerance):
    """Shrink the interval between `low` and `high`.

    Return the best point found, and the number of calls of `evaluate`.
    """
    stuck = False  # whether the last step was close to an end of the interval
    while tried <= most and abs(high.t - low.t) >= tolerance:
        left, right = sorted((low.t, high.t))
        t = _cubic_minimum(*sorted((low, high), key=lambda point: point.t), (left, right))
        margin = 0.1 * (right - left)
        close = min(right - t, t - left) < margin
        if close and (stuck or not left < t < right):
            t = right - margin if right - t < t - left else left + margin
            close = False
        stuck = close
        point, tried = evaluate(t), tried + 1
        if not _falls_enough(point, start) or point.loss >= low.loss:
            high = point
            if low.loss > high.loss:
                low, high = high, low
        elif _flat_enough(point, start):
            return point, tried
        else:
            if point.slope * (high.t - low.t) >= 0:
                high = low
            low = point
    return low, tried


def _cubic_minimum(a, b, bounds):
    """Return the t within `bounds` at which a cubic polynomial has its minimum.

    The polynomial matches the losses and slopes of the Points a and b (a.t <= b.t). If it does not
    have a minimum, return the middle of `bounds`.
    """
    if a.t == b.t:
        return a.t
    middle = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = middle**2 - a.slope * b.slope
    if not square >= 0:  # no minimum, or a loss that is not finite
        return sum(bounds) / 2
    root = math.sqrt(square)
    divisor = b.slope - a.slope + 2 * root
    t = b.t - (b.t - a.t) * (b.slope + root - middle) / divisor if divisor else math.nan
    return min(max(t, bounds[0]), bounds[1]) if t == t else sum(bounds) / 2
