"""Line search: the accepted step satisfies both conditions, on functions of every shape."""

import math

import pytest

from minitorch_attn.optim.strong_wolfe import C1, C2, Point, strong_wolfe

MOST = 25

SHAPES = {  # phi and its slope, with phi'(0) < 0
    "parabola": (lambda t: (t - 3) ** 2, lambda t: 2 * (t - 3)),
    "quartic": (lambda t: (t - 0.5) ** 4 - t, lambda t: 4 * (t - 0.5) ** 3 - 1),
    "waves": (lambda t: t * t / 50 - math.sin(t), lambda t: t / 25 - math.cos(t)),
    "valley": (lambda t: math.exp(-t) + 1e-3 * t, lambda t: 1e-3 - math.exp(-t)),
    "wall": (lambda t: -t - math.log(max(1e-300, 2 - t)) if t < 2 else math.inf,
             lambda t: -1 + 1 / (2 - t) if t < 2 else math.inf),
}  # fmt: skip


@pytest.mark.parametrize("first", [1e-4, 0.3, 1.0, 7.0, 1e3])
@pytest.mark.parametrize("name", SHAPES)
def test_both_conditions_hold(name, first):
    phi, slope = SHAPES[name]
    tried = []

    def evaluate(t):
        tried.append(t)
        return Point(t, phi(t), None, slope(t))

    start = Point(0.0, phi(0.0), None, slope(0.0))
    assert start.slope < 0
    point, count = strong_wolfe(evaluate, start, first, 1e-12, MOST)
    assert count == len(tried) <= MOST + 1
    assert point.loss <= start.loss + C1 * point.t * start.slope
    assert abs(point.slope) <= C2 * abs(start.slope)


def test_a_function_without_an_acceptable_step_ends():
    """A straight line falls for ever: the last step is taken."""
    point, count = strong_wolfe(
        lambda t: Point(t, -t, None, -1.0), Point(0.0, 0.0, None, -1.0), 1.0, 1e-9, MOST
    )
    assert count == MOST + 1 and point.t > 1e15


def test_the_search_ends_when_nothing_changes_any_more():
    """With a wrong slope no step is acceptable; the interval shrinks to the tolerance."""
    point, count = strong_wolfe(
        lambda t: Point(t, t, None, -1.0), Point(0.0, 0.0, None, -1.0), 1.0, 0.5, MOST
    )
    assert count < MOST and point.t == 0.0
