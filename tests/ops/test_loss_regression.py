"""Regression losses, and cosine_similarity."""

import math

import numpy as np
import pytest
from op_table import Case, Leaf, Within, checks

import minitorch_attn as mt
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError

SHARE = Within((3, 5), 0.1, 0.9)
POSITIVE = Within((3, 5), 0.5, 2.0)


def looped(element):
    """`element(x, t)` of every pair, in float64, as an array."""

    def run(x, t):
        pairs = zip(x.ravel().tolist(), t.ravel().tolist(), strict=True)
        return np.array([element(a, b) for a, b in pairs]).reshape(x.shape).astype(x.dtype)

    return run


def huber(delta):
    return looped(lambda x, t: (x - t) ** 2 / 2 if abs(x - t) <= delta
                  else delta * (abs(x - t) - delta / 2))  # fmt: skip


squared = looped(lambda x, t: (x - t) ** 2)
absolute = looped(lambda x, t: abs(x - t))
smooth = looped(lambda x, t: (x - t) ** 2 / 0.6 if abs(x - t) <= 0.3 else abs(x - t) - 0.15)
binary = looped(lambda x, t: -(t * math.log(x) + (1 - t) * math.log(1 - x)))
with_logits = looped(lambda x, t: -(t * -math.log1p(math.exp(-x))
                                    + (1 - t) * -math.log1p(math.exp(x))))  # fmt: skip
kl = looped(lambda x, t: t * (math.log(t) - x))
kl_log = looped(lambda x, t: math.exp(t) * (t - x))


def loop_cosine(a, b, axis):
    a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    y = np.empty(a.shape[:-1], a.dtype)
    for i in np.ndindex(y.shape):
        dot = sum(p * q for p, q in zip(a[i], b[i], strict=True))
        y[i] = dot / math.sqrt(sum(p * p for p in a[i]) * sum(q * q for q in b[i]))
    return y


CASES = [
    Case("mse", lambda x, t: mt.mse_loss(x, t), lambda x, t: squared(x, t).mean(), (3, 5), (3, 5)),
    Case("mse sum", lambda x, t: mt.mse_loss(x, t, reduction="sum"),
         lambda x, t: squared(x, t).sum(), (3, 5), (3, 5)),
    Case("mse none", lambda x, t: mt.mse_loss(x, t, reduction="none"), squared, (3, 5), (3, 5)),
    Case("mse of 0-d", lambda x, t: mt.mse_loss(x, t), squared, (), ()),
    Case("mse weighted", lambda x, t, w: mt.mse_loss(x, t, weight=w),
         lambda x, t, w: (squared(x, t) * w).sum() / w.sum(), (3, 5), (3, 5), POSITIVE),
    Case("l1", lambda x, t: mt.l1_loss(x, t), lambda x, t: absolute(x, t).mean(), (3, 5), (3, 5)),
    Case("l1 none", lambda x, t: mt.l1_loss(x, t, reduction="none"), absolute, (3, 5), (3, 5)),
    Case("l1 weighted", lambda x, t, w: mt.l1_loss(x, t, weight=w),
         lambda x, t, w: (absolute(x, t) * w).sum() / w.sum(), (3, 5), (3, 5), POSITIVE),
    Case("huber", lambda x, t: mt.huber_loss(x, t, reduction="none", delta=0.4), huber(0.4),
         (3, 5), (3, 5)),
    Case("huber mean", lambda x, t: mt.huber_loss(x, t), lambda x, t: huber(1.0)(x, t).mean(),
         (3, 5), (3, 5)),
    Case("huber weighted", lambda x, t, w: mt.huber_loss(x, t, weight=w),
         lambda x, t, w: (huber(1.0)(x, t) * w).mean(), (3, 5), (3, 5), POSITIVE),
    Case("smooth_l1", lambda x, t: mt.smooth_l1_loss(x, t, reduction="none", beta=0.3), smooth,
         (3, 5), (3, 5)),
    Case("smooth_l1 without a tip", lambda x, t: mt.smooth_l1_loss(x, t, beta=0),
         lambda x, t: absolute(x, t).mean(), (3, 5), (3, 5)),
    Case("bce", lambda x, t: mt.binary_cross_entropy(x, t, reduction="none"), binary,
         SHARE, SHARE),
    Case("bce weighted", lambda x, t, w: mt.binary_cross_entropy(x, t, w),
         lambda x, t, w: (binary(x, t) * w).mean(), SHARE, SHARE, (5,)),
    Case("bce with logits",
         lambda x, t: mt.binary_cross_entropy_with_logits(x, t, reduction="none"), with_logits,
         Within((3, 5), -4, 4), SHARE),
    Case("bce with logits, weighted",
         lambda x, t, w: mt.binary_cross_entropy_with_logits(x, t, w, reduction="sum"),
         lambda x, t, w: (with_logits(x, t) * w).sum(), (3, 5), SHARE, (5,)),
    Case("bce with logits, pos_weight",
         lambda x, t: mt.binary_cross_entropy_with_logits(
             x, t, pos_weight=mt.full((5,), 3.0, dtype=x.dtype, device=x.device)),
         lambda x, t: (with_logits(x, t) + 2 * t * np.log1p(np.exp(-x))).mean(),
         (3, 5), SHARE),
    Case("bce with logits at 0",
         lambda x, t: mt.binary_cross_entropy_with_logits(x, t, reduction="none"), with_logits,
         Leaf(np.zeros((3, 5))), SHARE),
    Case("kl", lambda x, t: mt.kl_div(x, t, reduction="none"), kl, (3, 5), SHARE),
    Case("kl per batch", lambda x, t: mt.kl_div(x, t, reduction="batchmean"),
         lambda x, t: kl(x, t).sum() / 3, (3, 5), SHARE),
    Case("kl of logarithms", lambda x, t: mt.kl_div(x, t, reduction="sum", log_target=True),
         lambda x, t: kl_log(x, t).sum(), (3, 5), (3, 5)),
    Case("cosine", lambda a, b: mt.cosine_similarity(a, b), lambda a, b: loop_cosine(a, b, 1),
         (3, 5), (3, 5)),
    Case("cosine axis 0", lambda a, b: mt.cosine_similarity(a, b, dim=0),
         lambda a, b: loop_cosine(a, b, 0), (7, 2, 3), (7, 2, 3)),
]  # fmt: skip

