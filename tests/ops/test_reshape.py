"""reshape and other views with a different shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError

CASES = [
    Case("reshape", lambda x: mt.reshape(x, (3, 10)), lambda x: x.reshape(3, 10), (2, 3, 5)),
    Case("reshape with -1", lambda x: x.reshape(5, -1), lambda x: x.reshape(5, 6), (2, 3, 5)),
    Case("reshape of 0-d", lambda x: x.reshape(1, 1), lambda x: x.reshape(1, 1), ()),
    Case("reshape to 0-d", lambda x: x.reshape(()), lambda x: x.reshape(()), (1, 1)),
    Case("reshape of nothing", lambda x: x.reshape(0, 7), lambda x: x.reshape(0, 7), (3, 0)),
    Case(
        "reshape of a transposed", lambda x: x.T.reshape(2, 3), lambda x: x.T.reshape(2, 3), (2, 3)
    ),
    Case("view", lambda x: x.view(6, 5), lambda x: x.reshape(6, 5), (2, 3, 5)),
    Case("view_as", lambda x, y: mt.view_as(x, y), lambda x, y: x.reshape(3, 2), (2, 3), (3, 2)),
    Case("permute", lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1), (2, 3, 5)),
    Case("permute of 0-d", lambda x: x.permute(()), lambda x: x, ()),
    Case("permute, negative", lambda x: x.permute(-1, 0, -2), lambda x: x.transpose(2, 0, 1),
         (2, 3, 5)),
    Case("transpose", lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, 2), (2, 3, 5)),
    Case("transpose of 0-d", lambda x: x.transpose(0, -1), lambda x: x, ()),
    Case("swapaxes", lambda x: mt.swapaxes(x, 1, 2), lambda x: x.swapaxes(1, 2), (2, 3, 5)),
    Case("t", lambda x: x.t(), lambda x: x.T, (2, 3)),
    Case("t of a vector", lambda x: x.t(), lambda x: x, (3,)),
    Case("T", lambda x: x.T, lambda x: x.T, (2, 3, 5)),
    Case("mT", lambda x: x.mT, lambda x: x.swapaxes(-1, -2), (2, 3, 5)),
    Case("movedim", lambda x: x.movedim(0, -1), lambda x: np.moveaxis(x, 0, -1), (2, 3, 5)),
    Case("movedim of two", lambda x: x.movedim((0, 1), (2, 0)),
         lambda x: np.moveaxis(x, (0, 1), (2, 0)), (2, 3, 5, 7)),
    Case("squeeze", lambda x: x.squeeze(), lambda x: x.squeeze(), (1, 3, 1, 5)),
    Case("squeeze one", lambda x: x.squeeze(0), lambda x: x.squeeze(0), (1, 3, 1)),
    Case("squeeze two", lambda x: x.squeeze((0, -1)), lambda x: x.squeeze((0, 2)), (1, 3, 1)),
    Case("squeeze a long axis", lambda x: x.squeeze(1), lambda x: x, (1, 3)),
    Case("unsqueeze", lambda x: x.unsqueeze(1), lambda x: x[:, None], (2, 3)),
    Case("unsqueeze the end", lambda x: x.unsqueeze(-1), lambda x: x[..., None], (2, 3)),
    Case("unsqueeze 0-d", lambda x: x.unsqueeze(0), lambda x: x[None], ()),
    Case("flatten", lambda x: x.flatten(), lambda x: x.reshape(30), (2, 3, 5)),
    Case("flatten some", lambda x: x.flatten(1, -2), lambda x: x.reshape(2, 15, 7), (2, 3, 5, 7)),
    Case("flatten 0-d", lambda x: x.flatten(), lambda x: x.reshape(1), ()),
    Case("ravel", mt.ravel, np.ravel, (2, 3)),
    Case("ravel of nothing", mt.ravel, np.ravel, (2, 0)),
    Case("unflatten", lambda x: x.unflatten(-1, (2, -1)), lambda x: x.reshape(3, 2, 5), (3, 10)),
    Case("unflatten nothing", lambda x: x.unflatten(0, (0, 7)), lambda x: x.reshape(0, 7, 3),
         (0, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)

VIEWS = {
    "reshape": lambda x: x.reshape(6),
    "view": lambda x: x.view(3, 2),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1),
    "transpose of an axis with itself": lambda x: x.transpose(0, 0),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (3, 1)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_and_version(name, make):
    x = make(2, 3, requires_grad=False)
    y = VIEWS[name](x)
    x[0, 0] = 100.0
    assert y.numpy().reshape(-1)[0] == 100
    assert y._version is x._version


def test_reshape_copies_only_where_it_has_to(make):
    x = make(2, 3, requires_grad=False)
    copy = x.T.reshape(6)
    x[0, 0] = 100.0
    assert copy.numpy()[0] != 100
    assert copy._version is not x._version


def test_view_refuses_to_copy(make):
    with pytest.raises(ShapeError, match="does not match the shape") as error:
        make(2, 3).T.view(6)
    assert "got       input (3, 2)" in str(error.value)
    assert "reshape()" in str(error.value)


def test_the_refusal_of_view_counts_strides_in_elements(make):
    with pytest.raises(ShapeError, match=r"input \(4, 3\) with strides \(1, 4\)"):
        make(3, 4).T.view(12)


def test_view_as_another_dtype_reads_the_same_bits(device):
    x = mt.tensor([1.0, -2.0], device=device)
    bits = x.view(mt.int32)
    assert bits.numpy().tolist() == [0x3F800000, -0x40000000]
    bits[0] = 0
    assert x.numpy().tolist() == [0.0, -2.0]


BAD = [
    (lambda x: x.reshape(7), ShapeError, "does not match the number", "product 6"),
    (lambda x: x.reshape(-1, -1), ShapeError, "does not match the number", "at most one"),
    (lambda x: x.reshape(4, -1), ShapeError, "does not match the number", "shape (4, -1)"),
    (lambda x: x.reshape(-2, -3), ShapeError, "does not match the number", "shape (-2, -3)"),
    (lambda x: x[:0].reshape(0, -1), ShapeError, "does not match", "determine -1 uniquely"),
    (lambda x: x.reshape(2.0, 3), DTypeError, "must hold integers", "2.0"),
    (lambda x: x.permute(0, 0), ArgumentError, "must not repeat an axis", "(0, 0)"),
    (lambda x: x.permute(0), ArgumentError, "every axis exactly once", "(2, 3)"),
    (lambda x: x.transpose(0, 2), IndexRangeError, "out of range", "dim1=2 for 2 axes"),
    (lambda x: x.unsqueeze(0).t(), ShapeError, "not have more than 2 axes", "(1, 2, 3)"),
    (lambda x: x.movedim((0, 1), 0), ArgumentError, "the same length", "source=(0, 1)"),
    (lambda x: x.squeeze(2), IndexRangeError, "out of range", "from -2 to 1"),
    (lambda x: x.unsqueeze(4), IndexRangeError, "out of range", "dim=4"),
    (lambda x: x.flatten(1, 0), ArgumentError, "start_dim must not come after", "start_dim=1"),
    (lambda x: x.unflatten(1, (2, 2)), ShapeError, "does not match the axis", "the product 3"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3))
    assert detail in str(caught.value)


SHAPES = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), shape=SHAPES)
def test_permutations_of_any_shape(data, shape, device):
    dims = data.draw(st.permutations(range(len(shape))))
    array = np.arange(np.prod(shape, dtype=int), dtype="float64").reshape(shape)
    x = mt.tensor(array, device=device, requires_grad=True)
    y = mt.permute(x, dims)
    np.testing.assert_array_equal(y.numpy(), array.transpose(dims))
    weights = np.random.default_rng(0).standard_normal(y.shape)
    y.backward(mt.tensor(weights, device=device))
    np.testing.assert_array_equal(x.grad.numpy(), weights.transpose(np.argsort(dims)))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), shape=SHAPES)
def test_squeezing_and_unsqueezing_any_shape(data, shape, device):
    array = np.zeros(shape)
    x = mt.tensor(array, device=device)
    assert x.squeeze().shape == array.squeeze().shape
    dim = data.draw(st.integers(-len(shape) - 1, len(shape)))
    assert x.unsqueeze(dim).shape == np.expand_dims(array, dim).shape
    assert x.unsqueeze(dim).squeeze(dim).shape == shape
