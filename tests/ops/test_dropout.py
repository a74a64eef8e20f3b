"""Dropout and drop_path."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.nn.dropout import add_residual
from minitorch_attn.ops.dropout import add_dropped


@pytest.fixture(autouse=True)
def seed():
    mt.manual_seed(20170612)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_share_and_scale_of_what_is_kept(device, p):
    x = mt.full((200, 100), 3.0, device=device)
    y = mt.dropout(x, p).numpy()
    kept = y != 0
    np.testing.assert_allclose(y[kept], 3 / (1 - p), rtol=1e-6)
    tolerance = 5 * math.sqrt(p * (1 - p) / kept.size)  # five standard deviations
    assert abs(kept.mean() - (1 - p)) < tolerance
    assert abs(y.mean() - 3) < 3 * tolerance / (1 - p)
    for axis in (0, 1):  # no row and no column is special
        assert abs(kept.mean(axis) - (1 - p)).max() < 0.3


def test_the_backward_pass_uses_the_mask_of_the_forward_pass(make):
    x, cotangent = make(7, 11), make(7, 11, requires_grad=False)
    y = mt.dropout(x, 0.3)
    y.backward(cotangent)
    expected = np.where(y.numpy() == 0, 0, cotangent.numpy() / 0.7)
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_masks_follow_the_seed_and_are_fresh_each_time(make):
    x = make(7, 11)
    first, second = mt.dropout(x, 0.5).numpy(), mt.dropout(x, 0.5).numpy()
    assert (first != second).any()
    mt.manual_seed(20170612)
    np.testing.assert_array_equal(mt.dropout(x, 0.5).numpy(), first)
    np.testing.assert_array_equal(mt.dropout(x, 0.5).numpy(), second)
    mt.manual_seed(1)
    assert (mt.dropout(x, 0.5).numpy() != first).any()


@pytest.mark.parametrize("function", [mt.dropout, mt.drop_path])
def test_masks_are_equal_on_every_device(device, rng, function):
    host = rng.standard_normal((64, 5)).astype("float32")
    results = []
    for place in ("cpu", device):
        mt.manual_seed(5)
        results.append(function(mt.tensor(host, device=place), 0.4, training=True).numpy())
    np.testing.assert_array_equal(*results)


def test_nothing_happens_at_p_0_and_in_evaluation(make):
    x = make(3, 5)
    before = mt.get_rng_state()
    assert mt.dropout(x, 0.0) is x
    assert mt.dropout(x, 0.5, training=False) is x
    assert mt.drop_path(x, 0.5) is x  # training=False is its default
    assert mt.drop_path(x, 0.0, training=True) is x
    assert mt.get_rng_state() == before


@pytest.mark.parametrize("scale", [True, False])
def test_everything_goes_at_p_1(make, scale):
    x = make(3, 5)
    for y in (mt.dropout(x, 1.0), mt.drop_path(x, 1.0, True, scale)):
        y.sum().backward()
        assert (y.numpy() == 0).all() and (x.grad.numpy() == 0).all()


def test_drop_path_drops_whole_samples(make):
    x = make(200, 3, 5, requires_grad=False, low=1, high=2)
    host = x.numpy()
    y = mt.drop_path(x, 0.25, training=True).numpy()
    dropped = (y == 0).all((1, 2))
    assert 20 < dropped.sum() < 80
    np.testing.assert_allclose(y[~dropped], host[~dropped] / 0.75)
    mt.manual_seed(20170612)
    plain = mt.drop_path(x, 0.25, training=True, scale_by_keep=False).numpy()
    np.testing.assert_array_equal(plain[~dropped], host[~dropped])


@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 5)])
def test_shapes_and_dtypes(make, shape):
    for dtype in ("float32", "float64"):
        x = make(*shape, dtype=dtype)
        for y in (mt.dropout(x, 0.5), mt.drop_path(x, 0.5, training=True)):
            assert y.shape == shape and y.dtype == dtype


def test_gradients(make):
    x = make(3, 5)
    for function in (mt.dropout, lambda x, p: mt.drop_path(x, p, True)):
        assert gradcheck(lambda x, f=function: f(x, 0.4), x)
        assert gradgradcheck(lambda x, f=function: f(x * x, 0.4), x)


def test_in_place(make):
    x = make(3, 5, requires_grad=False)
    expected = mt.dropout(x, 0.5).numpy()
    mt.manual_seed(20170612)
    assert mt.dropout(x, 0.5, inplace=True) is x
    np.testing.assert_array_equal(x.numpy(), expected)


def test_bad_arguments(make, device):
    for function in (mt.dropout, mt.drop_path):
        for p in (-0.1, 1.1, math.nan):
            with pytest.raises(ArgumentError, match="must be between 0 and 1"):
                function(make(3), p, training=True)
        with pytest.raises(DTypeError, match="floating-point"):
            function(mt.tensor([1], device=device), 0.5, training=True)


def test_a_step_needs_no_synchronisation(make):
    x = make(3, 5)
    with forbid_sync():
        (mt.dropout(x, 0.5) + mt.drop_path(x, 0.5, training=True)).sum().backward()


CHANNELS = [
    (mt.dropout1d, (5, 7, 3), 2), (mt.dropout1d, (11, 3), 1), (mt.dropout2d, (5, 7, 3, 2), 2),
    (mt.dropout2d, (5, 7, 3), 2), (mt.dropout3d, (5, 7, 3, 2, 3), 2),
    (mt.dropout3d, (11, 3, 2, 3), 1),
]  # fmt: skip


@pytest.mark.parametrize(("function", "shape", "lead"), CHANNELS)
def test_channels_are_dropped_as_a_whole(function, shape, lead, device):
    x = mt.rand(shape, device=device) + 1.0
    mt.manual_seed(2)
    y = function(x, 0.4).numpy()
    space = tuple(range(lead, len(shape)))
    kept = (y != 0).all(axis=space)
    assert (kept | (y == 0).all(axis=space)).all() and kept.any() and not kept.all()
    scale = np.where(kept, 1 / 0.6, 0).reshape(*shape[:lead], *[1] * len(space))
    np.testing.assert_allclose(y, x.numpy() * scale, rtol=1e-6)
    mt.manual_seed(2)
    assert function(x, 0.4, inplace=True) is x
    np.testing.assert_array_equal(x.numpy(), y)
    assert function(x, 0.4, training=False) is x and function(x, 0.0) is x
    assert not function(x, 1.0).numpy().any()


@pytest.mark.parametrize(("function", "shape", "lead"), CHANNELS)
def test_gradient_of_dropped_channels(function, shape, lead, make):
    def seeded(x):
        mt.manual_seed(3)
        return function(x, 0.4)

    small = (*shape[:lead], *[2] * (len(shape) - lead))
    assert gradcheck(seeded, make(*small))


@pytest.mark.parametrize("size", [0, 1, 2])
def test_channels_of_small_sizes(size, device):
    for function, axes in ((mt.dropout1d, 3), (mt.dropout2d, 4), (mt.dropout3d, 5)):
        assert function(mt.ones([size] * axes, device=device)).shape == (size,) * axes


def test_channels_are_needed():
    for function, shape in (
        (mt.dropout1d, (3,)),
        (mt.dropout2d, (3, 5)),
        (mt.dropout3d, (1, 2, 3)),
    ):
        with pytest.raises(ShapeError, match=f"{function.__name__}: input must have"):
            function(mt.ones(shape))
    with pytest.raises(ArgumentError, match="p must be between"):
        mt.dropout2d(mt.ones(1, 2, 3, 3), 1.5)


def test_a_residual_path_is_a_sum_with_dropout(make):
    """The same mask and, but for the order of the operations, the same numbers."""
    x, branch, cotangent = make(7, 11), make(7, 11), make(7, 11, requires_grad=False)
    found = []
    for add in (add_dropped, lambda x, branch, p: x + mt.dropout(branch, p)):
        mt.manual_seed(5)
        y = add(x, branch, 0.3)
        found.append([y, *mt.autograd.grad(y, (x, branch), cotangent)])
        assert mt.backend.random.next_offset(0) == 5  # 77 entries, 16 for each counter value
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_gradients_of_a_residual_path(make, p):
    def call(x, branch):
        mt.manual_seed(3)
        return add_dropped(x, branch, p).sin()

    assert gradcheck(call, (make(3, 5), make(3, 5)))
    assert gradgradcheck(call, (make(3, 5), make(3, 5)))


def test_a_residual_path_of_another_shape_or_dtype(make):
    x, branch = make(3, 5), make(5)
    mt.manual_seed(3)
    found = add_dropped(x, branch, 0.5)
    mt.manual_seed(3)
    np.testing.assert_array_equal(
        found.detach().numpy(), (x + mt.dropout(branch, 0.5)).detach().numpy()
    )
    assert add_dropped(make(3), make(3, dtype="float32"), 0.5).dtype == "float64"


def test_add_residual_calls_what_is_not_plain_dropout(make):
    x, branch = make(3, 5), make(3, 5)
    layer, calls = mt.nn.Dropout(0.5), []
    whole = (x + branch).detach().numpy()
    for other in (mt.nn.Identity(), mt.nn.Dropout(0.5).eval(), mt.nn.Dropout(0.0)):
        np.testing.assert_array_equal(add_residual(x, branch, other).detach().numpy(), whole)
    assert (add_residual(x, branch, layer).detach().numpy() != whole).any()
    layer.register_forward_hook(lambda *arguments: calls.append(1))
    add_residual(x, branch, layer)
    assert calls == [1]
