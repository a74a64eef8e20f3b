"""Checks of the CTC assignment: the library computes the expected values."""

import numpy as np

from minitorch_attn.grader.build.checking import check, operation_check

CTC = "minitorch_attn.ops.ctc_loss:CtcLoss"


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def states_of(inputs, settings):
    """Compute the states, and True where a state can be entered from two states before."""
    import numpy as np

    from minitorch_attn.ops.ctc_loss import _lattice

    states, skip = _lattice(np, inputs["labels"], settings["blank"])
    return {"states": np.asarray(states), "skip": np.asarray(skip)}


def states_check(name, labels, blank=0):
    return check(name, states_of, {"labels": np.array(labels, np.int64)}, {"blank": blank})


def lattice(rng):
    return [
        states_check("different labels", [[1, 3, 2, 4], [2, 1, 4, 3]]),
        states_check("one label", [[2], [1], [3]]),
    ]


def lattice_repeats(rng):
    return [
        states_check("equal neighbors", [[1, 1, 2, 2, 2], [3, 1, 1, 3, 1]]),
        states_check("another label between equal ones", [[1, 2, 1, 2], [3, 1, 3, 3]]),
    ]


def lattice_hard(rng):
    return [
        states_check("another blank", [[1, 0, 0, 2], [0, 2, 1, 1]], blank=4),
        states_check("no labels", np.zeros((3, 0))),
        states_check("no sequences", np.zeros((0, 2))),
        states_check("long targets", rng.integers(1, 4, (5, 80))),
    ]


def passes(inputs, settings):
    """Compute the forward or the backward variables, and a mask of those greater than log 0."""
    import numpy as np

    from minitorch_attn.ops.ctc_loss import _backward_variables, _forward_variables

    emit, skip = inputs["emit"].copy(), inputs["skip"].copy()
    if settings["forward"]:
        found = np.asarray(_forward_variables(np, emit, skip))
        possible = found > -np.inf
        return {"a > 0": possible, "log a": np.where(possible, found, 0.0)}
    found, order = np.zeros_like(emit), []
    lengths = inputs["input_lengths"], inputs["target_lengths"]
    inside = np.arange(len(emit))[:, None] < lengths[0]
    for t, beta in _backward_variables(np, emit, skip, inside, lengths[1]):
        found[t] = np.where(inside[t][:, None], beta, 0.0)
        emit[t] = np.nan  # _backward_variables must not read emit[t] again
        order.append(t)
    possible = found > -np.inf
    log_b = np.where(possible, found, 0.0)
    return {"b > 0": possible, "log b": log_b, "order of the frames": np.array(order)}


def passed(name, rng, forward, labels, frames, lengths=None, scale=1.0, dtype="float64", rtol=1e-7,
           **options):  # fmt: skip
    """Create a check of the forward or the backward variables for random log-probabilities."""
    labels = np.array(labels, np.int64)
    batch, count = labels.shape
    skip = np.full((batch, 2 * count + 1), -np.inf)
    skip[:, 3::2] = np.where(labels[:, 1:] != labels[:, :-1], 0.0, -np.inf)
    log_probs = log_softmax(scale * rng.normal(size=(frames, batch, 5)))
    states = np.zeros((batch, 2 * count + 1), np.int64)
    states[:, 1::2] = labels
    emit = log_probs[:, np.arange(batch)[:, None], states]
    inputs = {"emit": emit.astype(dtype), "skip": skip.astype(dtype)}
    inputs["input_lengths"], inputs["target_lengths"] = (
        np.array(x) for x in lengths or ([frames] * batch, [count] * batch)
    )
    return check(name, passes, inputs, {"forward": forward}, rtol=rtol, **options)


LABELS = [[1, 2, 3], [2, 2, 4]]


def forward_variables(rng):
    return [
        passed("different and equal neighbors", rng, True, LABELS, 7),
        passed("one label", rng, True, [[3]], 4),
    ]


def forward_variables_hard(rng):
    return [
        passed("one frame", rng, True, LABELS, 1),
        passed("fewer frames than labels", rng, True, LABELS, 2),
        passed("no labels", rng, True, np.zeros((2, 0)), 3),
        passed("small probabilities", rng, True, LABELS, 40, scale=300.0),
        passed("float32", rng, True, LABELS, 7, dtype="float32", rtol=1e-5),
    ]


def forward_variables_large(rng):
    labels = rng.integers(1, 5, (40, 60))
    return [passed("many frames and labels", rng, True, labels, 600, limit_s=2.0)]


