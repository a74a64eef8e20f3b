"""Concatenate, stack and split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, IndexRangeError, ShapeError

CASES = [
    Case("cat", lambda a, b, c: mt.cat([a, b, c]), lambda *a: np.concatenate(a), (2, 3), (5, 3),
         (1, 3)),
    Case("cat, last axis", lambda a, b: mt.cat((a, b), dim=-1), lambda a, b: np.hstack([a, b]),
         (2, 3), (2, 5)),
    Case("cat with nothing", lambda a, b: mt.cat([a, b]), lambda a, b: a, (2, 3), (0, 3)),
    Case("cat with an empty vector", lambda a, b: mt.cat([b, a]), lambda a, b: a, (2, 3), (0,)),
    Case("cat of one twice", lambda a: mt.cat([a, a]), lambda a: np.concatenate([a, a]), (3,)),
    Case("stack", lambda a, b: mt.stack([a, b]), lambda a, b: np.stack([a, b]), (2, 3), (2, 3)),
    Case("stack, last axis", lambda a, b: mt.stack([a, b], -1), lambda a, b: np.stack([a, b], -1),
         (2, 3), (2, 3)),
    Case("stack of 0-d", lambda a, b: mt.stack([a, b]), lambda a, b: np.stack([a, b]), (), ()),
    Case("split", lambda x: mt.split(x, 3), lambda x: (x[:3], x[3:6], x[6:]), (7, 2)),
    Case("split by sizes", lambda x: x.split((1, 0, 4), 1), lambda x: np.split(x, (1, 1), 1),
         (2, 5)),
    Case("split too large", lambda x: x.split(9), lambda x: (x,), (2, 3)),
    Case("one piece of a split", lambda x: x.split(2, dim=1)[1], lambda x: x[:, 2:4], (3, 5)),
    Case("chunk", lambda x: x.chunk(3, 1), lambda x: (x[:, :2], x[:, 2:4], x[:, 4:]), (2, 5)),
    Case("fewer chunks", lambda x: x.chunk(4), lambda x: (x[:2], x[2:4], x[4:]), (5,)),
    Case("chunks of nothing", lambda x: x.chunk(2), lambda x: (x, x), (0, 3)),
    Case("tensor_split", lambda x: mt.tensor_split(x, 3), lambda x: np.array_split(x, 3), (7, 2)),
    Case("tensor_split at places", lambda x: mt.tensor_split(x, (1, 5, 4), 0),
         lambda x: np.array_split(x, (1, 5, 4)), (7, 2)),
    Case("unbind", lambda x: x.unbind(), tuple, (3, 2)),
    Case("unbind, last axis", lambda x: x.unbind(-1), lambda x: tuple(x.T), (3, 2)),
    Case("iteration", lambda x: tuple(x), tuple, (3, 2)),
    Case("hstack", lambda a, b: mt.hstack([a, b]), lambda a, b: np.hstack([a, b]), (2, 3), (2, 1)),
    Case("hstack of vectors", lambda a, b: mt.hstack([a, b]), lambda a, b: np.hstack([a, b]), (3,),
         ()),
    Case("vstack", lambda a, b: mt.vstack([a, b]), lambda a, b: np.vstack([a, b]), (3,), (2, 3)),
    Case("hsplit", lambda x: mt.hsplit(x, 2), lambda x: np.hsplit(x, 2), (3, 4)),
    Case("vsplit", lambda x: mt.vsplit(x, (1,)), lambda x: np.vsplit(x, (1,)), (3, 4)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize(
    "take_apart", [lambda x: x.split(2), lambda x: x.chunk(2), lambda x: x.unbind(0)]
)
def test_pieces_are_views(take_apart, make):
    x = make(4, 3, requires_grad=False)
    pieces = take_apart(x)
    x[:] = 7.0
    assert all((piece.numpy() == 7).all() for piece in pieces)


def test_joining_promotes(device):
    a, b = mt.tensor([1], device=device), mt.tensor([0.5], device=device)
    assert mt.cat([a, b]).dtype == mt.float32
    assert mt.stack([a, b.double()]).numpy().tolist() == [[1.0], [0.5]]
    assert mt.cat([a, a]).dtype == mt.int64


def test_a_piece_that_is_not_used_gets_zeros(make):
    x = make(5, 2)
    first, second, third = x.split(2)
    (second * 3).sum().backward()
    expected = np.zeros((5, 2))
    expected[2:4] = 3
    np.testing.assert_array_equal(x.grad.numpy(), expected)


BAD = [
    (lambda x: mt.cat([]), ArgumentError, "must not be empty", "[]"),
    (
        lambda x: mt.cat([x, x.T]),
        ShapeError,
        "do not match",
        "(2, 3) and (3, 2) with dim=0",
    ),
    (
        lambda x: mt.cat([x, x[0]]),
        ShapeError,
        "do not match",
        "equal sizes on every axis",
    ),
    (lambda x: mt.cat([x, x], 2), IndexRangeError, "dim is out of range", "dim=2 for 2 axes"),
    (lambda x: mt.cat([x[0, 0], x[0, 0]]), ShapeError, "a 0-d tensor", "stack()"),
    (lambda x: mt.stack([x, x.T]), ShapeError, "do not match", "tensors of the same shape"),
    (lambda x: x.split((1, 2)), ShapeError, "do not add up", "a sum of 2"),
    (lambda x: x.split((3, -1)), ShapeError, "do not add up", "(3, -1)"),
    (lambda x: x.split(0), ArgumentError, "must be positive", "0"),
    (lambda x: x.chunk(0), ArgumentError, "chunks must be at least 1", "chunks=0"),
    (lambda x: x[0, 0].unbind(), ShapeError, "0-d tensor", "shape ()"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3))
    assert detail in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    data=st.data(),
)
def test_split_and_cat_undo_each_other(shape, data, device):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = data.draw(st.integers(1, 5))
    array = np.random.default_rng(0).standard_normal(shape)
    x = mt.tensor(array, device=device, requires_grad=True)
    y = mt.cat(x.split(size, dim), dim)
    np.testing.assert_array_equal(y.numpy(), array)
    y.backward(mt.tensor(array, device=device))
    np.testing.assert_array_equal(x.grad.numpy(), array)


def test_hsplit_and_vsplit_want_equal_parts_and_enough_axes(make):
    for call in (lambda x: mt.hsplit(x, 2), lambda x: mt.vsplit(x, 3), lambda x: x.hsplit(2)):
        with pytest.raises(ShapeError, match="not divisible"):
            call(make(2, 3))
    with pytest.raises(ShapeError, match="vsplit: input has too few axes"):
        mt.vsplit(make(4), 2)
    with pytest.raises(ShapeError, match="hsplit: input has too few axes"):
        mt.hsplit(make(), 1)
    assert [part.shape for part in mt.vsplit(make(2, 3), (1,))] == [(1, 3), (1, 3)]
