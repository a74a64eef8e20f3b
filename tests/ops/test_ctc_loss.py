"""CTC loss: against a sum over all alignments, gradients, lengths, impossible targets, errors."""

import itertools

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradgradcheck
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from minitorch_attn.gradcheck import gradcheck

ctc_loss = mt.nn.functional.ctc_loss


def collapse(path, blank):
    """The label sequence of an alignment: merge repeats, then drop blanks."""
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def every_alignment(log_probs, target, blank=0):
    """-log p of a target, and the posteriors (time, class): Eqs. 2 and 3, path by path."""
    times, classes = log_probs.shape
    total, by_label = 0.0, np.zeros((times, classes))
    for path in itertools.product(range(classes), repeat=times):
        if collapse(path, blank) == tuple(target):
            p = np.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
            total += p
            by_label[np.arange(times), list(path)] += p
    return (-np.log(total), by_label / total) if total else (np.inf, by_label * np.nan)


def drawn(*shape, seed=0):
    """Log-probabilities whose rows sum to 1."""
    x = np.random.default_rng(seed).normal(0, 1.5, shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def leaf(values, device, dtype="float64"):
    return mt.tensor(values, dtype=dtype, device=device, requires_grad=True)


# Frames, classes, blank and target: repeats (which need a blank between them), all frames used,
# one frame, an empty target, no alignment.
SMALL = [
    (5, 3, 0, [1, 2]), (5, 3, 0, [1, 1]), (5, 3, 2, [0, 0, 1]), (3, 3, 1, [0, 2, 0]),
    (3, 2, 0, [1, 1]), (1, 3, 0, [2]), (1, 3, 0, []), (4, 2, 1, []), (6, 3, 1, [0, 2, 2, 0]),
    (2, 3, 0, [1, 1]), (1, 3, 0, [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("times", "classes", "blank", "target"), SMALL)
def test_the_loss_is_the_sum_over_all_alignments(device, times, classes, blank, target):
    host = drawn(times, classes)
    loss, posterior = every_alignment(host, target, blank)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 2e-6)):
        x = leaf(host, device, dtype)
        labels = mt.tensor(target, dtype="int64", device=device)
        got = ctc_loss(x, labels, (times,), (len(target),), blank, "none")
        assert got.shape == () and got.dtype == dtype
        np.testing.assert_allclose(got.detach().numpy(), loss, rtol=tolerance)
        got.backward()
        assert x.grad.dtype == dtype
        np.testing.assert_allclose(x.grad.numpy(), -posterior, rtol=tolerance, atol=tolerance)


def test_a_batch_is_its_sequences_one_by_one(device):
    host = drawn(5, 4, 3)
    lengths, targets = [5, 3, 4, 0], [[1, 2, 1], [2], [1, 1], []]
    each = [every_alignment(host[:n, b], targets[b]) for b, n in enumerate(lengths)]
    losses, posteriors = zip(*each, strict=True)
    weight = np.random.default_rng(1).normal(size=4)
    expected = np.zeros(host.shape)
    for b, (n, p) in enumerate(zip(lengths, posteriors, strict=True)):
        expected[:n, b] = -weight[b] * p
    padded = [t + [7] * (3 - len(t)) for t in targets]  # padding is not read, whatever it is
    for labels in (padded, sum(targets, [])):
        x = leaf(host, device)
        loss = ctc_loss(x, mt.tensor(labels, device=device), lengths, [3, 1, 2, 0],
                        reduction="none")  # fmt: skip
        np.testing.assert_allclose(loss.detach().numpy(), losses, rtol=1e-12, atol=1e-14)
        loss.backward(mt.tensor(weight, device=device))
        np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-13)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_gradients(device, reduction, zero_infinity):
    lengths, counts = (7, 5, 3, 1, 7), (3, 2, 0, 1, 4)
    labels = mt.tensor(np.random.default_rng(2).integers(1, 5, (5, 4)), device=device)
    if zero_infinity:
        counts = (3, 2, 0, 2, 4)  # two labels do not fit into one frame

    def loss(log_probs):
        return ctc_loss(log_probs, labels, lengths, counts, 0, reduction, zero_infinity)

    # 1e-3 away from a sum of 1: the gradient is the derivative for any log_probs.
    x = leaf(drawn(7, 5, 5) - 1e-3, device)
    assert gradcheck(loss, (x,))
    assert gradgradcheck(loss, (x,))