def backward_variables(rng):
    return [
        passed("different and equal neighbors", rng, False, LABELS, 7),
        passed("one label", rng, False, [[3]], 4),
    ]


def backward_variables_lengths(rng):
    return [
        passed("frames after the end", rng, False, LABELS, 9, ([9, 6], [3, 3])),
        passed("labels after the end", rng, False, LABELS, 7, ([7, 7], [1, 2])),
        passed("both", rng, False, LABELS, 8, ([5, 8], [2, 3])),
    ]


def backward_variables_hard(rng):
    return [
        passed("one frame", rng, False, LABELS, 1),
        passed("no labels", rng, False, np.zeros((2, 0)), 3),
        passed("an empty target next to another", rng, False, LABELS, 5, ([5, 5], [0, 3])),
        passed("small probabilities", rng, False, LABELS, 40, scale=300.0),
        passed("float32", rng, False, LABELS, 7, dtype="float32", rtol=1e-5),
        passed("many frames and labels", rng, False, rng.integers(1, 5, (40, 60)), 600, limit_s=2),
    ]


def losses(name, rng, labels, frames, lengths=None, backward=False, blank=0, zero=False, scale=1.0,
           dtype="float64", limit_s=2.0, **options):  # fmt: skip
    """Create a check of the operation for random logits of six classes."""
    labels = np.array(labels, np.int64)
    batch, count = labels.shape
    log_probs = log_softmax(scale * rng.normal(size=(frames, batch, 6))).astype(dtype)
    lengths = lengths or ([frames] * batch, [count] * batch)
    arguments = {"log_probs": log_probs, "labels": labels}
    arguments |= dict(zip(("inputs", "targets"), map(np.array, lengths), strict=True))
    keywords = {"blank": blank, "zero_infinity": zero}
    grad = rng.uniform(0.5, 2, batch).astype(dtype) if backward else None
    return operation_check(name, CTC, arguments, keywords, grad, ["log_probs"],
                           limit_s=limit_s, **options)  # fmt: skip


def loss(rng, backward=False):
    return [
        losses("one sequence", rng, [[1, 2, 3]], 5, backward=backward),
        losses("a batch, with equal neighbors", rng, LABELS, 6, backward=backward),
        losses("another blank", rng, [[0, 1, 1], [3, 0, 4]], 6, backward=backward, blank=2),
    ]


def loss_lengths(rng, backward=False):
    return [
        losses("frames after the end", rng, LABELS, 9, ([9, 6], [3, 3]), backward),
        losses("labels after the end", rng, LABELS, 7, ([7, 7], [1, 2]), backward),
        losses("an empty target", rng, LABELS, 5, ([4, 5], [0, 3]), backward),
        losses("exactly one alignment", rng, LABELS, 4, ([3, 4], [3, 3]), backward),
    ]


def loss_hard(rng):
    short = ([2, 3], [3, 3])  # equal neighbors need one more frame
    return [
        losses("no alignment", rng, LABELS, 6, short),
        losses("no alignment, zero_infinity", rng, LABELS, 6, short, zero=True),
        losses("no frames", rng, LABELS, 3, ([0, 0], [0, 2])),
        losses("no frames, zero_infinity", rng, LABELS, 3, ([0, 0], [0, 2]), zero=True),
        losses("small probabilities", rng, LABELS, 60, scale=200.0),
        losses("float32", rng, LABELS, 8, dtype="float32", rtol=1e-5),
        losses("many frames and labels", rng, rng.integers(1, 6, (8, 20)), 100),
    ]


def gradient(rng):
    return loss(rng, backward=True)


def gradient_lengths(rng):
    return loss_lengths(rng, backward=True)


def gradient_hard(rng):
    short = ([2, 7], [3, 3])
    return [
        losses("no alignment", rng, LABELS, 7, short, True),
        losses("no alignment, zero_infinity", rng, LABELS, 7, short, True, zero=True),
        losses("no frames", rng, LABELS, 3, ([0, 3], [2, 1]), True),
        losses("small probabilities", rng, LABELS, 60, backward=True, scale=200.0, rtol=1e-9),
        losses("float32", rng, LABELS, 8, backward=True, dtype="float32", rtol=1e-4),
        losses("many frames and labels", rng, rng.integers(1, 6, (8, 20)), 100, backward=True,
               rtol=1e-9),
    ]  # fmt: skip


def decoded(inputs, settings):
    """Decode the frames of one sequence along the best path."""
    import numpy as np

    from minitorch_attn.generation.ctc_decoding import _best_path

    labels, score = _best_path(inputs["rows"].copy(), settings["blank"])
    return {"labels": np.array(labels, np.int64), "score": np.array(float(score))}


