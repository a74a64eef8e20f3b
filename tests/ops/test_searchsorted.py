"""masked_select, nonzero and searchsorted: find elements and positions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, ShapeError

MASK = np.array([[True, False, True], [False, True, True]])

CASES = [
    Case("masked_select", mt.masked_select, lambda x, m: x[m], (2, 3), MASK),
    Case("masked_select, broadcast input", mt.masked_select,
         lambda x, m: np.broadcast_to(x, (2, 3))[m], (3,), MASK),
    Case("masked_select, broadcast mask", mt.masked_select,
         lambda x, m: x[np.broadcast_to(m, (2, 3))], (2, 3), MASK[0]),
    Case("masked_select of 0-d", mt.masked_select, lambda x, m: x.reshape(1), (), np.array(True)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@settings(max_examples=40, deadline=None)
@given(shape=array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), seed=st.integers(0, 99))
def test_nonzero_of_any_shape(shape, seed, device):
    array = np.random.default_rng(seed).integers(0, 2, shape)
    x = mt.tensor(array, device=device)
    places = mt.nonzero(x)
    assert places.dtype == mt.int64
    np.testing.assert_array_equal(places.numpy(), np.argwhere(array))
    np.testing.assert_array_equal(mt.argwhere(x).numpy(), np.argwhere(array))
    if shape:
        for have, want in zip(mt.nonzero(x, as_tuple=True), array.nonzero(), strict=True):
            np.testing.assert_array_equal(have.numpy(), want)


def test_buckets(device):
    borders = mt.tensor([1.0, 3.0, 5.0], device=device)
    values = mt.tensor([[0.0, 1.0], [3.5, 9.0]], device=device)
    assert mt.bucketize(values, borders).tolist() == [[0, 0], [2, 3]]
    assert mt.bucketize(values, borders, right=True).tolist() == [[0, 1], [2, 3]]
    assert mt.searchsorted(borders, values, out_int32=True).dtype == mt.int32
    assert mt.bucketize(values, borders).dtype == mt.int64


def test_errors_say_what_was_seen(make):
    with pytest.raises(DTypeError, match="mask must be boolean") as caught:
        mt.masked_select(make(2), make(2))
    assert "mask.bool()" in str(caught.value)
    with pytest.raises(ShapeError, match="do not broadcast"):
        mt.masked_select(make(2), make(3) > 0)
    with pytest.raises(ShapeError, match="must have 1 axis"):
        mt.searchsorted(make(2, 3), make(2))


def test_a_fraction_among_integers_is_not_cut_off(device):
    borders = mt.tensor([1, 2, 3], device=device)
    assert mt.searchsorted(borders, 1.5).item() == mt.bucketize(1.5, borders).item() == 1
    assert mt.searchsorted(borders, 2).item() == 1
    assert mt.searchsorted(borders.double() / 10, 0.1).item() == 0  # not rounded to float32
