"""Cumulative sums and products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, Leaf, checks

import minitorch_attn as mt
from minitorch_attn.errors import IndexRangeError
from minitorch_attn.ops.cumsum import Cumprod, Cumsum, Recurrence, Shift

ZEROS = Leaf([[0.5, 0.0, -1.5, 2.0], [0.0, 0.7, 0.0, 1.1], [1.2, -0.4, 0.3, 0.9]])


def recur(g, a):
    s = g.copy()
    for i in range(1, g.shape[1]):
        s[:, i] = g[:, i] + a[:, i] * s[:, i - 1]
    return s


CASES = [
    Case("cumsum", lambda x: mt.cumsum(x, 1), lambda x: x.cumsum(1), (2, 3, 5)),
    Case("cumsum, first axis", lambda x: x.cumsum(0), lambda x: x.cumsum(0), (2, 3, 5)),
    Case("cumsum of 0-d", lambda x: mt.cumsum(x, 0), lambda x: x, ()),
    Case("cumsum of nothing", lambda x: mt.cumsum(x, 1), lambda x: x, (2, 0)),
    Case("cumsum in reverse", lambda x: Cumsum.apply(x, axis=1, reverse=True),
         lambda x: x[:, ::-1].cumsum(1)[:, ::-1], (2, 5)),
    Case("cumprod", lambda x: mt.cumprod(x, -1), lambda x: x.cumprod(-1), (2, 3, 5)),
    Case("cumprod, first axis", lambda x: mt.cumprod(x, 0), lambda x: x.cumprod(0), (3, 2)),
    Case("cumprod with zeros", lambda x: mt.cumprod(x, 1), lambda x: x.cumprod(1), ZEROS),
    Case("cumprod of 0-d", lambda x: mt.cumprod(x, 0), lambda x: x, ()),
    Case("cumprod of nothing", lambda x: mt.cumprod(x, 0), lambda x: x, (0, 3)),
    Case("cumprod of one", lambda x: mt.cumprod(x, 0), lambda x: x, (1, 3)),
    Case("cumprod in reverse", lambda x: Cumprod.apply(x, axis=1, reverse=True),
         lambda x: x[:, ::-1].cumprod(1)[:, ::-1], ZEROS),
    Case("shift", lambda x: Shift.apply(x, axis=1, by=1, fill=7),
         lambda x: np.concatenate([np.full_like(x[:, :1], 7), x[:, :-1]], 1), (2, 3)),
    Case("shift back", lambda x: Shift.apply(x, axis=0, by=-1, fill=0),
         lambda x: np.concatenate([x[1:], 0 * x[:1]]), (2, 3)),
    Case("recurrence", lambda g, a: Recurrence.apply(g, a, axis=1, reverse=False), recur,
         (2, 5), (2, 5)),
    Case("recurrence in reverse", lambda g, a: Recurrence.apply(g, a, axis=1, reverse=True),
         lambda g, a: recur(g[:, ::-1], np.roll(a[:, ::-1], 1, 1))[:, ::-1], (2, 5), (2, 5)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_dtypes(name, device):
    function = getattr(mt, name)
    for dtype in ("bool", "int32", "int64"):
        whole = mt.tensor(np.array([1, 1, 0]).astype(dtype), device=device)
        assert function(whole, 0).dtype == np.int64
    assert function(whole, 0, dtype="int32").dtype == np.int32
    assert function(whole, 0, dtype="float64").dtype == np.float64


def test_an_axis_out_of_range(make):
    with pytest.raises(IndexRangeError, match="cumsum") as caught:
        mt.cumsum(make(2, 3), 2)
    assert "from -2 to 1" in str(caught.value)


@settings(max_examples=30, deadline=None)
@given(shape=array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4), data=st.data())
def test_every_axis(shape, data, device):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    values = np.random.default_rng(0).uniform(-1, 1, shape)
    x = mt.tensor(values, device=device, requires_grad=True)
    np.testing.assert_allclose(mt.cumsum(x, axis).numpy(), values.cumsum(axis), atol=1e-14)
    np.testing.assert_allclose(mt.cumprod(x, axis).numpy(), values.cumprod(axis), atol=1e-14)
    mt.cumprod(x, axis).sum().backward()
    assert x.grad.shape == shape
