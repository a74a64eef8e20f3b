"""sort, topk, median and related operations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, Leaf, checks

import minitorch_attn as mt
from minitorch_attn.errors import IndexRangeError, ShapeError

NAN = float("nan")
LONG = Leaf(np.random.default_rng(3).permutation(61).reshape(1, 61) / 10)


def down(x, axis):
    order = np.argsort(-x, axis, kind="stable")
    return np.take_along_axis(x, order, axis), order


def up(x, axis):
    order = np.argsort(x, axis, kind="stable")
    return np.take_along_axis(x, order, axis), order


def first(found, k):
    return tuple(part[..., :k] for part in found)


CASES = [
    Case("sort", mt.sort, lambda x: up(x, -1), (2, 3, 5)),
    Case("sort dim 0", lambda x: x.sort(0), lambda x: up(x, 0), (5, 3)),
    Case("sort down", lambda x: mt.sort(x, 1, descending=True), lambda x: down(x, 1), (2, 3, 5)),
    Case("sort of 0-d", mt.sort, lambda x: (x, np.int64(0)), ()),
    Case("sort of nothing", mt.sort, lambda x: up(x, -1), (2, 0)),
    Case("topk", lambda x: mt.topk(x, 2), lambda x: first(down(x, -1), 2), (2, 3, 5)),
    Case("topk smallest", lambda x: mt.topk(x, 3, largest=False), lambda x: first(up(x, -1), 3),
         (2, 5)),
    Case("topk dim 0", lambda x: mt.topk(x, 1, 0), lambda x: (x.max(0)[None], x.argmax(0)[None]),
         (5, 3)),
    Case("topk of none", lambda x: mt.topk(x, 0), lambda x: first(down(x, -1), 0), (2, 3)),
    Case("topk of all", lambda x: mt.topk(x, 3), lambda x: down(x, -1), (2, 3)),
    Case("topk of 0-d", lambda x: mt.topk(x, 1), lambda x: (x, np.int64(0)), ()),
    Case("topk of many", lambda x: mt.topk(x, 5), lambda x: first(down(x, -1), 5), LONG),
    Case("topk of many, smallest", lambda x: mt.topk(x, 5, largest=False),
         lambda x: first(up(x, -1), 5), LONG),
    Case("median", mt.median, np.median, (3, 5)),
    Case("median dim", lambda x: mt.median(x, 1),
         lambda x: (np.median(x, 1), np.argsort(x, 1)[:, 2]), (3, 5)),
    Case("median of 0-d", mt.median, lambda x: x, ()),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_equal_elements_keep_their_order(device):
    x = mt.tensor([2.0, 1.0, 2.0, 1.0, 2.0], device=device)
    assert mt.sort(x).indices.tolist() == [1, 3, 0, 2, 4]
    assert mt.sort(x, descending=True).indices.tolist() == [0, 2, 4, 1, 3]
    assert mt.argsort(x).tolist() == [1, 3, 0, 2, 4]
    assert mt.argsort(x, descending=True).tolist() == [0, 2, 4, 1, 3]


def test_nan_is_the_largest(device):
    x = mt.tensor([1.0, NAN, np.inf, -np.inf], device=device)
    assert mt.argsort(x).tolist() == [3, 0, 2, 1]
    assert mt.argsort(x, descending=True).tolist() == [1, 2, 0, 3]
    assert mt.topk(x, 2).indices.tolist() == [1, 2]
    many = np.arange(100.0)
    many[7] = NAN
    assert mt.topk(mt.tensor(many, device=device), 2).indices.tolist() == [7, 99]


def test_integers(device):
    x = mt.tensor([3, 1, 2], device=device)
    assert mt.sort(x).values.tolist() == [1, 2, 3]
    assert mt.sort(x).values.dtype == np.int64
    assert mt.topk(x, 1).values.tolist() == [3]
    assert mt.sort(x > 1, descending=True).values.tolist() == [True, True, False]


def test_the_lower_of_two_middles(device):
    x = mt.tensor([[4.0, 1.0, 2.0, 3.0], [NAN, 1.0, NAN, 0.0]], device=device)
    values, indices = mt.median(x, 1)
    np.testing.assert_array_equal(values.numpy(), [2, NAN])
    assert indices.tolist() == [2, 0]
    assert np.isnan(mt.median(x).item())
    assert mt.median(x[0]).item() == 2
    assert mt.median(x, 1, keepdim=True).values.shape == (2, 1)


def test_equal_middles_share_the_gradient(device):
    x = mt.tensor([2.0, 1.0, 2.0, 3.0], device=device, requires_grad=True)
    mt.median(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.5, 0, 0.5, 0])


def test_too_many(make):
    for k in (4, -1):
        with pytest.raises(IndexRangeError, match="from 0 to 3"):
            mt.topk(make(2, 3), k)
    with pytest.raises(IndexRangeError, match="sort"):
        mt.sort(make(2, 3), 2)
    with pytest.raises(ShapeError, match="median"):
        mt.median(make(2, 0), 1)
    assert np.isnan(mt.median(make(0)).item())


@settings(max_examples=40, deadline=None)
@given(shape=array_shapes(min_dims=1, max_dims=3, max_side=20), data=st.data(),
       falling=st.booleans())  # fmt: skip
def test_sort_and_topk_agree_with_numpy(shape, data, falling, device):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = data.draw(st.integers(0, shape[axis]))
    values = np.random.default_rng(0).integers(0, 9, shape).astype(float)
    x = mt.tensor(values, device=device)
    wanted, order = (down if falling else up)(values, axis)
    found = mt.sort(x, axis, falling)
    np.testing.assert_array_equal(found.values.numpy(), wanted)
    np.testing.assert_array_equal(found.indices.numpy(), order)
    top = mt.topk(x, k, axis, largest=falling)
    np.testing.assert_array_equal(top.values.numpy(), np.take(wanted, range(k), axis))
    picked = np.take_along_axis(values, top.indices.numpy(), axis)
    np.testing.assert_array_equal(picked, top.values.numpy())


def test_topk_of_a_0d_tensor_is_itself_even_for_none(make):
    x = make()
    top = mt.topk(x, 0)
    assert top.values.shape == () and top.values.item() == x.item() and top.indices.item() == 0