def path_check(name, rng, path, classes=4, blank=0, rows=None):
    """Create a check of `_best_path` with the given best class of each frame."""
    rows = log_softmax(rng.normal(size=(len(path), classes))) if rows is None else rows
    for row, best in zip(rows, path, strict=True):
        top = row.argmax()
        row[best], row[top] = row[top], row[best]
    return check(name, decoded, {"rows": rows}, {"blank": blank})


def best_path(rng):
    return [
        path_check("blanks and repeats", rng, [0, 1, 1, 0, 2, 2, 2, 3]),
        path_check("equal labels with a blank in between", rng, [1, 0, 1, 1, 0, 0, 1, 2]),
        path_check("no blanks", rng, [3, 1, 2, 1]),
    ]


def best_path_hard(rng):
    return [
        path_check("another blank", rng, [0, 0, 3, 0, 3, 3, 1], blank=3),
        path_check("only blanks", rng, [0, 0, 0]),
        path_check("one frame", rng, [2]),
        path_check("no frames", rng, []),
        path_check(
            "equal probabilities", rng, [0] * 5, blank=1, rows=np.full((5, 3), -np.log(3.0))
        ),
    ]


def stepped(inputs, settings):
    """Run `_step` on one frame with the given prefixes."""
    import numpy as np

    from minitorch_attn.generation.ctc_decoding import _step

    prefixes = [tuple(prefix) for prefix in settings["prefixes"]]
    blank, label = inputs["ends_blank"].copy(), inputs["ends_label"].copy()
    found = _step(prefixes, blank, label, inputs["row"].copy(), settings["blank"])
    names = ("ends in a blank", "ends in a label", "with one more label")
    found = dict(zip(names, map(np.asarray, found), strict=True))
    possible = {f"{name}: p > 0": x > -np.inf for name, x in found.items()}
    return possible | {name: np.where(x > -np.inf, x, 0.0) for name, x in found.items()}


def step_check(name, rng, prefixes, blank=0, never=()):
    """Create a check of `_step`. No alignment of the prefixes in `never` ends in a blank."""
    ends_blank, ends_label = (np.log(rng.uniform(0.01, 0.1, len(prefixes))) for _ in range(2))
    ends_blank[list(never)] = -np.inf
    ends_label[[i for i, prefix in enumerate(prefixes) if not prefix]] = -np.inf
    row = log_softmax(rng.normal(size=5))
    inputs = {"ends_blank": ends_blank, "ends_label": ends_label, "row": row}
    settings = {"prefixes": [list(prefix) for prefix in prefixes], "blank": blank}
    return check(name, stepped, inputs, settings)


def step(rng):
    return [
        step_check("the first frame", rng, [()]),
        step_check("prefixes without their parents", rng, [(1, 2), (3,), (4, 4, 1)]),
    ]


def step_merged(rng):
    return [
        step_check("a prefix and its parent", rng, [(1,), (1, 2), (3,)]),
        step_check("a parent after its prefix", rng, [(1, 2, 3), (4,), (1, 2)]),
        step_check("a repeated label and its parent", rng, [(2,), (2, 2), (2, 2, 2)]),
        step_check("the empty prefix", rng, [(3,), (), (1,)]),
    ]


def searched(inputs, settings):
    """Decode a batch with the library's prefix beam search and the student's `_step`."""
    import numpy as np

    import minitorch_attn as mt

    log_probs = mt.tensor(inputs["log_probs"])
    found = mt.ctc_decode(log_probs, blank=settings["blank"], beam_width=settings["width"])
    result = {"scores": np.array([score for _, score in found])}
    return result | {f"labels {i}": ids.numpy() for i, (ids, _) in enumerate(found)}


def search(name, rng, shape, width, blank=0, scale=2.0):
    log_probs = log_softmax(scale * rng.normal(size=shape))
    return check(name, searched, {"log_probs": log_probs}, {"width": width, "blank": blank})


def step_hard(rng):
    return [
        step_check("another blank", rng, [(0,), (0, 1), (0, 0)], blank=3),
        step_check("no alignment ends in a blank", rng, [(1,), (1, 1), (2,)], never=(0, 1)),
        search("all prefixes of short sequences", rng, (4, 3, 3), 200),
        search("eight of many prefixes", rng, (12, 3, 5), 8),
        search("another blank", rng, (9, 2, 4), 5, blank=2),
    ]