test_forward, test_gradient, test_second_gradient = checks(CASES)


def test_the_gradient_of_huber_is_the_limited_difference(device):
    x = mt.tensor([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0], device=device, requires_grad=True)
    zeros = mt.zeros(7, device=device)
    mt.huber_loss(x, zeros, reduction="sum").backward()
    np.testing.assert_array_equal(x.grad.numpy(), [-1, -1, -0.5, 0, 0.5, 1, 1])


def test_binary_cross_entropy_at_the_ends(device):
    p = mt.tensor([0.0, 1.0, 0.0, 1.0], device=device, requires_grad=True)
    t = mt.tensor([0.0, 1.0, 1.0, 0.0], device=device)
    loss = mt.binary_cross_entropy(p, t, reduction="none")
    loss.sum().backward()
    np.testing.assert_array_equal(loss.numpy(), [0, 0, 100, 100])
    np.testing.assert_allclose(p.grad.numpy(), [0, 0, -1e12, 1e12], rtol=1e-6)


def test_logits_of_any_size(device):
    x = mt.tensor([-1e4, 1e4, -1e4, 1e4], device=device, requires_grad=True)
    t = mt.tensor([0.0, 1.0, 1.0, 0.0], device=device)
    loss = mt.binary_cross_entropy_with_logits(x, t, reduction="none")
    loss.sum().backward()
    np.testing.assert_array_equal(loss.numpy(), [0, 0, 1e4, 1e4])
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, -1, 1])


def test_kl_of_a_class_that_never_occurs(device):
    x = mt.tensor([[-1.0, -2.0]], device=device, requires_grad=True)
    t = mt.tensor([[1.0, 0.0]], device=device, requires_grad=True)
    loss = mt.kl_div(x, t, reduction="sum")
    loss.backward()
    assert loss.item() == 1.0
    assert np.isfinite(t.grad.numpy()).all() and np.isfinite(x.grad.numpy()).all()


def test_cosine_of_a_zero_vector(device):
    zero = mt.zeros(1, 3, device=device, dtype="float64", requires_grad=True)
    other = mt.ones(1, 3, device=device, dtype="float64", requires_grad=True)
    y = mt.cosine_similarity(zero, other)
    y.sum().backward()
    assert y.item() == 0
    np.testing.assert_allclose(zero.grad.numpy(), np.full((1, 3), 1e8 / math.sqrt(3)))
    np.testing.assert_array_equal(other.grad.numpy(), np.zeros((1, 3)))


@pytest.mark.filterwarnings("ignore:.*empty", "ignore:invalid value", "ignore:Mean of empty")
def test_the_mean_of_nothing_is_nan(device):
    nothing = mt.zeros(0, 3, device=device)
    for loss in (mt.mse_loss, mt.l1_loss, mt.huber_loss, mt.smooth_l1_loss, mt.kl_div,
                 mt.binary_cross_entropy, mt.binary_cross_entropy_with_logits):  # fmt: skip
        assert math.isnan(loss(nothing, nothing).item())
        assert loss(nothing, nothing, reduction="sum").item() == 0


