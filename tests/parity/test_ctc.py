"""CTC against PyTorch, batch by batch: impossible, exact, empty and repeated targets in one batch.

`--draws 5000` draws 5,000 batches.
"""

from collections import Counter

import numpy as np
import pytest

import minitorch_attn as mt

torch = pytest.importorskip("torch")

KINDS = ("usual", "exact", "impossible", "repeats", "empty", "no frames", "neither")
TOLERANCES = {"float64": 1e-10, "float32": 2e-4}


def draw_row(kind, rng, frames, classes):
    """Number of frames and labels 1, 2, ... of one sequence; 0 is replaced by the blank later."""
    if kind == "neither":
        return 0, []
    if kind == "no frames":
        return 0, list(rng.integers(1, classes, rng.integers(1, 4)))
    if kind == "empty":
        return frames, []
    used = int(rng.integers(1, frames + 1))
    labels = [int(rng.integers(1, classes))]
    while needed(labels) < used:
        same = kind == "repeats" or rng.random() < 0.3
        labels.append(labels[-1] if same else int(rng.integers(1, classes)))
    while needed(labels) > used:
        labels.pop()
    if kind == "impossible":
        labels += list(rng.integers(1, classes, rng.integers(1, 3)))
    elif kind == "usual":
        labels = labels[: max(1, len(labels) // 2)]
    return used, labels


def needed(labels):
    """Frames of the shortest alignment: one for each label, and a blank between equal ones."""
    return len(labels) + sum(a == b for a, b in zip(labels, labels[1:], strict=False))


def draw_batch(rng):
    frames, batch, classes = (int(n) for n in rng.integers((1, 1, 2), (13, 6, 6)))
    kinds = rng.choice(KINDS, batch)
    rows = [draw_row(kind, rng, frames, classes) for kind in kinds]
    blank = int(rng.integers(classes))
    labels = [[int(n) - (n <= blank) for n in row] for _, row in rows]  # not the blank
    longest = max(map(len, labels))
    padded = np.array([row + [0] * (longest - len(row)) for row in labels], np.int64)
    logits = rng.normal(size=(frames, batch, classes)) * rng.choice([0.3, 3.0, 30.0])
    lengths = np.array([n for n, _ in rows]), np.array([len(row) for row in labels])
    return kinds, logits, padded.reshape(batch, longest), lengths, blank


def run(library, logits, targets, lengths, cotangent, settings):
    x = library.tensor(logits).requires_grad_()
    loss = library.nn.functional.ctc_loss(
        x.log_softmax(-1), library.tensor(targets), *map(library.tensor, lengths), **settings
    )
    (loss * library.tensor(cotangent[: loss.numel()].reshape(tuple(loss.shape)))).sum().backward()
    return loss.detach().numpy(), x.grad.numpy()


def test_drawn_batches(draws):
    rng, seen, infinite = np.random.default_rng(5), Counter(), Counter()
    count = max(draws, 150)
    for number in range(count):
        kinds, logits, targets, lengths, blank = draw_batch(rng)
        dtype = "float32" if number % 4 == 3 else "float64"
        settings = dict(
            blank=blank, reduction=["none", "sum", "mean"][number % 3],
            zero_infinity=bool(rng.random() < 0.5),
        )  # fmt: skip
        cotangent = rng.normal(size=len(kinds)).astype(dtype)
        got, expected = (
            run(library, logits.astype(dtype), targets, lengths, cotangent, settings)
            for library in (mt, torch)
        )
        for name, a, b in zip(("loss", "gradient"), got, expected, strict=True):
            assert a.dtype == b.dtype == dtype and a.shape == b.shape
            scale = TOLERANCES[dtype] * max(1, np.abs(b[np.isfinite(b)]).max(initial=0))
            message = f"{name} of batch {number}: {kinds}, {settings}"
            np.testing.assert_allclose(a, b, rtol=0, atol=scale, err_msg=message)
        seen.update(kinds)
        infinite.update([bool(np.isinf(got[0]).any())])
    assert min(seen[kind] for kind in KINDS) > count / 5
    assert infinite[True] > count / 8
