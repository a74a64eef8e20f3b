"""Flip, roll, repeat, tile, narrow, select, meshgrid."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, IndexRangeError, ShapeError

REPEATS = np.array([2, 0, 3])

CASES = [
    Case("flip", lambda x: x.flip(0, -1), lambda x: x[::-1, :, ::-1], (2, 3, 5)),
    Case("flip one", lambda x: mt.flip(x, 1), lambda x: x[:, ::-1], (2, 3)),
    Case("flip 0-d", lambda x: mt.flip(x, ()), lambda x: x, ()),
    Case("fliplr", mt.fliplr, np.fliplr, (2, 3)),
    Case("flipud", mt.flipud, np.flipud, (2, 3)),
    Case("rot90", mt.rot90, np.rot90, (2, 3)),
    Case("rot90 back", lambda x: mt.rot90(x, -1, (1, 2)), lambda x: np.rot90(x, -1, (1, 2)),
         (2, 3, 5)),
    Case("rot90 twice", lambda x: mt.rot90(x, 2), lambda x: np.rot90(x, 2), (2, 3)),
    Case("roll flat", lambda x: x.roll(2), lambda x: np.roll(x, 2), (2, 3)),
    Case("roll", lambda x: x.roll((1, -2), (0, -1)), lambda x: np.roll(x, (1, -2), (0, 1)), (3, 5)),
    Case("roll one axis twice", lambda x: x.roll((1, 1), (0, 0)), lambda x: np.roll(x, 2, 0),
         (5, 2)),
    Case("roll 0-d", lambda x: x.roll(1), lambda x: x, ()),
    Case("repeat", lambda x: x.repeat(2, 3), lambda x: np.tile(x, (2, 3)), (2, 5)),
    Case("repeat into new axes", lambda x: x.repeat(3, 1, 2), lambda x: np.tile(x, (3, 1, 2)),
         (2, 5)),
    Case("repeat 0 times", lambda x: x.repeat(0, 2), lambda x: np.tile(x, (0, 2)), (2, 5)),
    Case("repeat of 0-d", lambda x: x.repeat(3), lambda x: np.tile(x, 3), ()),
    Case("tile", lambda x: x.tile(2), lambda x: np.tile(x, 2), (2, 3)),
    Case("repeat_interleave", lambda x: x.repeat_interleave(3, 1), lambda x: np.repeat(x, 3, 1),
         (2, 5)),
    Case("repeat_interleave flat", lambda x: x.repeat_interleave(2), lambda x: np.repeat(x, 2),
         (2, 3)),
    Case("repeat_interleave by a tensor", lambda x, r: x.repeat_interleave(r, 0),
         lambda x, r: np.repeat(x, r, 0), (3, 2), REPEATS),
    Case("narrow", lambda x: x.narrow(1, 2, 3), lambda x: x[:, 2:5], (2, 7)),
    Case("narrow from the end", lambda x: x.narrow(0, -2, 2), lambda x: x[-2:], (5, 2)),
    Case("select", lambda x: x.select(1, -1), lambda x: x[:, -1], (2, 3, 5)),
    Case("meshgrid", lambda x, y: mt.meshgrid(x, y), lambda x, y: np.meshgrid(x, y, indexing="ij"),
         (3,), (5,)),
    Case("meshgrid xy", lambda x, y, z: mt.meshgrid([x, y, z], indexing="xy"),
         lambda x, y, z: np.meshgrid(x, y, z, indexing="xy"), (3,), (5,), ()),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_repeat_copies_even_once(make):
    x = make(2, 3, requires_grad=False)
    y = x.repeat(1, 1)
    x[:] = 7.0
    assert (y.numpy() != 7).all()


def test_parts_and_grids_are_views(make):
    x = make(5, requires_grad=False)
    views = x.narrow(0, 1, 2), x.select(0, 2), mt.meshgrid(x)[0]
    x[:] = 7.0
    assert all((view.numpy() == 7).all() for view in views)


def test_repeats_alone_count_up(device):
    repeats = mt.tensor([2, 0, 3], device=device)
    assert mt.repeat_interleave(repeats).numpy().tolist() == [0, 0, 2, 2, 2]


BAD = [
    (lambda x: x.roll((1, 2), 0), ArgumentError, "the same length", "shifts=(1, 2)"),
    (lambda x: x.roll((1, 2)), ArgumentError, "an int if dims is not given", "shifts=(1, 2)"),
    (lambda x: x.repeat(2), ShapeError, "at least one number per axis", "tile()"),
    (lambda x: x.repeat(2, -1), ArgumentError, "sizes must not be negative", "(2, -1)"),
    (lambda x: x.repeat_interleave(-1, 0), ArgumentError, "repeats must not be negative", "-1"),
    (lambda x: x.flip(0, 0), ArgumentError, "not repeat", "dims=(0, 0)"),
    (lambda x: x.narrow(1, 2, 2), ShapeError, "out of range", "start=2 and length=2"),
    (lambda x: x.select(0, 5), IndexRangeError, "out of range", "from -2 to 1"),
    (lambda x: mt.meshgrid(x), ShapeError, "at most 1 axis", "(2, 3)"),
    (lambda x: mt.meshgrid(x[0], indexing="ab"), ArgumentError, "indexing must be", "'ab'"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 3))
    assert detail in str(caught.value)


@settings(max_examples=50, deadline=None)
@given(shape=array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4), data=st.data())
def test_rolls_and_flips_of_any_shape(shape, data, device):
    axes = st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True)
    dims = tuple(data.draw(axes))
    shifts = tuple(data.draw(st.integers(-9, 9)) for _ in dims)
    array = np.random.default_rng(0).standard_normal(shape)
    x = mt.tensor(array, device=device)
    np.testing.assert_array_equal(x.roll(shifts, dims).numpy(), np.roll(array, shifts, dims))
    np.testing.assert_array_equal(x.flip(dims).numpy(), np.flip(array, dims))


@settings(max_examples=50, deadline=None)
@given(
    shape=array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    repeats=st.lists(st.integers(0, 3), min_size=3, max_size=4),
)
def test_repeats_of_any_shape(shape, repeats, device):
    array = np.random.default_rng(0).standard_normal(shape)
    x = mt.tensor(array, device=device, requires_grad=True)
    y = x.repeat(*repeats)
    np.testing.assert_array_equal(y.numpy(), np.tile(array, repeats))
    y.backward(mt.ones(*y.shape, dtype=mt.float64, device=device))
    np.testing.assert_array_equal(x.grad.numpy(), np.full(shape, float(np.prod(repeats))))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mt.fliplr(x[0]),
        lambda x: mt.flipud(x[0, 0]),
        lambda x: mt.roll(x[0, 0], 1, 0),
        lambda x: mt.repeat_interleave(x[0, 0], 2, dim=0),
    ],
)
def test_too_few_axes_are_an_error(call, make):
    with pytest.raises(ShapeError, match="too few axes"):
        call(make(2, 3))


def test_flip_checks_the_axes_of_a_0d_tensor_too(make):
    assert mt.flip(make(), (0,)).shape == mt.flip(make(), ()).shape == ()
    with pytest.raises(IndexRangeError, match="flip"):
        mt.flip(make(), (1,))
