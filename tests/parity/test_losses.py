"""Losses: class labels and probabilities, weights, reductions, broadcasting."""

import numpy as np
from parity.comparing import Op, checks, torch
from parity.drawing import Operand

import minitorch_attn as mt

F = "nn.functional."
REDUCTIONS = ("mean", "sum", "none", "none", "average")


def reduction(d):
    return d.some(reduction=d.choice(*REDUCTIONS) if d.rarely() else d.choice(*REDUCTIONS[:3]))


def between(low=-2.0, high=2.0, **options):
    """Input and target of one shape (now and then of two that broadcast)."""

    def draw(d):
        shape, dtype = d.shape(0, 3), d.dtype()
        other = shape
        if d.integer(0, 5) == 5:
            shape, other = d.broadcastable(2)
        settings = {name: d.choice(*values) for name, values in options.items() if d.flag()}
        input = d.tensor(shape, dtype=dtype, low=low, high=high)
        target = d.tensor(other, dtype=dtype, low=low, high=high)
        return input, target, reduction(d) | settings

    return draw


def weighted(low, high, pos_weight=False):
    def draw(d):
        shape, dtype = d.shape(0, 3), d.dtype()
        input = d.tensor(shape, dtype=dtype, low=low, high=high)
        target = d.tensor(shape, dtype=dtype, low=0.05, high=0.95)
        if d.rarely():
            target = d.tensor((*shape, 2), dtype=dtype, low=0.05, high=0.95)
        part = d.choice(shape, shape[-1:], ())
        weight = d.tensor(part, dtype=dtype, low=0.1, high=2, grad=False)
        settings = d.some(weight=weight)
        if pos_weight:
            settings |= d.some(pos_weight=d.tensor(part, dtype=dtype, low=0.1, high=2, grad=False))
        return input, target, reduction(d) | settings

    return draw


def divergence(d):
    shape, dtype, log = d.shape(0, 3), d.dtype(), d.flag()
    low, high = (-3, -0.1) if log else (0, 1)
    input = d.tensor(shape, dtype=dtype, low=-3, high=-0.1)
    # PyTorch's gradient for a target of 0 is NaN, ours is that of x log x - x * input without log.
    target = d.tensor(shape, dtype=dtype, low=low, high=high, ties=log)
    mode = d.choice("mean", "sum", "none", "batchmean")
    return input, target, d.some(reduction=mode) | ({"log_target": True} if log else {})


def labels(d, input):
    """Class labels for an input (batch, classes, ...) or (classes,), some of them ignored."""
    axis = 1 if input.ndim > 1 else 0
    shape = (*input.shape[:axis], *input.shape[axis + 1 :])
    if d.rarely():
        shape = (*shape, 1)
    target = d.indices(shape, input.shape[axis])
    ignored = d.choice(-100, 0, 1)
    if ignored == -100 and target.host.size and d.flag():
        host = target.host.copy()
        host[d.rng.random(shape) < 0.3] = -100
        target.host = host
    return target, {} if ignored == -100 else {"ignore_index": ignored}


def scores(d):
    shape = d.choice((3,), (2, 3), (4, 2), (2, 3, 2), (1, 4, 2, 3), (3, 1), (0, 3))
    return d.tensor(shape, dtype=d.dtype())


def class_weight(d, input):
    count = input.shape[1 if input.ndim > 1 else 0]
    return d.tensor((count,), dtype=input.dtype, low=0.1, high=2, grad=False)


def nll(d):
    input = scores(d)
    target, options = labels(d, input)
    return input, target, d.choice(None, class_weight(d, input)), options | reduction(d)


def cross_entropy(d):
    input, target, weight, options = nll(d)
    if d.integer(0, 2) == 2:
        target = d.tensor(input.shape, dtype=input.dtype, low=0, high=1)
        options.pop("ignore_index", None)
    elif target.ndim >= input.ndim:
        return input, target, weight, options  # where PyTorch's smoothing stumbles
    return input, target, weight, options | d.some(label_smoothing=d.choice(0.1, 1.0, 0.0))


def similar(ties):
    """Lengths of 0, or above eps: between, PyTorch's gradient is not that of its value."""

    def draw(d):
        a, b = d.pair(same=True, ties=ties, low=-2 if ties else 0.2)
        return a, b, d.axis(max(a.ndim, b.ndim)), d.some(eps=d.choice(1e-8, 1e-4))

    return draw


def ctc(d):
    """Padded or concatenated targets, lengths as tensors or tuples, with or without a batch.

    Gradients are compared behind a log_softmax: PyTorch returns another gradient for log_probs.
    """
    times, batch, classes = d.integer(1, 9), d.integer(1, 4), d.integer(2, 5)
    blank, longest = d.integer(0, classes - 1), d.integer(0, 5)
    batched = d.flag()
    batch = batch if batched else 1
    shape = (times, batch, classes) if batched else (times, classes)
    logits = d.tensor(shape, dtype=d.dtype(), low=-3, high=3)
    frames = d.rng.integers(0 if d.flag() else times, times + 1, batch)
    counts = d.rng.integers(0, longest + 1, batch)
    labels = d.rng.integers(0, classes - 1, (batch, longest))
    labels += labels >= blank
    if d.flag() or not batched:
        labels = np.concatenate([row[:n] for row, n in zip(labels, counts, strict=True)])
    if d.rarely():  # wrong: one label too many, or one frame
        labels = np.concatenate([labels, labels[:1]])
        frames = frames + d.integer(0, 1)
    targets = Operand(labels.astype(d.choice("int64", "int32")), "plain", False)
    if d.flag():
        shape = (batch,) if batched else d.choice((), (1,))
        kind = d.choice("int64", "int32")
        lengths = [Operand(n.reshape(shape).astype(kind), "plain", False) for n in (frames, counts)]
    else:
        lengths = [tuple(n.tolist()) for n in (frames, counts)]
    settings = {"blank": blank} if blank or d.flag() else {}
    settings |= d.some(zero_infinity=d.flag()) | d.some(reduction=d.choice(*REDUCTIONS[:3]))
    return logits, targets, *lengths, settings


def ctc_of_logits(library):
    def loss(logits, *rest, **settings):
        return library.nn.functional.ctc_loss(logits.log_softmax(-1), *rest, **settings)

    return loss


class OfLogits(Op):
    def functions(self, as_method):
        return ctc_of_logits(mt), ctc_of_logits(torch)


test_between_numbers = checks(
    *[Op(F + name, between(**options)) for name, options in (
        ("mse_loss", {}), ("l1_loss", {}), ("huber_loss", {"delta": (0.5, 2.0)}),
        ("smooth_l1_loss", {"beta": (0.5, 2.0, 0.0)}))],
    Op(F + "binary_cross_entropy", weighted(0.05, 0.95)),
    Op(F + "binary_cross_entropy_with_logits", weighted(-3, 3, pos_weight=True)),
    Op(F + "kl_div", divergence),
    Op(F + "cosine_similarity", similar(ties=False)),
    Op(F + "cosine_similarity", similar(ties=True), second=False, label=" with zeros"),
)  # fmt: skip
test_of_classes = checks(Op(F + "nll_loss", nll), Op(F + "cross_entropy", cross_entropy))
test_ctc = checks(OfLogits(F + "ctc_loss", ctc, second=False))
