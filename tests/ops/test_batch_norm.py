"""Batch, instance and group normalization."""

import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_table import Case, Within, checks

import minitorch_attn as mt
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.ops.batch_norm import NormOver


def standard(values, eps):
    """The same numbers with mean 0 and variance 1, in plain Python."""
    flat = [float(v) for v in values.ravel()]
    mean = sum(flat) / len(flat)
    variance = sum((v - mean) ** 2 for v in flat) / len(flat)
    return np.reshape([(v - mean) / (variance + eps) ** 0.5 for v in flat], values.shape)


def scaled(y, weight, bias):
    shape = (-1, *(1,) * (y.ndim - 2))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def loop_batch(x, weight=None, bias=None, eps=0.1):
    y = np.empty(x.shape)
    for c in range(x.shape[1]):
        y[:, c] = standard(x[:, c], eps) if x.size else x[:, c]
    return scaled(y, weight, bias).astype(x.dtype)


def loop_group(x, weight=None, bias=None, groups=1, eps=0.1):
    y = np.empty(x.shape)
    width = x.shape[1] // groups
    for b, g in np.ndindex(x.shape[0], groups):
        part = b, slice(g * width, (g + 1) * width)
        y[part] = standard(x[part], eps)
    return scaled(y, weight, bias).astype(x.dtype)


def loop_running(x, mean, variance, weight=None, bias=None, eps=0.1):
    shape = (-1, *(1,) * (x.ndim - 2))
    y = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + eps)
    return scaled(y, weight, bias)


def batch(x, weight=None, bias=None):
    return mt.batch_norm(x, None, None, weight, bias, training=True, eps=0.1)


def instance(x, weight=None, bias=None):
    return mt.instance_norm(x, weight=weight, bias=bias, eps=0.1)


def loop_instance(x, weight=None, bias=None):
    return loop_group(x, weight, bias, x.shape[1])


def group(groups):
    return (
        lambda x, *p: mt.group_norm(x, groups, *p, eps=0.1),
        lambda x, *p: loop_group(x, *p, groups=groups),
    )


RUNNING = np.array([0.3, -0.2, 0.5]), np.array([0.7, 1.3, 2.0])


def evaluated(function, flag):
    def call(x, weight=None, bias=None):
        mean, variance = (mt.tensor(r, device=x.device).to(x.dtype) for r in RUNNING)
        return function(x, mean, variance, weight, bias, eps=0.1, **{flag: False})

    def reference(x, weight=None, bias=None):
        mean, variance = (r.astype(x.dtype) for r in RUNNING)
        return loop_running(x, mean, variance, weight, bias)

    return call, reference


