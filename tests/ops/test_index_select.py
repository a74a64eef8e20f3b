"""index_select, index_add, index_copy, index_fill: one index per slice."""

import numpy as np
import pytest
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import DTypeError, IndexRangeError, ShapeError

TWICE = np.array([2, 0, 2])
ONCE = np.array([2, 0])


def added(x, dim, index, source, alpha=1.0):
    y = np.moveaxis(x.copy(), dim, 0)
    for place, slice_ in zip(index, np.moveaxis(source, dim, 0), strict=True):
        y[place] += x.dtype.type(alpha) * slice_
    return np.moveaxis(y, 0, dim)


def copied(x, index, source):
    y = x.copy()
    y[index] = source
    return y


CASES = [
    Case("index_select", lambda x, i: x.index_select(1, i), lambda x, i: x[:, i], (2, 3), TWICE),
    Case("index_select of a 0-d tensor", lambda x, i: x.index_select(0, i), lambda x, i: x, (),
         np.array([0])),
    Case("index_select with a 0-d index", lambda x, i: x.index_select(0, i),
         lambda x, i: x[[int(i)]], (3, 2), np.array(1)),
    Case("index_select of nothing", lambda x, i: x.index_select(-1, i), lambda x, i: x[:, i],
         (2, 3), np.zeros(0, "int64")),
    Case("index_add", lambda x, s, i: x.index_add(1, i, s), lambda x, s, i: added(x, 1, i, s),
         (2, 3), (2, 3), TWICE),
    Case("index_add scaled", lambda x, s, i: x.index_add(0, i, s, alpha=2.5),
         lambda x, s, i: added(x, 0, i, s, 2.5), (3, 2), (3, 2), TWICE),
    Case("index_add to 0-d", lambda x, s, i: x.index_add(0, i, s), lambda x, s, i: x + s, (), (),
         np.array(0)),
    Case("index_copy", lambda x, s, i: mt.index_copy(x, 0, i, s), lambda x, s, i: copied(x, i, s),
         (3, 2), (2, 2), ONCE),
    Case("index_fill", lambda x, i: mt.index_fill(x, 0, i, 7.0),
         lambda x, i: copied(x, i, 7.0), (3, 2), ONCE),
    Case("index_fill with a tensor", lambda x, v, i: mt.index_fill(x, 0, i, v),
         lambda x, v, i: copied(x, i, v), (3, 2), (), ONCE),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)

BAD = [
    (lambda x, i: x.index_select(2, i), IndexRangeError, "dim is out of range", "dim=2"),
    (lambda x, i: x.index_select(0, i.reshape(1, 3)), ShapeError, "at most 1 axis", "(1, 3)"),
    (lambda x, i: x.index_select(0, x[0]), DTypeError, "must hold integers", "index.long()"),
    (lambda x, i: x.index_add(1, i, x[:, :2]), ShapeError, "does not match", "(2, 3)"),
    (
        lambda x, i: mt.index_copy(x, 1, i, x.T),
        ShapeError,
        "does not match",
        "source (3, 2)",
    ),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make, device):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3), mt.tensor(TWICE, device=device))
    assert detail in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.index_add(0, i, x[[0, 1, 1]]),
        lambda x, i: mt.index_fill(x, 0, i, 1.0),
    ],
)
def test_an_index_out_of_range_is_an_error(call, make, device):
    with pytest.raises(IndexRangeError, match="index holds an index out of range"):
        call(make(2, 3), mt.tensor([0, 2, 1], device=device)).numpy()


def test_index_fill_counts_a_slice_met_twice_once(make, device):
    x, value = make(3, 2), mt.tensor(0.5, requires_grad=True, device=device)
    mt.index_fill(x, 0, mt.tensor([1, 1], device=device), value).sum().backward()
    assert value.grad.item() == 2.0
    np.testing.assert_array_equal(x.grad.numpy(), [[1, 1], [0, 0], [1, 1]])


def test_index_select_of_a_0d_tensor_takes_one_index(make, device):
    assert mt.index_select(make(), 0, mt.tensor([0], device=device)).shape == ()
    with pytest.raises(ShapeError, match="if input is 0-d"):
        mt.index_select(make(), 0, mt.tensor([0, 0], device=device))
