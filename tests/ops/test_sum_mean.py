"""Sums, means and products over axes; any and all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, Leaf, checks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError

ONE_ZERO = Leaf([[0.5, 0.0, -1.5], [1.2, -0.4, 0.3]])
TWO_ZEROS = Leaf([[0.5, 0.0, 0.0, -1.5], [0.0, 0.0, 0.0, 2.0]])

CASES = [
    Case("sum", mt.sum, np.sum, (2, 3, 5)),
    Case("sum dim 0", lambda x: mt.sum(x, 0), lambda x: x.sum(0), (2, 3, 5)),
    Case("sum dim -1", lambda x: x.sum(-1), lambda x: x.sum(-1), (2, 3, 5)),
    Case("sum of two", lambda x: x.sum((0, -1)), lambda x: x.sum((0, 2)), (2, 3, 5)),
    Case("sum of the leading", lambda x: x.sum((0, 1)), lambda x: x.sum((0, 1)), (2, 3, 5)),
    Case("sum keepdim", lambda x: x.sum([1], True), lambda x: x.sum(1, keepdims=True), (2, 3, 5)),
    Case("sum, no axes", lambda x: x.sum(()), np.sum, (2, 3)),
    Case("sum of 0-d", mt.sum, np.sum, ()),
    Case("sum of 0-d along its axis", lambda x: x.sum(-1), np.sum, ()),
    Case("sum of nothing", mt.sum, np.sum, (0, 3)),
    Case("sum to nothing", lambda x: x.sum(0), lambda x: x.sum(0), (3, 0)),
    Case("sum of a transposed", lambda x: x.T.sum(0), lambda x: x.T.sum(0), (2, 3, 5)),
    Case("mean", mt.mean, np.mean, (2, 3, 5)),
    Case("mean dim 1", lambda x: mt.mean(x, 1), lambda x: x.mean(1), (2, 3, 5)),
    Case("mean of two", lambda x: x.mean((0, 2), keepdim=True),
         lambda x: x.mean((0, 2), keepdims=True), (2, 3, 5)),
    Case("mean of 0-d", mt.mean, np.mean, ()),
    Case("prod", mt.prod, np.prod, (2, 3)),
    Case("prod dim 1", lambda x: mt.prod(x, 1), lambda x: x.prod(1), (2, 3, 5)),
    Case("prod keepdim", lambda x: x.prod(0, True), lambda x: x.prod(0, keepdims=True), (2, 3)),
    Case("prod with a zero", mt.prod, np.prod, ONE_ZERO),
    Case("prod with a zero, dim 1", lambda x: x.prod(1), lambda x: x.prod(1), ONE_ZERO),
    Case("prod with zeros", lambda x: x.prod(1), lambda x: x.prod(1), TWO_ZEROS),
    Case("prod of 0-d", mt.prod, np.prod, ()),
    Case("prod of one", lambda x: x.prod(0), lambda x: x.prod(0), (1, 3)),
    Case("prod of nothing", lambda x: x.prod(0), lambda x: x.prod(0), (0, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_mean_of_nothing_is_nan(device):
    x = mt.tensor(np.ones((0, 2)), device=device, requires_grad=True)
    assert np.isnan(x.mean().item())
    assert np.isnan(x.mean(0).numpy()).all()
    x.mean().backward()
    assert x.grad.shape == (0, 2)


def test_gradients_of_a_product_at_zeros(device):
    x = mt.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 3.0]], device=device, requires_grad=True)
    x.prod(1).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 6, 0], [0, 0, 0]])


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_integers_are_reduced_as_int64(name, device):
    function = getattr(mt, name)
    for dtype in ("bool", "uint8", "int32", "int64"):
        x = mt.tensor(np.array([1, 1, 0, 1]).astype(dtype), device=device)
        assert function(x).dtype == function(x, 0).dtype == np.int64
        assert function(x, 0, dtype="int32").dtype == np.int32
        assert function(x, dtype="float64").dtype == np.float64
    assert mt.sum(x > 0).item() == 3


def test_mean_wants_fractions(device):
    whole = mt.tensor([1, 2], device=device)
    with pytest.raises(DTypeError, match="mean.*floating-point"):
        whole.mean()
    assert whole.mean(dtype="float32").item() == 1.5


def test_any_and_all(device):
    values = np.array([[[0.0, 2.0], [0.0, 0.0]], [[np.nan, 1.0], [3.0, 4.0]]])
    for array in (values, values > 0, values[:0], values[0, 0, 0]):
        x = mt.tensor(array, device=device)
        for name in ("any", "all"):
            ours, numpys = getattr(mt, name), getattr(np, name)
            np.testing.assert_array_equal(ours(x).numpy(), numpys(array))
            assert ours(x).dtype == bool
            assert ours(x, ()).shape == array.shape
            for axis in range(-array.ndim, array.ndim):
                kept = ours(x, axis, True).numpy()
                np.testing.assert_array_equal(kept, numpys(array, axis, keepdims=True))
    assert mt.all(x, -1).shape == ()


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "any", "all", "amax", "var", "argmax"])
def test_an_axis_out_of_range_is_named(name, make):
    with pytest.raises(IndexRangeError, match=name) as caught:
        getattr(mt, name)(make(2, 3), 2)
    assert "dim=2 for 2 axes" in str(caught.value)
    assert "from -2 to 1" in str(caught.value)


@pytest.mark.parametrize("name", ["sum", "mean", "any", "amax", "var"])
def test_an_axis_named_twice(name, make):
    with pytest.raises(ArgumentError, match="must not repeat"):
        getattr(mt, name)(make(2, 3), (0, -2))


@settings(max_examples=60, deadline=None)
@given(shape=array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4), data=st.data(),
       keep=st.booleans(), name=st.sampled_from(["sum", "mean"]))  # fmt: skip
def test_every_set_of_axes(shape, data, keep, name, device):
    ndim = len(shape)
    some = data.draw(st.sets(st.integers(0, ndim - 1), min_size=1)) if ndim else set()
    axes = tuple(axis - ndim * data.draw(st.booleans()) for axis in some) or None
    values = np.random.default_rng(0).uniform(-1, 1, shape)
    x = mt.tensor(values, device=device, requires_grad=True)
    y = getattr(mt, name)(x, axes, keep)
    with np.errstate(invalid="ignore"):
        wanted = values.sum(axis=axes, keepdims=keep)
        if name == "mean":
            wanted = wanted / (values.size / wanted.size if wanted.size else 1)
    np.testing.assert_allclose(y.numpy(), wanted, atol=1e-14)
    y.sum().backward()
    assert x.grad.shape == shape


def test_mean_of_many_float16_numbers_does_not_overflow(device):
    x = mt.full((70_001,), 3.0, dtype="float16", device=device, requires_grad=True)
    mean = x.mean()
    assert (mean.dtype, mean.item()) == (mt.float16, 3.0)
    mean.backward()
    assert x.grad.dtype == mt.float16


def test_all_and_any_of_uint8_are_uint8_as_in_pytorch(device):
    x = mt.tensor(np.uint8([[1, 0], [2, 3]]), device=device)
    np.testing.assert_array_equal(mt.all(x, 1).numpy(), np.uint8([0, 1]))
    assert mt.all(x).dtype == mt.any(x, 0).dtype == mt.uint8
    assert mt.any(x.to(mt.int8)).dtype == mt.bool
