"""tril, triu and diagonals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, IndexRangeError, ShapeError


def embedded(x, offset, dim1, dim2):
    """Diagonal matrices by a plain loop."""
    size = x.shape[-1] + abs(offset)
    y = np.zeros((*x.shape[:-1], size, size), x.dtype)
    for i in range(x.shape[-1]):
        y[..., i - min(offset, 0), i + max(offset, 0)] = x[..., i]
    return np.moveaxis(y, (-2, -1), (dim1, dim2))


CASES = [
    Case("tril", lambda x: x.tril(), np.tril, (3, 5)),
    Case("tril of a batch", lambda x: x.tril(-1), lambda x: np.tril(x, -1), (2, 5, 3)),
    Case("triu", lambda x: x.triu(1), lambda x: np.triu(x, 1), (3, 5)),
    Case("triu of nothing", lambda x: x.triu(), np.triu, (0, 3)),
    Case("diagonal", lambda x: x.diagonal(), np.diagonal, (3, 5)),
    Case("diagonal above", lambda x: x.diagonal(2), lambda x: np.diagonal(x, 2), (3, 5)),
    Case("diagonal below", lambda x: x.diagonal(-1, -1, 0), lambda x: np.diagonal(x, -1, 2, 0),
         (2, 3, 5)),
    Case("diagonal outside", lambda x: x.diagonal(7), lambda x: np.zeros(0, x.dtype), (3, 5)),
    Case("diag_embed", mt.diag_embed, lambda x: embedded(x, 0, -2, -1), (2, 3)),
    Case("diag_embed off the middle", lambda x: mt.diag_embed(x, -2),
         lambda x: embedded(x, -2, -2, -1), (3,)),
    Case("diag_embed on other axes", lambda x: mt.diag_embed(x, 1, 0, 2),
         lambda x: embedded(x, 1, 0, 2), (2, 3)),
    Case("diag_embed, axes exchanged", lambda x: mt.diag_embed(x, 1, -1, -3),
         lambda x: embedded(x, 1, -1, -3), (2, 3)),
    Case("diag of a matrix", lambda x: mt.diag(x, 1), lambda x: np.diag(x, 1), (3, 5)),
    Case("diag of a vector", lambda x: mt.diag(x, -1), lambda x: np.diag(x, -1), (3,)),
    Case("trace", mt.trace, np.trace, (3, 5)),
    Case("trace of nothing", mt.trace, np.trace, (0, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_the_diagonal_is_a_view_that_may_be_written_to(make):
    x = make(3, 5, requires_grad=False)
    x.diagonal(1)[:] = 7.0
    assert (np.diagonal(x.numpy(), 1) == 7).all()
    assert (x.numpy() == 7).sum() == 3


def test_triangles_keep_the_dtype(device):
    assert mt.tril(mt.ones(2, 2, dtype=mt.bool, device=device)).tolist() == [
        [True, False],
        [True, True],
    ]


def test_places_of_a_triangle(device):
    rows, columns = mt.tril_indices(3, 4, -1, device=device)
    expected = np.tril_indices(3, -1, 4)
    np.testing.assert_array_equal(rows.numpy(), expected[0])
    np.testing.assert_array_equal(columns.numpy(), expected[1])
    assert mt.triu_indices(2, 3, device=device).shape == (2, 5)


BAD = [
    (lambda x: x[0].tril(), ShapeError, "at least two axes", "input (3,)"),
    (lambda x: x.diagonal(0, 1, 1), ArgumentError, "two different axes", "dim1=1 and dim2=1"),
    (lambda x: x.diagonal(0, 0, 2), IndexRangeError, "out of range", "dim2=2"),
    (lambda x: mt.diag_embed(x[0, 0]), ShapeError, "at least one axis", "()"),
    (lambda x: mt.diag(x[None]), ShapeError, "one or two axes", "(1, 2, 3)"),
    (lambda x: mt.trace(x[0]), ShapeError, "must have two axes", "(3,)"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3))
    assert detail in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(
    shape=array_shapes(min_dims=2, max_dims=4, min_side=0, max_side=4),
    offset=st.integers(-5, 5),
    data=st.data(),
)
def test_triangles_and_diagonals_of_any_shape(shape, offset, data, device):
    array = np.random.default_rng(0).standard_normal(shape)
    x = mt.tensor(array, device=device)
    np.testing.assert_array_equal(x.tril(offset).numpy(), np.tril(array, offset))
    np.testing.assert_array_equal(x.triu(offset).numpy(), np.triu(array, offset))
    dims = st.lists(st.integers(0, len(shape) - 1), min_size=2, max_size=2, unique=True)
    dim1, dim2 = data.draw(dims)
    expected = np.diagonal(array, offset, dim1, dim2)
    np.testing.assert_array_equal(x.diagonal(offset, dim1, dim2).numpy(), expected)