def test_only_empty_targets(device):
    x = leaf(drawn(3, 2, 3), device)
    for labels in (mt.zeros(2, 0, device=device).long(), mt.zeros(0, device=device).long()):
        loss = ctc_loss(x, labels, (3, 2), (0, 0))
        np.testing.assert_allclose(
            loss.item(), -(x[:, 0, 0].sum() + x[:2, 1, 0].sum()).item() / 2, rtol=1e-14
        )
        assert gradgradcheck(lambda x, t=labels: ctc_loss(x, t, (3, 2), (0, 0)), (x,))


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_the_gradient_is_the_same_with_create_graph(device, zero_infinity):
    labels = mt.tensor([[1, 1, 2], [2, 1, 2], [1, 0, 0]], device=device)
    host = drawn(4, 3, 3)
    host[2, 1, 2] = -np.inf
    for lengths in ((4, 4, 2), (3, 4, 0)):
        x = leaf(host, device)
        loss = ctc_loss(x, labels, lengths, (3, 3, 1), 0, "none", zero_infinity)
        cotangent = mt.tensor([0.5, -2.0, 3.0], dtype="float64", device=device)
        (plain,) = mt.autograd.grad(loss, x, cotangent, retain_graph=True)
        (linked,) = mt.autograd.grad(loss, x, cotangent, create_graph=True)
        np.testing.assert_allclose(linked.detach().numpy(), plain.numpy(), atol=1e-13)


def test_an_impossible_target(device):
    """Its loss is inf and its gradient NaN at its frames only, or both are 0."""
    labels = mt.tensor([[1, 1], [1, 2]], device=device)
    for zero_infinity, value in ((False, np.inf), (True, 0.0)):
        x = leaf(drawn(4, 2, 3), device)
        loss = ctc_loss(x, labels, (2, 4), (2, 2), 0, "none", zero_infinity)
        loss.sum().backward()
        assert loss[0].item() == value and np.isfinite(loss[1].item())
        grad = x.grad.numpy()
        np.testing.assert_array_equal(grad[:2, 0], 0.0 if zero_infinity else np.nan)
        np.testing.assert_array_equal(grad[2:, 0], 0.0)
        assert np.isfinite(grad[:, 1]).all() and (grad[:, 1] != 0).any()


def test_labels_of_probability_zero_do_not_spread_nan(device):
    p = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25]])
    x = leaf(np.log(p, where=p > 0, out=np.full_like(p, -np.inf)), device)
    loss = ctc_loss(x, mt.tensor([1], device=device), (3,), (1,))
    loss.backward()
    np.testing.assert_allclose(loss.item(), -np.log(0.75), rtol=1e-14)
    expected = -np.array([[0.5, 0.5, 0], [0, 1, 0], [2 / 3, 1 / 3, 0]])
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-15)


def test_frames_without_blank_and_label(device):
    """Three states in a row have probability 0, so the next sum is over log 0 only."""
    p = np.array([[0.3, 0.4, 0.3], [0.0, 0.0, 1.0], [0.5, 0.25, 0.25]])
    x = leaf(np.log(p, where=p > 0, out=np.full_like(p, -np.inf)), device)
    loss = ctc_loss(x, mt.tensor([1, 2], device=device), (3,), (2,), reduction="sum")
    np.testing.assert_allclose(loss.item(), -np.log(0.4 * 0.75), rtol=1e-14)
    expected = -np.array([[0, 1, 0], [0, 0, 1], [2 / 3, 0, 1 / 3]])
    for create_graph in (False, True):
        (grad,) = mt.autograd.grad(loss, x, create_graph=create_graph, retain_graph=True)
        np.testing.assert_allclose(grad.detach().numpy(), expected, atol=1e-15)
    (second,) = mt.autograd.grad(grad.square().sum(), x)
    assert np.isfinite(second.numpy()).all() and second.abs().sum().item() > 0.1


def test_long_sequences_do_not_underflow(device):
    """4^-997 is not a float64: the sum is over logarithms. All alignments are equally likely."""
    times = 997
    x = leaf(np.full((times, 1, 4), -np.log(4.0)), device)
    loss = ctc_loss(x, mt.tensor([[2]], device=device), (times,), (1,), reduction="sum")
    loss.backward()
    count = times * (times + 1) / 2  # first and last frame of the label
    np.testing.assert_allclose(loss.item(), times * np.log(4.0) - np.log(count), rtol=1e-13)
    np.testing.assert_allclose(x.grad.numpy().sum(-1), -1.0, rtol=1e-10)


def test_frames_of_padding_get_no_gradient_even_if_they_are_extreme(device):
    """The target is improbable in its two frames and certain after them: exp(200) is inf."""
    host = np.full((5, 1, 3), [-100.0, 0.0, -200.0], "float32")
    host[2:] = [-200.0, -200.0, 0.0]
    x = leaf(host, device, "float32")
    ctc_loss(x, mt.tensor([[2]], device=device), (2,), (1,)).backward()
    grad = x.grad.numpy()
    assert np.isfinite(grad).all() and (grad[2:] == 0).all() and (grad[:2] != 0).any()


