"""max, min: largest and smallest elements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.errors import ShapeError

NAN = float("nan")

CASES = [
    Case("amax", mt.amax, np.max, (2, 3, 5)),
    Case("amax dim 1", lambda x: mt.amax(x, 1), lambda x: x.max(1), (2, 3, 5)),
    Case("amax of two", lambda x: x.amax((0, -1), True), lambda x: x.max((0, 2), keepdims=True),
         (2, 3, 5)),
    Case("amax of 0-d", mt.amax, np.max, ()),
    Case("amin", lambda x: mt.amin(x, -1), lambda x: x.min(-1), (2, 3, 5)),
    Case("max", mt.max, np.max, (2, 3)),
    Case("min", mt.min, np.min, (2, 3)),
    Case("max dim", lambda x: mt.max(x, 1), lambda x: (x.max(1), x.argmax(1)), (2, 3, 5)),
    Case("min dim, keepdim", lambda x: mt.min(x, 0, True),
         lambda x: (x.min(0, keepdims=True), x.argmin(0, keepdims=True)), (2, 3, 5)),
    Case("max dim of 0-d", lambda x: mt.max(x, 0), lambda x: (x, np.int64(0)), ()),
    Case("max of two", mt.max, np.maximum, (2, 3), (3,)),
    Case("min of two", mt.min, np.minimum, (2, 3), (3,)),
    Case("max to nothing", lambda x: mt.max(x, 0), lambda x: (x.max(0), x.argmax(0)), (3, 0)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)

TIES = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]


@pytest.mark.parametrize(
    ("function", "slopes"),
    [
        (lambda x: mt.amax(x, 1), [[0, 1 / 2, 1 / 2], [1 / 3, 1 / 3, 1 / 3]]),
        (lambda x: mt.amin(x, 0), [[1, 0, 0], [0, 1, 1]]),
        (lambda x: mt.amax(x), [[0, 1 / 2, 1 / 2], [0, 0, 0]]),
        (lambda x: mt.max(x), [[0, 1 / 2, 1 / 2], [0, 0, 0]]),
        (lambda x: mt.max(x, 1).values, [[0, 1, 0], [1, 0, 0]]),
        (lambda x: mt.min(x, 1).values, [[1, 0, 0], [1, 0, 0]]),
    ],
)
def test_equal_elements(function, slopes, device):
    x = mt.tensor(TIES, device=device, requires_grad=True)
    function(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-6)


def test_names_of_the_results(device):
    found = mt.max(mt.tensor(TIES, device=device), 1)
    assert type(found).__name__ == "max"
    assert found.indices.dtype == np.int64
    assert found.indices.tolist() == [1, 0] and found.values.tolist() == [3, 2]


def test_nan_is_the_largest_and_the_smallest(device):
    x = mt.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0]], device=device, requires_grad=True)
    for name, other in (("max", 6.0), ("min", 4.0)):
        values, indices = getattr(mt, name)(x, 1)
        np.testing.assert_array_equal(values.numpy(), [NAN, other])
        assert indices.tolist()[0] == 1
        assert np.isnan(getattr(mt, name)(x).item())
        assert np.isnan(getattr(mt, f"a{name}")(x, 1).numpy()[0])
    mt.max(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_where_the_extreme_is(name, device):
    values = np.array([[[3.0, 1.0, 3.0]], [[1.0, 7.0, 7.0]]])
    ours, numpys = getattr(mt, name), getattr(np, name)
    x = mt.tensor(values, device=device, requires_grad=True)
    assert ours(x).item() == numpys(values)
    assert ours(x, keepdim=True).shape == (1, 1, 1)
    for axis in (0, 1, -1):
        found = ours(x, axis)
        assert found.dtype == np.int64 and not found.requires_grad
        np.testing.assert_array_equal(found.numpy(), numpys(values, axis))
        assert ours(x, axis, keepdim=True).shape == numpys(values, axis, keepdims=True).shape
    assert ours(mt.tensor(1.0, device=device), 0).item() == 0


def test_dtypes(device):
    whole = mt.tensor([[1, 5], [7, 3]], device=device)
    assert mt.max(whole).dtype == mt.amax(whole, 0).dtype == np.int64
    assert mt.max(whole, 1).values.tolist() == [5, 7]
    assert mt.max(whole > 2).item() is True


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "argmax", "argmin"])
def test_nothing_has_no_extreme(name, make):
    with pytest.raises(ShapeError, match=f"{name}.*must not be empty"):
        getattr(mt, name)(make(0, 3))
    with pytest.raises(ShapeError, match=f"{name}.*must not be empty"):
        getattr(mt, name)(make(0, 3), 0)
    assert getattr(mt, name)(make(2, 3)).shape == ()


@settings(max_examples=40, deadline=None)
@given(shape=array_shapes(min_dims=1, max_dims=4, max_side=4), data=st.data(), keep=st.booleans())
def test_every_axis(shape, data, keep, device):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    values = np.random.default_rng(0).integers(0, 3, shape).astype(float)  # with ties
    x = mt.tensor(values, device=device, requires_grad=True)
    found = mt.max(x, axis, keep)
    np.testing.assert_array_equal(found.values.numpy(), values.max(axis, keepdims=keep))
    np.testing.assert_array_equal(found.indices.numpy(), values.argmax(axis, keepdims=keep))
    np.testing.assert_array_equal(mt.amin(x, axis).numpy(), values.min(axis))
    found.values.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy().sum(axis), np.ones(values.max(axis).shape))
