"""Sliding windows along an axis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, IndexRangeError


def windows(x, axis, size, step):
    """Plain loop over the windows."""
    starts = range(0, x.shape[axis] - size + 1, step)
    pieces = [np.moveaxis(np.take(x, range(s, s + size), axis), axis, -1) for s in starts]
    return np.stack(pieces, axis)


CASES = [
    Case("windows", lambda x: mt.sliding_windows(x, 1, 3, 2), lambda x: windows(x, 1, 3, 2),
         (2, 8, 3)),
    Case("windows that touch", lambda x: mt.sliding_windows(x, -1, 2, 2),
         lambda x: windows(x, 1, 2, 2), (2, 6)),
    Case("windows with gaps", lambda x: mt.sliding_windows(x, 0, 2, 3),
         lambda x: windows(x, 0, 2, 3), (9,)),
    Case("windows of a 0-d tensor", lambda x: mt.sliding_windows(x, 0, 1, 1), lambda x: x[None],
         ()),
    Case("windows of nothing", lambda x: mt.sliding_windows(x, 0, 0, 2),
         lambda x: np.zeros((3, 0), x.dtype), (5,)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_windows_are_views(make):
    x = make(5, requires_grad=False)
    view = mt.sliding_windows(x, 0, 3, 1)
    x[:] = 7.0
    assert (view.numpy() == 7).all()


def test_errors_say_what_was_seen(make):
    with pytest.raises(ArgumentError, match="size or step is out of range") as caught:
        mt.sliding_windows(make(2, 3), 1, 4, 1)
    assert "size=4 and step=1 for axis 1 of input (2, 3)" in str(caught.value)
    with pytest.raises(ArgumentError, match="a positive step"):
        mt.sliding_windows(make(2, 3), 1, 2, 0)
    with pytest.raises(IndexRangeError, match="out of range"):
        mt.sliding_windows(make(2, 3), 2, 1, 1)


@settings(max_examples=50, deadline=None)
@given(length=st.integers(1, 9), data=st.data(), step=st.integers(1, 4))
def test_any_windows(length, data, step, device):
    size = data.draw(st.integers(1, length))
    array = np.random.default_rng(0).standard_normal((2, length))
    x = mt.tensor(array, device=device, requires_grad=True)
    y = mt.sliding_windows(x, -1, size, step)
    np.testing.assert_array_equal(y.numpy(), windows(array, 1, size, step))
    y.backward(mt.ones(*y.shape, dtype=mt.float64, device=device))
    uses = np.zeros((2, length))
    for start in range(0, length - size + 1, step):
        uses[:, start : start + size] += 1
    np.testing.assert_array_equal(x.grad.numpy(), uses)