CASES = [
    Case("batch", batch, loop_batch, (5, 3, 2), (3,), (3,)),
    Case("batch, rows only", batch, loop_batch, (7, 3), (3,), (3,)),
    Case("batch, two axes of space", batch, loop_batch, (2, 3, 5, 2), (3,), (3,)),
    Case("batch, plain", batch, loop_batch, (5, 3, 2)),
    Case("batch without bias", batch, loop_batch, (5, 3, 2), (3,)),
    Case("batch without weight", lambda x, b: batch(x, None, b),
         lambda x, b: loop_batch(x, None, b), (5, 3, 2), (3,)),
    Case("batch of a transpose", lambda x, w: batch(x.transpose(0, 1), w),
         lambda x, w: loop_batch(x.swapaxes(0, 1), w), (3, 5, 2), (3,)),
    Case("batch of nothing", batch, loop_batch, (0, 3, 2), (3,), (3,)),
    Case("instance", instance, loop_instance, (2, 3, 5), (3,), (3,)),
    Case("instance, two axes of space", instance, loop_instance, (2, 3, 2, 3), (3,), (3,)),
    Case("instance, plain", instance, loop_instance, (2, 3, 5)),
    Case("group", *group(2), (2, 6, 5), (6,), (6,)),
    Case("group, two axes of space", *group(3), (2, 6, 2, 3), (6,), (6,)),
    Case("group, rows only", *group(2), (3, 10), (10,), (10,)),
    Case("group, plain", *group(2), (2, 6, 5)),
    Case("group, one for all", *group(1), (2, 3, 5), (3,), (3,)),
    Case("group of no images", lambda x, w: mt.group_norm(x, 2, w), lambda x, w: x, (0, 6, 5),
         (6,)),
    Case("evaluated", *evaluated(mt.batch_norm, "training"), (2, 3, 5), (3,), (3,)),
    Case("evaluated without weight",
         lambda x, b: evaluated(mt.batch_norm, "training")[0](x, None, b),
         lambda x, b: evaluated(mt.batch_norm, "training")[1](x, None, b), (2, 3, 5), (3,)),
    Case("evaluated without bias", *evaluated(mt.batch_norm, "training"), (5, 3, 2, 1), (3,)),
    Case("evaluated, no images", *evaluated(mt.batch_norm, "training"), (0, 3, 2), (3,), (3,)),
    Case("evaluated, plain", *evaluated(mt.batch_norm, "training"), (2, 3)),
    Case("evaluated instances", *evaluated(mt.instance_norm, "use_input_stats"), (2, 3, 2, 5),
         (3,), Within((3,), 1, 2)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    axes=st.sampled_from([(0, 1, 3), (3,), (2, 3)]),
    with_weight=st.booleans(),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_fused_equals_composed(device, shape, axes, with_weight, with_bias, seed):
    rng = np.random.default_rng(seed)
    channels = shape[1:3] if axes == (2, 3) else shape[2:3]
    hosts = [rng.normal(size=shape) + 5]
    hosts += [rng.normal(size=channels) if wanted else None for wanted in (with_weight, with_bias)]
    cotangent = mt.tensor(rng.normal(size=shape), device=device)
    results = []
    for run in (NormOver.apply, lambda *a, **s: NormOver.composed(None, *a, **s)):
        inputs = [None if h is None else mt.tensor(h, device=device, requires_grad=True)
                  for h in hosts]  # fmt: skip
        y = run(*inputs, axes=axes, eps=1e-2, running=None)
        y.backward(cotangent)
        results.append([y.detach().numpy()] + [x.grad.numpy() for x in inputs if x is not None])
    for fused, composed in zip(*results, strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-8, atol=1e-8)


def composed_by_running(x, mean, variance, weight, bias, eps):
    """Separate operations for `NormByRunning`."""
    shape = (-1, *(1 for _ in x.shape[2:]))
    y = (x - mean.reshape(shape)) * (variance + eps).rsqrt().reshape(shape)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.lists(st.integers(0, 3), min_size=2, max_size=5),
    with_weight=st.booleans(),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_by_running_equals_composed(device, shape, with_weight, with_bias, seed):
    rng = np.random.default_rng(seed)
    channels = shape[1:2]
    hosts = [rng.normal(size=shape) + 5]
    hosts += [rng.normal(size=channels) if wanted else None for wanted in (with_weight, with_bias)]
    mean, variance = (mt.tensor(rng.uniform(1, 5, channels), device=device) for _ in range(2))
    cotangent = mt.tensor(rng.normal(size=shape), device=device)
    results = []
    for run in (mt.batch_norm, composed_by_running):
        x, weight, bias = inputs = [
            None if h is None else mt.tensor(h, device=device, requires_grad=True) for h in hosts
        ]
        y = run(x, mean, variance, weight, bias, eps=1e-2)
        y.backward(cotangent)
        results.append([y.detach().numpy()] + [x.grad.numpy() for x in inputs if x is not None])
    for fused, composed in zip(*results, strict=True):
        np.testing.assert_allclose(fused, composed, rtol=1e-10, atol=1e-10)


def test_running_statistics_move_towards_the_unbiased_ones(device, rng):
    x = rng.normal(size=(5, 3, 7)) * 2 + 1
    mean, variance = (mt.tensor(r, device=device) for r in RUNNING)
    version = mean._version[0]
    mt.batch_norm(mt.tensor(x, device=device), mean, variance, training=True, momentum=0.3)
    columns = x.swapaxes(0, 1).reshape(3, -1)
    np.testing.assert_allclose(mean.numpy(), 0.7 * RUNNING[0] + 0.3 * columns.mean(1))
    np.testing.assert_allclose(variance.numpy(), 0.7 * RUNNING[1] + 0.3 * columns.var(1, ddof=1))
    assert mean._version[0] > version


def test_running_statistics_of_instances_are_averaged(device, rng):
    x = rng.normal(size=(5, 3, 7))
    mean, variance = (mt.tensor(r, device=device) for r in RUNNING)
    mt.instance_norm(mt.tensor(x, device=device), mean, variance, momentum=0.3)
    np.testing.assert_allclose(mean.numpy(), 0.7 * RUNNING[0] + 0.3 * x.mean(2).mean(0))
    np.testing.assert_allclose(variance.numpy(), 0.7 * RUNNING[1] + 0.3 * x.var(2, ddof=1).mean(0))


def test_only_training_on_something_moves_them(device, rng):
    mean, variance = (mt.tensor(r, device=device) for r in RUNNING)
    x = mt.tensor(rng.normal(size=(5, 3, 2)), device=device, requires_grad=True)
    mt.batch_norm(x, mean, variance).sum().backward()
    mt.batch_norm(x[:0], mean, variance, training=True)
    for now, before in zip((mean, variance), RUNNING, strict=True):
        np.testing.assert_array_equal(now.numpy(), before)


def test_a_later_change_of_the_running_statistics_does_not_change_the_gradients(make, device):
    x, weight, cotangent = make(5, 3, 2), make(3), make(5, 3, 2, requires_grad=False)
    found = []
    for changed in (False, True):
        mean, variance = (mt.tensor(r, device=device) for r in RUNNING)
        y = mt.batch_norm(x, mean, variance, weight)
        if changed:
            mean.fill_(7.0)
            variance.fill_(7.0)
        found.append([g.numpy() for g in mt.autograd.grad(y, (x, weight), cotangent)])
    for before, after in zip(*found, strict=True):
        np.testing.assert_array_equal(before, after)


def test_second_derivatives_move_them_once(make, device):
    mean, variance = (mt.tensor(r, device=device) for r in RUNNING)
    x = make(5, 3)
    y = mt.batch_norm(x, mean, variance, training=True, momentum=0.5)
    after = mean.numpy().copy()
    (grad,) = mt.autograd.grad((y * y * y).sum(), x, create_graph=True)
    (grad * grad).sum().backward()
    np.testing.assert_array_equal(mean.numpy(), after)


def test_only_the_gradients_that_are_wanted(make):
    x, weight, bias = make(5, 3), make(3), make(3)
    cotangent = make(5, 3, requires_grad=False)
    batch(x.detach(), weight, bias).backward(cotangent)
    np.testing.assert_allclose(bias.grad.numpy(), cotangent.numpy().sum(0))
    again = mt.tensor(x.detach().numpy(), device=x.device, requires_grad=True)
    batch(x, weight, bias).backward(cotangent)
    batch(again, weight.detach(), bias.detach()).backward(cotangent)
    np.testing.assert_allclose(again.grad.numpy(), x.grad.numpy(), rtol=1e-12)


def test_constant_statistics_save_the_input_only_for_the_weight(make, device):
    shape, ones = (5, 3, 2), mt.ones(3, dtype="float64", device=device)
    for trained in (False, True):
        weight = make(3, requires_grad=trained)
        x = make(*shape)
        doubled = x + x
        watch = weakref.ref(doubled.array)
        y = mt.batch_norm(doubled, ones, 4 * ones, weight, eps=0.0)
        del doubled
        assert (watch() is None) is not trained  # the derivative by `doubled` is weight / 2
        y.sum().backward()
        expected = np.broadcast_to(weight.detach().numpy()[:, None], shape)
        np.testing.assert_allclose(x.grad.numpy(), expected)


def test_far_from_zero_in_single_precision(device, rng):
    host = rng.normal(size=(64, 2, 9)) + 1e4
    y = batch(mt.tensor(host.astype("float32"), device=device)).numpy()
    np.testing.assert_allclose(y, loop_batch(host), atol=5e-3)
    assert y.dtype == np.float32


def test_inputs_are_left_alone_and_nothing_synchronises(make):
    x, weight, bias, cotangent = make(2, 4, 5), make(4), make(4), make(2, 4, 5)
    mean, variance = make(4, requires_grad=False), make(4, requires_grad=False)
    before = [t.detach().numpy().copy() for t in (x, weight, bias, cotangent)]
    with forbid_sync():
        mt.batch_norm(x, mean, variance, weight, bias, True).backward(cotangent)
        mt.group_norm(x, 2, weight, bias).backward(cotangent)
    for tensor, host in zip((x, weight, bias, cotangent), before, strict=True):
        np.testing.assert_array_equal(tensor.detach().numpy(), host)


BAD = [
    (lambda x, p: mt.batch_norm(x, None, None), ArgumentError, "statistics are missing", "None"),
    (lambda x, p: mt.batch_norm(x[0, 0], None, None, training=True), ShapeError, "at least 2 axes",
     "(5,)"),
    (lambda x, p: mt.batch_norm(x[:1, :, :1], None, None, training=True), ShapeError,
     "variance of a single", "(1, 4, 1)"),
    (lambda x, p: mt.instance_norm(x[:, :, :1]), ShapeError, "single value", "(2, 4, 1)"),
    (lambda x, p: mt.group_norm(x[:1, :, :1], 4), ShapeError, "single value", "(1, 4, 1)"),
    (lambda x, p: mt.group_norm(x, 3), ShapeError, "not divisible by num_groups", "num_groups=3"),
    (lambda x, p: mt.group_norm(x, 2, p[:3]), ShapeError, "weight must have one", "(3,)"),
    (lambda x, p: mt.group_norm(x, 2, p, p.float()), DTypeError, "different dtypes", "float32"),
    (lambda x, p: mt.batch_norm(x, p[:2], p), ShapeError, "running_mean must have one", "(2,)"),
    (lambda x, p: mt.group_norm(x.long(), 2), DTypeError, "floating-point", "int64"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_say_what_was_seen(number, make):
    call, error, message, detail = BAD[number]
    with pytest.raises(error, match=message) as caught:
        call(make(2, 4, 5), make(4))
    assert detail in str(caught.value)


@pytest.mark.parametrize("eps", [-1.0, -1e-30, float("nan")])
@pytest.mark.parametrize(
    "norm",
    [
        lambda x, eps: mt.batch_norm(x, None, None, training=True, eps=eps),
        lambda x, eps: mt.batch_norm(x, mt.zeros(4), mt.ones(4), eps=eps),
    ],
)
def test_a_negative_eps_is_refused(norm, eps):
    with pytest.raises(ArgumentError, match="eps must not be negative or NaN"):
        norm(mt.ones(2, 4, 3), eps)


def test_an_input_of_shape_0_is_returned(device):
    x = mt.zeros(0, device=device, requires_grad=True)
    y = mt.batch_norm(x, mt.zeros(3, device=device), mt.ones(3, device=device), training=True)
    assert y.shape == (0,) and y is not x
