"""Gather and scatter: one index per element."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError

TWICE = np.array([[0, 2, 2], [1, 1, 0]])
ONCE = np.array([[0, 2], [1, 0]])
NONE = np.zeros((2, 0), dtype="int64")


def places(index, dim):
    """(place of the index, place that it names) for every entry, by a plain loop."""
    for at in np.ndindex(index.shape):
        named = list(at)
        named[dim] = index[at]
        yield at, tuple(named)


def gathered(x, dim, index):
    y = np.empty(index.shape, x.dtype)
    for at, named in places(index, dim):
        y[at] = x[named]
    return y


def scattered(x, dim, index, src, add=False):
    y = x.copy()
    for at, named in places(index, dim):
        y[named] = (y[named] if add else 0) + (src[at] if np.ndim(src) else src)
    return y


CASES = [
    Case("gather", lambda x, i: x.gather(1, i), lambda x, i: gathered(x, 1, i), (2, 5), TWICE),
    Case("gather along 0", lambda x, i: mt.gather(x, 0, i), lambda x, i: gathered(x, 0, i),
         (3, 5), TWICE),
    Case("gather three axes", lambda x, i: x.gather(-2, i), lambda x, i: gathered(x, 1, i),
         (3, 4, 5), np.array([[[3, 0], [1, 1]], [[2, 2], [0, 3]]])),
    Case("gather int32", lambda x, i: x.gather(1, i.int()), lambda x, i: gathered(x, 1, i), (2, 5),
         TWICE),
    Case("gather of 0-d", lambda x, i: x.gather(0, i), lambda x, i: x, (), np.array(0)),
    Case("gather nothing", lambda x, i: x.gather(1, i), lambda x, i: x[:, :0], (2, 3), NONE),
    Case("gather nothing of another rank", lambda x, i: x.gather(0, i),
         lambda x, i: np.zeros((2, 0), x.dtype), (3,), NONE),
    Case("scatter", lambda x, s, i: x.scatter(1, i, s), lambda x, s, i: scattered(x, 1, i, s),
         (2, 5), (2, 2), ONCE),
    Case("scatter from more", lambda x, s, i: x.scatter(1, i, s),
         lambda x, s, i: scattered(x, 1, i, s), (2, 5), (3, 4), ONCE),
    Case("scatter a number", lambda x, i: mt.scatter(x, 0, i, value=7.0),
         lambda x, i: scattered(x, 0, i, 7.0), (3, 5), ONCE),
    Case("scatter nothing", lambda x, s, i: x.scatter(1, i, s), lambda x, s, i: x, (2, 5), (2, 2),
         NONE),
    Case("scatter into 0-d", lambda x, s, i: x.scatter(0, i, s), lambda x, s, i: s, (), (),
         np.array(0)),
    Case("scatter_add", lambda x, s, i: x.scatter_add(1, i, s),
         lambda x, s, i: scattered(x, 1, i, s, add=True), (2, 5), (2, 3), TWICE),
    Case("scatter_add along 0", lambda x, s, i: mt.scatter_add(x, 0, i, s),
         lambda x, s, i: scattered(x, 0, i, s, add=True), (3, 3), (2, 4), TWICE),
    Case("scatter with reduce", lambda x, s, i: mt.scatter(x, 1, i, s, reduce="add"),
         lambda x, s, i: scattered(x, 1, i, s, add=True), (2, 5), (2, 3), TWICE),
    Case("take_along_dim", lambda x, i: x.take_along_dim(i, 1),
         lambda x, i: np.take_along_axis(x, i, 1), (2, 3), np.array([[-1, 0], [1, 1]])),
    Case("take_along_dim, broadcast", lambda x, i: x.take_along_dim(i, 1),
         lambda x, i: np.take_along_axis(np.broadcast_to(x, (5, 3)), i, 1), (1, 3),
         np.array([[2, 0]] * 5)),
    Case("take_along_dim, flat", lambda x, i: x.take_along_dim(i),
         lambda x, i: x.reshape(-1)[i.reshape(-1)], (2, 3), np.array([[5, 0]])),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_take_along_dim_sorts(make):
    x = make(3, 5, requires_grad=False)
    order = mt.tensor(np.argsort(x.numpy(), 1), device=x.device)
    np.testing.assert_array_equal(x.take_along_dim(order, 1).numpy(), np.sort(x.numpy(), 1))


BAD = [
    (lambda x, i: x.gather(1, i[0]), ShapeError, "same number of axes", "expected  2 axes"),
    (lambda x, i: x[:1].gather(1, i), ShapeError, "larger than input", "(1, 3)"),
    (lambda x, i: x.gather(2, i), IndexRangeError, "dim is out of range", "dim=2"),
    (lambda x, i: x.gather(1, x), DTypeError, "must hold integers", "float64"),
    (lambda x, i: x.scatter(1, i, x[:, :2]), ShapeError, "src must not be smaller", "src (2, 2)"),
    (
        lambda x, i: x.scatter(1, i, x.float()),
        DTypeError,
        "must have the same dtype",
        "src float32 and input",
    ),
    (lambda x, i: mt.scatter(x, 1, i), ArgumentError, "src is missing", "src=None"),
    (lambda x, i: mt.scatter(x, 1, i, x, reduce="mean"), ArgumentError, "'add'", "'mean'"),
    (lambda x, i: x.take_along_dim(i[0], 1), ShapeError, "same number of axes", "(3,)"),
    (lambda x, i: x.take_along_dim(i[:, :2], 0), ShapeError, "do not broadcast", "indices"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make, device):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3), mt.tensor(TWICE, device=device))
    assert detail in str(caught.value)


@pytest.mark.parametrize("worst", [3, -1])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.gather(1, i),
        lambda x, i: x.scatter(1, i, x),
        lambda x, i: x.scatter_add(1, i, x),
    ],
)
def test_an_index_out_of_range_is_an_error(call, worst, make, device):
    index = mt.tensor([[0, 1], [2, worst]], device=device)
    with pytest.raises(IndexRangeError, match="index holds an index out of range") as caught:
        call(make(2, 3), index).numpy()
    assert f"got       {worst}" in str(caught.value)
    assert "from 0 to 2" in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(shape=array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4), data=st.data())
def test_any_gather_and_its_adjoint(shape, data, device):
    dim = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.integers(0, 5))
    wanted = [data.draw(st.integers(0, n)) for n in shape]
    wanted[dim] = count
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    index = rng.integers(0, shape[dim], wanted)
    x = mt.tensor(rng.standard_normal(shape), device=device, requires_grad=True)
    y = x.gather(dim, mt.tensor(index, device=device))
    np.testing.assert_array_equal(y.numpy(), gathered(x.numpy(), dim, index))
    y.backward(mt.ones(*y.shape, dtype=mt.float64, device=device))
    uses = scattered(np.zeros(shape), dim, index, np.ones(wanted), add=True)
    np.testing.assert_array_equal(x.grad.numpy(), uses)


def test_the_axis_is_checked_even_for_an_empty_index(make, device):
    index = mt.tensor(np.zeros(0, int), device=device)
    for call in (lambda x: mt.gather(x, 1, index), lambda x: mt.scatter(x, 1, index, 1.0)):
        with pytest.raises(IndexRangeError, match="dim is out of range"):
            call(make(2))
    with pytest.raises(ShapeError, match="take_along_dim"):
        mt.take_along_dim(make(), mt.tensor(0, device=device), 0)
