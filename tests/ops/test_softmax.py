"""softmax, log_softmax and related operations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from op_table import Case, checks

import minitorch_attn as mt
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import DTypeError, IndexRangeError, ShapeError
from minitorch_attn.nn import masks

MASK = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])


def loop_softmax(x, axis, mask=None):
    """One row at a time, by the definition; blocked entries are left out."""
    x = np.moveaxis(np.atleast_1d(x), axis, -1)
    mask = np.ones(x.shape, bool) if mask is None else np.broadcast_to(mask, x.shape)
    y = np.zeros_like(x)
    for row in np.ndindex(x.shape[:-1]):
        kept = [j for j in range(x.shape[-1]) if mask[row][j]]
        total = sum(math.exp(x[row][j]) for j in kept)
        for j in kept:
            y[row][j] = math.exp(x[row][j]) / total
    return np.moveaxis(y, -1, axis)


def loop_logsumexp(x, axes, keepdims=False):
    return np.log(np.exp(x.astype("float64")).sum(axes, keepdims=keepdims)).astype(x.dtype)


CASES = [
    Case("softmax", lambda x: mt.softmax(x, -1), lambda x: loop_softmax(x, -1), (3, 5)),
    Case("softmax axis 0", lambda x: x.softmax(0), lambda x: loop_softmax(x, 0), (5, 3)),
    Case("softmax axis 1", lambda x: x.softmax(1), lambda x: loop_softmax(x, 1), (2, 5, 3)),
    Case("softmax 1-d", lambda x: x.softmax(0), lambda x: loop_softmax(x, 0), (7,)),
    Case("softmax 0-d", lambda x: x.softmax(0), np.ones_like, ()),
    Case("softmax of a transpose", lambda x: x.transpose(0, 1).softmax(-1),
         lambda x: loop_softmax(x.T, -1), (5, 3)),
    Case("softmax of nothing", lambda x: x.softmax(1), lambda x: x, (3, 0)),
    Case("softmax of no rows", lambda x: x.softmax(1), lambda x: x, (0, 3)),
    Case("softmin", lambda x: mt.softmin(x, 1), lambda x: loop_softmax(-x, 1), (3, 5)),
    Case("log_softmax", lambda x: mt.log_softmax(x, -1), lambda x: np.log(loop_softmax(x, -1)),
         (3, 5)),
    Case("log_softmax axis 1", lambda x: x.log_softmax(1), lambda x: np.log(loop_softmax(x, 1)),
         (2, 5, 3)),
    Case("log_softmax 0-d", lambda x: x.log_softmax(-1), np.zeros_like, ()),
    Case("masked", lambda x: mt.masked_softmax(x, mt.tensor(MASK, device=x.device)),
         lambda x: loop_softmax(x, -1, MASK), (3, 5)),
    Case("masked, broadcast", lambda x: mt.masked_softmax(x, mt.tensor(MASK, device=x.device)),
         lambda x: loop_softmax(x, -1, MASK), (2, 3, 5)),
    Case("masked, axis 0", lambda x: mt.masked_softmax(x, mt.tensor(MASK.T, device=x.device), 0),
         lambda x: loop_softmax(x, 0, MASK), (5, 3)),
    Case("masked by nothing", lambda x: mt.masked_softmax(x), lambda x: loop_softmax(x, -1),
         (3, 5)),
    Case("logsumexp", lambda x: mt.logsumexp(x, -1), lambda x: loop_logsumexp(x, -1), (3, 5)),
    Case("logsumexp over two axes", lambda x: x.logsumexp((0, 2), True),
         lambda x: loop_logsumexp(x, (0, 2), True), (2, 3, 5)),
    Case("logsumexp 0-d", lambda x: x.logsumexp(0), lambda x: x, ()),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_scores(device, dtype):
    x = mt.tensor(np.array([[1e4, 1e4, -1e4], [-1e4, 1e4, 0.0]], dtype), device=device)
    np.testing.assert_array_equal(x.softmax(-1).numpy(), [[0.5, 0.5, 0], [0, 1, 0]])
    log_y = x.log_softmax(-1).numpy()
    np.testing.assert_allclose(log_y[1], [-2e4, 0, -1e4])
    np.testing.assert_allclose(log_y[0], [-math.log(2), -math.log(2), -2e4 - math.log(2)])
    np.testing.assert_allclose(x.logsumexp(-1).numpy(), [1e4 + math.log(2), 1e4], rtol=1e-7)


@settings(deadline=None, max_examples=60)
@given(
    shape=array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=6),
    axis=st.integers(-4, 3),
    size=st.sampled_from([0.1, 10.0, 1e4]),
    seed=st.integers(0, 999),
)
def test_rows_sum_to_one_and_a_shift_changes_nothing(device, shape, axis, size, seed):
    axis = axis % len(shape)
    host = np.random.default_rng(seed).uniform(-size, size, shape)
    x = mt.tensor(host, device=device)
    y = x.softmax(axis).numpy()
    assert (y >= 0).all()
    np.testing.assert_allclose(y.sum(axis), np.ones(np.delete(shape, axis)), rtol=1e-12)
    np.testing.assert_allclose((x + 3.5).softmax(axis).numpy(), y, rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(x.log_softmax(axis).exp().numpy(), y, rtol=1e-10, atol=1e-300)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_rows_of_minus_infinity(device):
    x = mt.tensor(np.full((2, 3), -np.inf), device=device, requires_grad=True)
    assert np.isnan(x.softmax(-1).numpy()).all()
    assert np.isnan(x.log_softmax(-1).numpy()).all()
    assert (x.logsumexp(-1).numpy() == -np.inf).all()
    y = mt.masked_softmax(x)
    y.backward(mt.tensor(np.ones((2, 3)), device=device))
    assert (y.numpy() == 0).all() and (x.grad.numpy() == 0).all()


def test_logsumexp_of_infinity_and_of_nothing(device):
    x = mt.tensor([[np.inf, 1.0]], device=device)
    assert x.logsumexp(1).numpy().tolist() == [np.inf]
    assert mt.zeros(0, 2, device=device).logsumexp(0).numpy().tolist() == [-np.inf] * 2


def test_a_blocked_entry_may_hold_anything(make, device):
    x = make(3, 5)
    poisoned = x.numpy().copy()
    poisoned[~MASK] = np.nan
    mask = mt.tensor(MASK, device=device)
    poisoned = mt.tensor(poisoned, device=device, requires_grad=True)
    cotangent = make(3, 5, requires_grad=False)
    for scores in (x, poisoned):
        mt.masked_softmax(scores, mask).backward(cotangent)
    np.testing.assert_array_equal(poisoned.grad.numpy(), x.grad.numpy())
    assert (x.grad.numpy()[~MASK] == 0).all() and (x.grad.numpy()[2] != 0).all()


def test_a_mask_object_is_understood(make, device):
    x = make(2, 3, 5, 5)  # (batch, heads, query, key)
    y = mt.masked_softmax(x, masks.causal(5).to(device)).numpy()
    np.testing.assert_array_equal(np.triu(y, 1), np.zeros_like(y))
    np.testing.assert_allclose(y.sum(-1), np.ones((2, 3, 5)))


def test_dtypes(device):
    whole = mt.tensor([1, 2], device=device)
    with pytest.raises(DTypeError, match="floating-point"):
        whole.softmax(0)
    assert whole.softmax(0, dtype=mt.float64).dtype == mt.float64
    assert whole.logsumexp(0).dtype == mt.float32
    assert mt.zeros(2, device=device).softmax(0).dtype == mt.float32


def test_dim_by_the_old_rule_warns(make):
    x = make(2, 3, 5)
    with pytest.warns(UserWarning, match="dim=0 is used"):
        y = mt.softmax(x)
    np.testing.assert_array_equal(y.numpy(), mt.softmax(x, 0).numpy())


def test_bad_arguments(make, device):
    x = make(3, 5)
    with pytest.raises(IndexRangeError, match="out of range"):
        x.softmax(2)
    with pytest.raises(DTypeError, match="must be a boolean tensor"):
        mt.masked_softmax(x, make(3, 5))
    with pytest.raises(ShapeError, match="do not broadcast"):
        mt.masked_softmax(x, mt.ones(3, 4, device=device).bool())
    with pytest.raises(ShapeError, match="does not broadcast"):
        mt.masked_softmax(x, mt.ones(2, 3, 5, device=device).bool())


def test_a_step_needs_no_synchronisation(make, device):
    x, cotangent = make(3, 5), make(3, 5, requires_grad=False)
    mask = mt.tensor(MASK, device=device)
    with forbid_sync():
        for y in (x.softmax(-1), x.log_softmax(-1), mt.masked_softmax(x, mask)):
            y.backward(cotangent)
        x.logsumexp(0).sum().backward()
