"""Checks of the softmax assignment: the library or a formula gives the expected values."""

import numpy as np

from minitorch_attn.grader.build.checking import operation_check

SOFTMAX = "minitorch_attn.ops.softmax:Softmax"
LOG_SOFTMAX = "minitorch_attn.ops.softmax:LogSoftmax"
LOSS = "minitorch_attn.ops.cross_entropy:CrossEntropy"
# Rows so long that finite differences, one for each entry of a row, exceed the time limit.
LONG = (4, 30_000)


def along(name, operation, x, axis, grad=None, **options):
    return operation_check(name, operation, {"x": x}, {"axis": axis}, grad, **options)


def weights(x, axis):
    """Compute the softmax with NumPy."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def both_axes(operation, rng, backward, formula=None):
    made = []
    for axis in (-1, 1):
        x = 3 * rng.normal(size=(3, 5, 7))
        expected = {} if formula is None else {"output": formula(x, axis)}
        grad = rng.normal(size=x.shape) if backward else None
        made.append(along(f"axis {axis}", operation, x, axis, grad, expected=expected))
    return made


def softmax_forward(rng):
    return both_axes(SOFTMAX, rng, False, weights)


def softmax_forward_hard(rng):
    blocked = rng.normal(size=(4, 6))
    blocked[1, 2:] = -np.inf
    x = rng.normal(size=(4, 6))
    return [
        along("very large", SOFTMAX, 1e4 * rng.normal(size=(4, 6)), -1),
        along("minus infinity", SOFTMAX, blocked, -1),
        along("one entry", SOFTMAX, rng.normal(size=(4, 1)), -1),
        along("shifted", SOFTMAX, x + 500.0, 0, expected={"output": weights(x, 0)}, rtol=1e-12),
        along("float32", SOFTMAX, x.astype("float32"), -1, rtol=1e-6),
    ]


def softmax_backward(rng):
    x = rng.normal(size=LONG)
    large = along("large", SOFTMAX, x, -1, rng.normal(size=x.shape))
    return [*both_axes(SOFTMAX, rng, True), large]


def softmax_backward_large(rng):
    x, sharp = rng.normal(size=(2, 3, 20_000)), 1e3 * rng.normal(size=(5, 7))
    return [
        along("large", SOFTMAX, x, -1, rng.normal(size=x.shape)),
        along("weights of 0 and 1", SOFTMAX, sharp, -1, rng.normal(size=sharp.shape)),
    ]


def log_forward(rng):
    x = 3 * rng.normal(size=(4, 6))
    x[:, 0] += 2000.0
    return [*both_axes(LOG_SOFTMAX, rng, False), along("far apart", LOG_SOFTMAX, x, -1)]


def log_backward(rng):
    x = rng.normal(size=LONG)
    large = along("large", LOG_SOFTMAX, x, -1, rng.normal(size=x.shape))
    return [*both_axes(LOG_SOFTMAX, rng, True), large]


def log_backward_large(rng):
    x = rng.normal(size=(20_000, 2, 3))
    return [along("large", LOG_SOFTMAX, x, 0, rng.normal(size=x.shape))]


def loss(name, rng, backward, rows=6, classes=5, weighted=False, factor=3.0, **keywords):
    """Make a check of one cross-entropy call with the keyword arguments `keywords`."""
    keywords = {"ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean"} | keywords
    labels = rng.integers(0, classes, rows)
    if keywords["ignore_index"] != -100:
        labels[1] = keywords["ignore_index"]
    weight = rng.random(classes) + 0.5 if weighted else None
    arguments = {
        "logits": factor * rng.normal(size=(rows, classes)), "labels": labels, "weight": weight,
    }  # fmt: skip
    shape = (rows,) if keywords["reduction"] == "none" else ()
    grad = np.asarray(rng.normal(size=shape)) if backward else None
    return operation_check(name, LOSS, arguments, keywords, grad, needs=["logits"])


def plain(rng, backward):
    made = [loss(kind, rng, backward, reduction=kind) for kind in ("mean", "sum", "none")]
    return [*made, loss("large logits", rng, backward, factor=1e4)]


def with_options(rng, backward):
    return [
        loss("ignored", rng, backward, ignore_index=-1),
        loss("class weights", rng, backward, weighted=True),
        loss("smoothing", rng, backward, label_smoothing=0.1),
        loss("all", rng, backward, ignore_index=2, weighted=True, label_smoothing=0.2),
        loss("all, per row", rng, backward, ignore_index=2, weighted=True, label_smoothing=0.2,
             reduction="none"),
    ]  # fmt: skip


def large(rng, **keywords):
    return loss("large", rng, True, rows=6, classes=20_000, factor=1.0, **keywords)


def loss_forward(rng):
    return plain(rng, False)


def loss_forward_options(rng):
    return with_options(rng, False)


def loss_backward(rng):
    return [*plain(rng, True), large(rng)]


def loss_backward_options(rng):
    return [*with_options(rng, True), large(rng, weighted=True, label_smoothing=0.1)]


def loss_backward_large(rng):
    return [large(rng, reduction="sum")]