def test_shapes_that_broadcast_are_reported(make):
    x, t = make(3, 5), make(3, 1)
    for loss in (mt.mse_loss, mt.l1_loss, mt.huber_loss, mt.smooth_l1_loss):
        with pytest.warns(UserWarning, match="probably a mistake"):
            assert loss(x, t, reduction="none").shape == (3, 5)
    for loss in (mt.binary_cross_entropy, mt.binary_cross_entropy_with_logits):
        with pytest.raises(ShapeError, match=r"\(3, 5\)(.|\n)*\(3, 1\)"):
            loss(x, t)


def test_bad_arguments(make, device):
    x = make(3, 5)
    for loss in (mt.mse_loss, mt.l1_loss, mt.kl_div, mt.binary_cross_entropy_with_logits):
        with pytest.raises(DTypeError, match="target is not a tensor"):
            loss(x, 1.0)
        with pytest.raises(DTypeError, match="must be floating-point"):
            loss(mt.tensor([1], device=device), mt.tensor([1], device=device))
        with pytest.raises(ArgumentError, match="reduction must be"):
            loss(x, x, reduction="average")
    with pytest.raises(ArgumentError, match="delta must be positive"):
        mt.huber_loss(x, x, delta=0)
    with pytest.raises(ArgumentError, match="beta must not be negative"):
        mt.smooth_l1_loss(x, x, beta=-1)
    with pytest.raises(ShapeError, match="shapes of weight and input"):
        mt.mse_loss(x, x, weight=make(5))


def test_a_step_needs_no_synchronisation(make):
    x, share = make(3, 5), make(3, 5, low=0.1, high=0.9, requires_grad=False)
    with forbid_sync():
        for loss in (mt.mse_loss, mt.l1_loss, mt.huber_loss, mt.smooth_l1_loss, mt.kl_div,
                     mt.binary_cross_entropy_with_logits):  # fmt: skip
            loss(x, share).backward()
        mt.binary_cross_entropy(x.sigmoid(), share).backward()
        mt.cosine_similarity(x, share).sum().backward()


def test_cosine_similarity_counts_the_copies_that_broadcasting_makes(make):
    short, long = make(1, low=0.1), make(3, low=0.1)
    similar = mt.cosine_similarity(short, long, dim=0)
    np.testing.assert_allclose(
        similar.item(), mt.cosine_similarity(short.expand(3), long, dim=0).item()
    )
    assert similar.item() <= 1


def test_huber_has_no_second_derivative_where_it_turns_linear(device):
    x = mt.tensor(np.array([1.0, 0.5]), requires_grad=True, device=device)
    loss = mt.smooth_l1_loss(x, mt.zeros_like(x), reduction="sum")
    (first,) = mt.autograd.grad(loss, x, create_graph=True)
    (second,) = mt.autograd.grad(first.sum(), x)
    np.testing.assert_array_equal(second.numpy(), [0.0, 1.0])


@pytest.mark.filterwarnings("ignore:invalid value")
def test_kl_div_of_an_empty_batch_is_nan_per_batch(make):
    assert math.isnan(mt.kl_div(make(0, 3), make(0, 3), reduction="batchmean").item())


@pytest.mark.parametrize("p", [-0.1, 1.1, 100.0, float("nan"), float("inf")])
def test_binary_cross_entropy_refuses_what_is_not_a_probability(p, device):
    with pytest.raises(ArgumentError, match=r"binary_cross_entropy: input must lie in \[0, 1\]"):
        mt.nn.functional.binary_cross_entropy(
            mt.tensor([0.5, p], device=device), mt.tensor([1.0, 0.0], device=device)
        ).item()
    nothing = mt.zeros(0, device=device)
    summed = mt.nn.functional.binary_cross_entropy(nothing, nothing, reduction="sum")
    assert summed.item() == 0


@pytest.mark.filterwarnings("ignore:.*size_average")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"size_average": 0}, 3.0), ({"size_average": 1}, 1.0), ({"size_average": False}, 3.0),
        ({"reduce": 0}, [1.0, 1.0, 1.0]), ({"size_average": 0, "reduce": 1}, 3.0),
        ({"size_average": 1, "reduce": 0}, [1.0, 1.0, 1.0]),
    ],
)  # fmt: skip
def test_old_names_take_anything_true_or_false(settings, expected, device):
    x = mt.ones(3, device=device)
    assert mt.nn.functional.mse_loss(x, x * 0, **settings).tolist() == expected
