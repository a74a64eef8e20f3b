"""Distances between rows: cdist."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.autograd import grad
from minitorch_attn.errors import ArgumentError, ShapeError


def apart(p):
    """All distances by plain loops."""

    def distances(x1, x2):
        y = np.zeros((len(x1), len(x2)), x1.dtype)
        for i, a in enumerate(x1):
            for j, b in enumerate(x2):
                y[i, j] = np.linalg.norm(a - b, p)
        return y

    return distances


CASES = [
    Case(f"p = {p}", lambda a, b, p=p: mt.cdist(a, b, p), apart(p), (2, 3), (5, 3))
    for p in (1.0, 1.5, 2.0, 3.0, float("inf"))
] + [
    Case("leading axes broadcast", mt.cdist,
         lambda a, b: np.sqrt(((a[..., :, None, :] - b[..., None, :, :]) ** 2).sum(-1)),
         (7, 1, 2, 3), (4, 5, 3)),
    Case("rows without entries", mt.cdist, lambda a, b: np.zeros((2, 5), a.dtype), (2, 0), (5, 0)),
    Case("no rows", mt.cdist, lambda a, b: np.zeros((0, 5), a.dtype), (0, 3), (5, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_p_zero_counts_what_differs(device):
    a = mt.tensor([[1.0, 2.0, 3.0]], device=device, requires_grad=True)
    b = mt.tensor([[1.0, 0.0, 0.0], [1.0, 2.0, 3.0]], device=device)
    y = mt.cdist(a, b, 0.0)
    assert y.tolist() == [[2, 0]]
    assert grad(y.sum(), a)[0].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_the_derivative_at_distance_zero_is_zero(p, make):
    x = make(3, 2)
    slope = grad(mt.cdist(x, x.detach(), p).diagonal().sum(), x)[0].numpy()
    np.testing.assert_array_equal(slope, np.zeros((3, 2)))


def test_errors_say_what_was_seen(make):
    with pytest.raises(ShapeError, match="the same length") as caught:
        mt.cdist(make(2, 3), make(2, 5))
    assert "x1 (2, 3) and x2 (2, 5)" in str(caught.value)
    with pytest.raises(ArgumentError, match="p must be at least 0"):
        mt.cdist(make(2, 3), make(2, 3), -1.0)
