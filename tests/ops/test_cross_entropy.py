"""Cross-entropy and negative log-likelihood."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.ops.cross_entropy import CrossEntropy

CLASSES = 5
SHAPES = [(5,), (3, 5), (2, 5, 3), (2, 5, 3, 2)]


def loop_cross_entropy(logits, target, weight=None, *, ignore_index=-100, reduction="mean",
                       label_smoothing=0.0):  # fmt: skip
    """One row and one class at a time, by the definition, in float64."""
    classes = logits.shape[0] if logits.ndim == 1 else logits.shape[1]
    soft = target.dtype.kind == "f"
    rows = np.moveaxis(logits, min(logits.ndim - 1, 1), -1).reshape(-1, classes)
    targets = target.reshape(-1)
    if soft:
        targets = np.moveaxis(target, min(target.ndim - 1, 1), -1).reshape(-1, classes)
    weight = [1.0] * classes if weight is None else [float(w) for w in weight]
    losses, total_weight = [], 0.0
    for row, label in zip(rows, targets, strict=True):
        if not soft and label == ignore_index:
            losses.append(0.0)
            continue
        log_total = math.log(sum(math.exp(x) for x in row))
        loss = 0.0
        for c in range(classes):
            q = float(label[c]) if soft else float(label == c)
            q = q * (1 - label_smoothing) + label_smoothing / classes
            factor = weight[c] * q
            loss -= factor * (float(row[c]) - log_total)
        losses.append(loss)
        total_weight += 1.0 if soft else weight[label]
    if reduction == "none":
        shape = logits.shape[:1] + logits.shape[2:] if logits.ndim > 1 else ()
        return np.reshape(losses, shape)
    return np.float64(sum(losses) / total_weight if reduction == "mean" else sum(losses))


def drawn(shape, soft, seed=0):
    """Logits of a shape and a target for them; one label in three is 2."""
    rng = np.random.default_rng(seed)
    logits = rng.uniform(-2, 2, shape)
    if soft:
        return logits, rng.uniform(0, 1, shape)
    labels = rng.integers(0, CLASSES, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if labels.ndim:
        labels.flat[::3] = 2
    return logits, np.asarray(labels)


OPTIONS = list(
    itertools.product(SHAPES, ("mean", "sum", "none"), (0.0, 0.3), (False, True),
                      ("labels", "labels, 2 ignored", "probabilities"))
)  # fmt: skip


@pytest.mark.parametrize(("shape", "reduction", "smoothing", "weighted", "kind"), OPTIONS)
def test_every_option_against_a_plain_loop(device, shape, reduction, smoothing, weighted, kind):
    logits, target = drawn(shape, kind == "probabilities")
    weight = np.random.default_rng(1).uniform(0.5, 2, CLASSES) if weighted else None
    options = {"reduction": reduction, "label_smoothing": smoothing}
    if kind == "labels, 2 ignored":
        target = np.where(target.ndim == 0, 1, target)  # a mean over no label is NaN
        options["ignore_index"] = 2
    expected = loop_cross_entropy(logits, target, weight, **options)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        as_float = [None if a is None else a.astype(dtype) for a in (logits, weight)]
        labels = target.astype(dtype) if target.dtype.kind == "f" else target
        x, t = mt.tensor(as_float[0], device=device), mt.tensor(labels, device=device)
        w = None if weight is None else mt.tensor(as_float[1], device=device)
        loss = mt.cross_entropy(x, t, w, **options)
        assert loss.dtype == dtype and loss.shape == expected.shape
        np.testing.assert_allclose(loss.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "soft"), [((5,), False), ((7, 5), False), ((2, 5, 3), False),
                                             ((3, 5), True), ((2, 5, 3), True)])  # fmt: skip
def test_gradients(device, shape, soft, weighted, smoothing, reduction):
    logits, target = drawn(shape, soft)
    x = mt.tensor(logits, device=device, requires_grad=True)
    t = mt.tensor(target, device=device, requires_grad=soft)
    w = mt.tensor(np.linspace(0.5, 2, CLASSES), device=device) if weighted else None
    ignored = -100 if soft or not target.ndim else 2

    def loss(x, t):
        return mt.cross_entropy(x, t, w, ignore_index=ignored, label_smoothing=smoothing,
                                reduction=reduction)  # fmt: skip

    assert gradcheck(loss, (x, t))
    assert gradgradcheck(loss, (x, t))


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(0, 6),
    classes=st.integers(1, 5),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    smoothing=st.sampled_from([0.0, 0.1, 1.0]),
    weighted=st.booleans(),
    size=st.sampled_from([1.0, 1e4]),
    seed=st.integers(0, 999),
)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")  # a mean of nothing
def test_fused_equals_composed(device, rows, classes, reduction, smoothing, weighted, size, seed):
    rng = np.random.default_rng(seed)
    host = rng.uniform(-size, size, (rows, classes))
    labels = mt.tensor(rng.integers(-1, classes, rows), device=device)
    weight = mt.tensor(rng.uniform(0.5, 2, classes), device=device) if weighted else None
    options = {"ignore_index": -1, "label_smoothing": smoothing, "reduction": reduction}
    x = mt.tensor(host, device=device, requires_grad=True)
    fused = CrossEntropy.apply(x, labels, weight, **options)
    cotangent = mt.tensor(rng.standard_normal(fused.shape), device=device)
    (grad,) = mt.autograd.grad([fused], [x], [cotangent], retain_graph=True)
    composed = CrossEntropy.composed(fused.grad_fn, x, labels, weight, **options)
    (grad_composed,) = mt.autograd.grad([composed], [x], [cotangent])
    if reduction == "mean" and (labels.numpy() == -1).all():
        return  # 0 / 0, where the fused gradient is 0 as PyTorch's is
    np.testing.assert_allclose(fused.numpy(), composed.numpy(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(grad.numpy(), grad_composed.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x[:, ::-1], lambda x: x[::2]])
def test_logits_that_lie_otherwise_in_memory(device, rng, view):
    host = view(rng.standard_normal((6, 6)))
    labels = mt.tensor(rng.integers(0, 6, len(host)), device=device)
    weight = mt.tensor(rng.uniform(0.5, 2, 6), device=device)
    grads = []
    for logits in (mt.from_numpy(host).to(device), mt.tensor(host.copy(), device=device)):
        logits.requires_grad_()
        mt.cross_entropy(logits, labels, weight, label_smoothing=0.1).backward()
        grads.append(logits.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-12)


def test_gradient_is_probabilities_less_one_hot(make, device):
    x = make(7, 5)
    labels = np.array([0, 4, 2, 2, 1, 3, 0])
    mt.cross_entropy(x, mt.tensor(labels, device=device), reduction="sum").backward()
    expected = mt.softmax(x, 1).numpy() - np.eye(5)[labels]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_logits(device, dtype):
    host = np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]], dtype)
    x = mt.tensor(host, device=device, requires_grad=True)
    loss = mt.cross_entropy(x, mt.tensor([1, 2], device=device), reduction="none")
    np.testing.assert_allclose(loss.numpy(), [2e4, math.log(2)], rtol=1e-6)
    loss.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[1, -1, 0], [0, 0.5, -0.5]], atol=1e-7)


def test_float16_counts_beyond_2048_rows(device):
    x = mt.tensor(np.zeros((70000, 2), "float16"), device=device, requires_grad=True)
    labels = mt.tensor(np.zeros(70000, "int64"), device=device)
    loss = mt.cross_entropy(x, labels, reduction="mean")
    loss.backward()
    assert loss.dtype == x.grad.dtype == mt.float16
    assert loss.item() == pytest.approx(math.log(2), rel=1e-3)


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_all_labels_ignored(make, device):
    x = make(3, 5)
    labels = mt.tensor([-100] * 3, device=device)
    loss = mt.cross_entropy(x, labels, label_smoothing=0.1)
    loss.backward()
    assert math.isnan(loss.item()) and (x.grad.numpy() == 0).all()
    assert math.isnan(mt.nll_loss(x, labels).item())
    loss = mt.cross_entropy(x, labels, reduction="sum")
    loss.backward()
    assert loss.item() == 0 and (x.grad.numpy() == 0).all()


@pytest.mark.filterwarnings("ignore:invalid value")
def test_an_empty_batch(device):
    x, labels = mt.zeros(0, 5, device=device), mt.tensor(np.zeros(0, "int64"), device=device)
    assert math.isnan(mt.cross_entropy(x, labels).item())
    assert mt.cross_entropy(x, labels, reduction="sum").item() == 0
    assert math.isnan(mt.cross_entropy(x, mt.zeros(0, 5, device=device)).item())


def test_a_blocked_class_costs_nothing(make, device):
    host = make(3, 5).numpy().copy()
    host[:, 1] = -np.inf
    x = mt.tensor(host, device=device, requires_grad=True)
    loss = mt.cross_entropy(x, mt.tensor([0, 4, -100], device=device))
    loss.backward()
    assert math.isfinite(loss.item())
    assert np.isfinite(x.grad.numpy()).all() and (x.grad.numpy()[:, 1] == 0).all()


def test_ignored_rows_may_hold_anything(make, device):
    host = make(3, 5).numpy().copy()
    expected = mt.cross_entropy(mt.tensor(host[:2]), mt.tensor([0, 4])).item()
    host[2, 0] = -np.inf
    loss = mt.cross_entropy(mt.tensor(host, device=device), mt.tensor([0, 4, -1], device=device),
                            ignore_index=-1)  # fmt: skip
    assert loss.item() == pytest.approx(expected)


def test_nll_loss_is_cross_entropy_after_log_softmax(device):
    for shape, reduction in itertools.product(SHAPES, ("mean", "sum", "none")):
        logits, target = drawn(shape, False)
        labels = mt.tensor(target, device=device)
        weight = mt.tensor(np.linspace(0.5, 2, CLASSES), device=device)
        options = {"ignore_index": 2 if target.ndim else -1, "reduction": reduction}
        x, y = (mt.tensor(logits, device=device, requires_grad=True) for _ in range(2))
        loss = mt.cross_entropy(x, labels, weight, **options)
        log_p = y.log_softmax(min(y.ndim - 1, 1))
        same = mt.nll_loss(log_p, labels, weight, **options)
        np.testing.assert_allclose(same.numpy(), loss.numpy(), rtol=1e-12)
        loss.sum().backward()
        same.sum().backward()
        np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_nll_loss_gradients(make, device):
    x, labels = make(3, 5, 2), mt.tensor([[0, 4], [2, -100], [1, 1]], device=device)
    weight = make(5, low=0.5, high=2.0, requires_grad=False)
    assert gradcheck(lambda x: mt.nll_loss(x, labels, weight), x)
    assert gradgradcheck(lambda x: mt.nll_loss(x * x, labels, weight), x)


def test_old_names_of_the_reduction(make, device):
    x, labels = make(3, 5), mt.tensor([0, 4, 2], device=device)
    for old, new in (({"reduce": False}, "none"), ({"size_average": False}, "sum"),
                     ({"size_average": True}, "mean")):  # fmt: skip
        with pytest.warns(UserWarning, match="reduction="):
            got = mt.cross_entropy(x, labels, **old)
        expected = mt.cross_entropy(x, labels, reduction=new)
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("loss", [mt.cross_entropy, mt.nll_loss])
def test_labels_out_of_range(make, device, loss):
    for labels in ([0, 5, 2], [0, -1, 2]):
        with pytest.raises(IndexRangeError, match=r"(5|-1)(.|\n)*from 0 to 4"):
            loss(make(3, 5), mt.tensor(labels, device=device)).item()
    loss(make(3, 5), mt.tensor([0, -7, 2], device=device), ignore_index=-7).item()


@pytest.mark.parametrize("loss", [mt.cross_entropy, mt.nll_loss])
def test_bad_arguments(make, device, loss):
    x, labels = make(3, 5), mt.tensor([0, 4, 2], device=device)
    with pytest.raises(ShapeError, match=r"must have one label per row(.|\n)*target \(3,\)"):
        loss(x, mt.tensor([[0], [4], [2]], device=device))
    with pytest.raises(ShapeError, match="must have one label per row"):
        loss(make(2, 5, 3), labels)
    with pytest.raises(ShapeError, match="does not have a class axis"):
        loss(make(), labels)
    with pytest.raises(ShapeError, match="one number per class"):
        loss(x, labels, make(4))
    with pytest.raises(DTypeError, match="weight and input have different dtypes"):
        loss(x, labels, make(5, dtype="float32"))
    with pytest.raises(DTypeError, match="must be a floating-point"):
        loss(labels, labels)
    with pytest.raises(DTypeError, match="labels must be integers"):
        loss(x, labels.bool())
    with pytest.raises(DTypeError, match="target is not a tensor"):
        loss(x, [0, 4, 2])
    with pytest.raises(ArgumentError, match="reduction must be"):
        loss(x, labels, reduction="average")


def test_bad_arguments_of_cross_entropy(make, device):
    x, labels = make(3, 5), mt.tensor([0, 4, 2], device=device)
    with pytest.raises(ArgumentError, match="label_smoothing must be between 0 and 1"):
        mt.cross_entropy(x, labels, label_smoothing=1.5)
    with pytest.raises(ShapeError, match="must have the same shape"):
        mt.cross_entropy(x, make(3))
    with pytest.raises(ArgumentError, match="ignore_index must not be set"):
        mt.cross_entropy(x, make(3, 5), ignore_index=1)


def test_a_step_needs_no_synchronisation(make, device):
    x, weight = make(3, 5), make(5, low=0.5, high=2.0, requires_grad=False)
    labels = mt.tensor([0, -100, 2], device=device)
    with forbid_sync():
        mt.cross_entropy(x, labels, weight, label_smoothing=0.1).backward()
        mt.cross_entropy(x, x.softmax(1)).backward()
        mt.nll_loss(x, labels).backward()


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_where_all_labels_are_ignored_the_gradient_is_zero_in_a_graph_too(make, device, smoothing):
    x, labels = make(2, 3), mt.tensor([-100, -100], device=device)
    loss = mt.cross_entropy(x, labels, label_smoothing=smoothing)
    assert math.isnan(loss.item())
    (gradient,) = mt.autograd.grad(loss, x, create_graph=True)
    np.testing.assert_array_equal(gradient.numpy(), np.zeros((2, 3)))


@pytest.mark.parametrize("loss", [mt.cross_entropy, mt.nll_loss])
def test_a_lone_row_takes_a_lone_label_of_one_axis(loss, make, device):
    x, label = make(3), mt.tensor([1], device=device)
    for reduction in ("none", "mean", "sum"):
        got = loss(x, label, reduction=reduction)
        assert got.shape == () and got.item() == loss(x, label[0], reduction=reduction).item()
    with pytest.raises(ShapeError, match="one label per row"):
        loss(x, mt.tensor([1, 2], device=device))