def test_reductions_and_module(device):
    x, labels = leaf(drawn(7, 3, 5), device), mt.tensor([[1, 2], [3, 0], [0, 0]], device=device)
    lengths, counts = mt.tensor([7, 5, 6]), mt.tensor([[2], [1], [0]])
    each = mt.nn.CTCLoss(reduction="none")(x, labels, lengths, counts)
    np.testing.assert_allclose(
        mt.nn.CTCLoss(0, "sum")(x, labels, lengths, counts).item(), each.sum().item(), rtol=1e-14
    )
    mean = (each / mt.tensor([2.0, 1.0, 1.0], dtype="float64", device=device)).mean().item()
    np.testing.assert_allclose(mt.nn.CTCLoss()(x, labels, lengths, counts).item(), mean, rtol=1e-14)
    last = mt.nn.CTCLoss(blank=4, zero_infinity=True)
    assert (last.blank, last.reduction, last.zero_infinity) == (4, "mean", True)
    one = ctc_loss(x.roll(-1, 2), (labels - 1), lengths, counts, blank=4)
    np.testing.assert_allclose(one.item(), mean, rtol=1e-14)


def test_strided_inputs_give_the_same(device):
    host = drawn(5, 3, 4)
    labels = np.array([[1, 2, 3], [3, 3, 1], [2, 1, 2]])
    plain = ctc_loss(leaf(host, device), mt.tensor(labels, device=device), (5, 5, 5), (3, 3, 3))
    x = leaf(np.ascontiguousarray(host.transpose(1, 0, 2)), device)
    turned = mt.tensor(np.ascontiguousarray(labels.T), device=device).T
    loss = ctc_loss(x.transpose(0, 1), turned, (5, 5, 5), (3, 3, 3))
    assert loss.item() == plain.item()
    loss.backward()
    assert x.grad.shape == (3, 5, 4)


def test_the_host_does_not_wait(device):
    x, labels = leaf(drawn(6, 2, 4), device), mt.tensor([[1, 2], [3, 1]], device=device)
    lengths, counts = mt.tensor([6, 4], device=device), mt.tensor([2, 1], device=device)
    with forbid_sync():
        ctc_loss(x, labels, lengths, counts).backward()
        ctc_loss(x, labels.reshape(-1), (6, 4), (2, 2)).backward()


X, T = mt.zeros(5, 2, 4), mt.tensor([[1, 2, 3], [1, 1, 0]])


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (DTypeError, "float32 or float64", (X.half(), T, (5, 5), (3, 2))),
        (DTypeError, "float32 or float64", (X.long(), T, (5, 5), (3, 2))),
        (DTypeError, "log_probs is not a tensor", ([1.0], T, (5, 5), (3, 2))),
        (DTypeError, "targets", (X, [[1, 2]], (5, 5), (3, 2))),
        (ShapeError, "2 or 3 axes", (X[0, 0], T, (5, 5), (3, 2))),
        (ShapeError, "must not be empty", (X[:0], T, (0, 0), (3, 2))),
        (ShapeError, "must not be empty", (X[:, :0], T[:0], (), ())),
        (ShapeError, "one row per sequence", (X, T[:1], (5, 5), (3, 2))),
        (ShapeError, "one row per sequence", (X, T.unsqueeze(0), (5, 5), (3, 2))),
        (ShapeError, "add up", (X, T.reshape(-1), (5, 5), (3, 2))),
        (ShapeError, "one length per sequence", (X, T, (5,), (3, 2))),
        (ShapeError, "one length per sequence", (X, T, (5, 5), (3, 2, 1))),
        (ArgumentError, "input_lengths must be between 0 and 5", (X, T, (5, 6), (3, 2))),
        (ArgumentError, "target_lengths must be between 0 and 3", (X, T, (5, 5), (-1, 2))),
        (DTypeError, "must be integers", (X, T, (5.0, 5.0), (3, 2))),
        (DTypeError, "both be tensors or both", (X, T, mt.tensor([5, 5]), (3, 2))),
        (DTypeError, "tensor or a tuple", (X[:, 0], T[0], 5, 3)),
        (ArgumentError, "blank must be a class", (X, T, (5, 5), (3, 2), 4)),
        (ArgumentError, "blank must be a class", (X, T, (5, 5), (3, 2), -1)),
        (ArgumentError, "reduction", (X, T, (5, 5), (3, 2), 0, "average")),
    ],
)
def test_errors(error, match, arguments):
    with pytest.raises(error, match=match):
        ctc_loss(*arguments)


def test_a_label_out_of_range(device):
    labels = mt.tensor([[1, 4], [1, 0]], device=device)
    with pytest.raises(IndexRangeError, match="targets holds an index out of range"):
        ctc_loss(X.to(device), labels, (5, 5), (2, 1)).item()
