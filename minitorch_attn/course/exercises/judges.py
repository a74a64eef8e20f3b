"""Judges: a correct implementation for each exercise, and inputs that reveal mistakes.

The correct implementation uses the library's own operations. Each check samples new inputs. All
axes have different sizes, batch sizes are larger than 1, and gains resemble those of a trained
model. The big case is so large that finite differences of the forward pass take too long.
"""

from dataclasses import dataclass

import numpy as np

from ... import ops
from ...models.mvitv2 import relative_distances
from ...nn import functional as F
from ...ops.windows import window_partition
from .properties import (
    ADDITIVE_PROPERTIES,
    BASELINE_PROPERTIES,
    CAUSAL_PROPERTIES,
    CENTERING_PROPERTIES,
    CROSS_PROPERTIES,
    CTC_PROPERTIES,
    HEAD_PROPERTIES,
    MASK_PROPERTIES,
    MEL_PROPERTIES,
    PACKED_PROPERTIES,
    POOLED_CLASS_PROPERTIES,
    RELATIVE_PROPERTIES,
    SCALE_PROPERTIES,
    TEACHER_PROPERTIES,
)

__all__ = ["JUDGES", "Judge"]


@dataclass(frozen=True)
class Judge:
    """Inputs and reference implementation for checking an exercise.

    Parameters
    ----------
    entry : str
        Name of the function in the learner's file.
    draw : callable
        `draw(rng, big)` returns the inputs as a list of arrays. Gradients are checked for float64
        inputs.
    truth : callable
        Correct implementation of the function, for Tensors.
    properties : tuple of Property
        Additional properties to check.
    """

    entry: str
    draw: object
    truth: object
    properties: tuple = ()


def _normal(*shapes):
    """Return a `draw` function for Gaussian inputs from (small shape, large shape) pairs."""

    def draw(rng, big):
        return [rng.normal(size=pair[big]) for pair in shapes]

    return draw


def _heads(queries, keys):
    """Return a `draw` function for the queries, keys and values of several heads."""
    small = [(2, 3, n, 6) for n in (queries, keys, keys)]  # sqrt(6) reveals a wrong scale
    return _normal(*[(shape, (2, 12, 64, 64)) for shape in small])


def _norm(rng, big):
    batch, tokens, width = (8, 256, 64) if big else (2, 5, 4)
    gain = rng.uniform(0.5, 1.5, width)
    return [rng.normal(size=(batch, tokens, width)), gain, rng.normal(size=width)]


def _padding(rng, big):
    batch, queries, keys = (16, 128, 96) if big else (2, 3, 5)
    lengths = rng.integers(1, keys, batch)
    lengths[0] = keys - 2
    mask = np.arange(keys) < lengths[:, None]
    return [rng.normal(size=(batch, queries, keys)), mask[:, None]]


def _causal(rng, big):
    batch, tokens = (16, 128) if big else (2, 5)
    return [rng.normal(size=(batch, tokens, tokens)), np.tri(tokens, dtype=bool)]


def _table(rng, big):
    tokens, heads = (96, 12) if big else (5, 3)
    place = np.arange(tokens)
    return [rng.normal(size=(2 * tokens - 1, heads)), place - place[:, None] + tokens - 1]


def _biased(rng, big):
    table, index = _table(rng, big)
    tokens, heads = len(index), table.shape[1]
    return [rng.normal(size=(2, heads, tokens, tokens)), table, index]


def _embedding(rng, big):
    words, width, shape = (5000, 64, (16, 128)) if big else (7, 4, (2, 5))
    ids = rng.integers(0, words // 2, shape)
    ids[0, :2] = ids[1, 0] = words - 1  # one id occurs three times
    return [rng.normal(size=(words, width)), ids]


def _labels(rng, big):
    rows, classes = (512, 300) if big else (5, 7)
    return [rng.normal(size=(rows, classes)), rng.integers(0, classes, rows)]


def _packed(rng, big):
    lengths = np.array([48, 47, 31, 17, 5, 5, 1] if big else [5, 3, 1])
    width, hidden = (32, 48) if big else (4, 2)
    x = rng.normal(size=(len(lengths), lengths[0], width))
    w, u = rng.normal(size=(width, hidden)), rng.normal(size=(hidden, hidden))
    return [x, w / width**0.5, u / hidden**0.5, lengths]


def _frames(rng, big):
    frames, batch, classes, size = (60, 8, 20, 17) if big else (8, 3, 4, 3)
    labels = rng.integers(1, classes, (batch, size))
    labels[0, :2] = 1, 2  # different neighbors, then equal ones
    labels[1, :2] = 2
    return [rng.normal(size=(frames, batch, classes)), labels]


def _choices(rng, big):
    batch, places = (256, 300) if big else (3, 5)
    reward = rng.integers(1, 5, batch)
    return [rng.normal(size=(batch, places)), rng.integers(0, places, batch), reward]


def _guesses(rng, big):
    z, choice, reward = _choices(rng, big)
    return [z, rng.normal(size=len(z)).astype("float32"), choice, reward]


def _views(rng, big):
    size = (256, 64) if big else (3, 5)
    student = rng.normal(size=size) / 10
    shapes = size, size[1]
    return [student, *(rng.normal(size=shape).astype("float32") / 10 for shape in shapes)]


def _spectra(rng, big):
    shape, mels = ((8, 50, 257), 40) if big else ((2, 3, 11), 4)
    points = np.expm1(np.linspace(0, 3, mels + 2)) / np.expm1(3) * (shape[-1] - 1)
    return [rng.uniform(0.5, 2, shape), points.astype("float32")]


def _project(h, *weights):
    return tuple(h @ weight for weight in weights)


def _masked_softmax(scores, mask):
    return scores.masked_fill(ops.logical_not(mask), -float("inf")).softmax(-1)


def _position_bias(table, index):
    return table[index].permute(2, 0, 1)


def _shifted(x, weight, window=5, shift=2):
    batch, tokens, width = x.shape
    cut = (batch, tokens // window, window, width)
    windows = ops.roll(x @ weight, -shift, 1).reshape(*cut)
    weights = (windows @ windows.transpose(-1, -2) / width**0.5).softmax(-1)
    return x + ops.roll((weights @ windows).reshape(batch, tokens, width), shift, 1)


def _attention(query, key, value):
    return F.scaled_dot_product_attention(query, key, value)


def _whole_attention(query, key, value, blocked=None):
    """Return (attention output, scores, weights), like the exercises on properties."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if blocked is not None:
        weights = scores.masked_fill(blocked, -float("inf")).softmax(-1)
    else:
        weights = scores.softmax(-1)
    return weights @ value, scores, weights


def _several_heads(query, key, value, heads=4):
    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)

    context, scores, weights = _whole_attention(split(query), split(key), split(value))
    return context.transpose(1, 2).reshape(query.shape[0], query.shape[1], -1), scores, weights


def _causal_attention(query, key, value):
    tokens = query.shape[-2]
    blocked = ops.ones(tokens, tokens).triu(1) > 0
    return _whole_attention(query, key, value, blocked)


def _windows(x, rows=2, columns=3):
    return window_partition(x, (rows, columns)).reshape(-1, rows, columns, x.shape[-1])


def _additive(query, key, value, v):
    pairs = ops.tanh(query.unsqueeze(2) + key.unsqueeze(1))  # (batch, query, key, hidden)
    scores = pairs @ v
    weights = scores.softmax(-1)
    return weights @ value, scores, weights


def _last_state(x, w, u, lengths):
    rows = []
    for i, length in enumerate(lengths.tolist()):
        h = x[i, :1] @ w * 0
        for t in range(length):
            h = ops.tanh(x[i, t : t + 1] @ w + h @ u)
        rows.append(h)
    return ops.cat(rows, 0)


def _ctc(scores, labels):
    frames, batch, _ = scores.shape
    size = labels.shape[1]
    return F.ctc_loss(
        scores.log_softmax(-1), labels, (frames,) * batch, (size,) * batch, reduction="none"
    )


def _negative_sampling(word, contexts):
    scores = (contexts * word.unsqueeze(1)).sum(-1)  # (batch, 1 + k)
    return -F.logsigmoid(scores[:, 0]) - F.logsigmoid(-scores[:, 1:]).sum(1)


def _chosen(z, choice):
    return z.log_softmax(-1).gather(1, choice.unsqueeze(1)).squeeze(1)


def _baseline(z, guess, choice, reward):
    error = guess.to(z.dtype) - reward  # b - r, without a gradient
    loss = (error * _chosen(z, choice)).mean() + (error**2).mean() / 2
    return ops.cat([loss.reshape(1), error / len(z)], 0)


def _distillation(student, teacher, center):
    target = ((teacher.to(student.dtype) - center) / 0.04).softmax(-1)
    return -(target * (student / 0.1).log_softmax(-1)).sum(-1).mean()


def _distillation_and_zeros(student, teacher, center):
    loss = _distillation(student, teacher, center).reshape(1)
    return ops.cat([loss, ops.zeros(teacher.numel(), dtype=loss.dtype)], 0)


def _pooled_clip(x):
    frames = [x[:, i] for i in range(1, x.shape[1])]
    pooled = [x[:, 0]]
    for i in range(0, len(frames), 2):
        window = ops.stack(frames[max(i - 1, 0) : i + 2], 1)  # (batch, 2 or 3, width)
        pooled.append(window.max(1).values)
    return ops.stack(pooled, 1)


def _log_mel(power, points):
    points = points.to(power.dtype)
    frequency = ops.arange(power.shape[-1], dtype=power.dtype).unsqueeze(1)
    above = frequency - points  # (frequency, point)
    gaps = points[1:] - points[:-1]
    rising, falling = above[:, :-2] / gaps[:-1], -above[:, 2:] / gaps[1:]
    return (power @ ops.minimum(rising, falling).relu()).log()


def _relative_scores(query, key, table):
    n, dim = query.shape[1:]
    rows = table[relative_distances(n, n)]  # (query, key, dim)
    return query @ key.transpose(-1, -2) / dim**0.5 + ops.einsum("bic,ijc->bij", query, rows)


_X = ((2, 5, 4), (8, 256, 64))  # batch, token, width
_ROWS = ((2, 3, 5), (2, 12, 64, 64))
_SQUARE = ((4, 4), (64, 64))

JUDGES = {
    "project": Judge("project", _normal(_X, *[((4, 3), (64, 48))] * 3), _project),
    "pair_bias": Judge(
        "add_bias",
        _normal(((2, 3, 5, 4), (8, 12, 64, 48)), ((3, 5, 4), (12, 64, 48))),
        lambda scores, bias: scores + bias,
    ),
    "softmax": Judge("softmax", _normal(_ROWS), lambda x: x.softmax(-1)),
    "temperature": Judge("sharp_softmax", _normal(_ROWS), lambda x: (x / 0.5).softmax(-1)),
    "slots": Judge("compete", _normal(((2, 3, 5), (24, 64, 64))), lambda scores: scores.softmax(1)),
    "feed_forward": Judge(
        "feed_forward",
        _normal(_X, ((4, 7), (64, 128)), ((7, 4), (128, 64))),
        lambda x, w_1, w_2: x + ops.tanh(x @ w_1) @ w_2,
    ),
    "layer_scale": Judge(
        "scaled_branch",
        _normal(_X, _SQUARE, ((4,), (64,))),
        lambda x, weight, gain: x + gain * (x @ weight),
    ),
    "half": Judge("block", _normal(_X, _SQUARE), lambda x, w: x + 0.5 * ops.tanh(x @ w)),
    "self_attention": Judge("attention", _heads(5, 5), _attention),
    "attention": Judge("attention", _heads(5, 7), _attention),
    "merge_heads": Judge(
        "merge_heads",
        _normal(((2, 3, 5, 4), (8, 12, 64, 32))),
        lambda x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1),
    ),
    "layer_norm": Judge(
        "layer_norm", _norm, lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b, 1e-5)
    ),
    "padding": Judge("masked_softmax", _padding, _masked_softmax, MASK_PROPERTIES),
    "causal": Judge("causal_softmax", _causal, _masked_softmax),
    "bias_table": Judge("position_bias", _table, _position_bias),
    "biased_scores": Judge(
        "biased_scores", _biased, lambda s, table, index: s + _position_bias(table, index)
    ),
    "shifted": Judge(
        "shifted_attention", _normal(((2, 15, 4), (8, 255, 32)), ((4, 4), (32, 32))), _shifted
    ),
    "scaled": Judge("attention", _heads(5, 7), _whole_attention, SCALE_PROPERTIES),
    "several_heads": Judge(
        "attention",
        _normal(*[((2, n, 12), (2, 64, 256)) for n in (5, 7, 7)]),
        _several_heads,
        HEAD_PROPERTIES,
    ),
    "causal_attention": Judge("attention", _heads(5, 5), _causal_attention, CAUSAL_PROPERTIES),
    "cross": Judge("attention", _heads(5, 5), _whole_attention, CROSS_PROPERTIES),
    "gelu": Judge(
        "gelu", _normal(((2, 3, 5), (8, 256, 64))), lambda x: F.gelu(x, approximate="tanh")
    ),
    "embedding": Judge("embedding", _embedding, lambda table, ids: F.embedding(ids, table)),
    "cross_entropy": Judge("cross_entropy", _labels, lambda z, t: F.cross_entropy(z, t)),
    "windows": Judge("windows", _normal(((2, 4, 9, 5), (8, 32, 48, 16))), _windows),
    "online": Judge(
        "attention", _normal(*[((2, n, 4), (24, 64, 64)) for n in (5, 7, 7)]), _attention
    ),
    "additive": Judge(
        "attention",
        _normal(*[((2, 5, n), (4, 48, 4 * n)) for n in (3, 3, 4)], ((3,), (12,))),
        _additive,
        ADDITIVE_PROPERTIES,
    ),
    "packed": Judge("last_state", _packed, _last_state, PACKED_PROPERTIES),
    "negative_samples": Judge(
        "negative_sampling_loss",
        _normal(((3, 4), (256, 64)), ((3, 6, 4), (256, 11, 64))),
        _negative_sampling,
    ),
    "ctc": Judge("ctc", _frames, _ctc, CTC_PROPERTIES),
    "reinforce": Judge(
        "reinforce", _choices, lambda z, choice, reward: -reward * _chosen(z, choice)
    ),
    "baseline": Judge("loss_and_baseline_gradient", _guesses, _baseline, BASELINE_PROPERTIES),
    "teacher_gradient": Judge(
        "loss_and_teacher_gradient", _views, _distillation_and_zeros, TEACHER_PROPERTIES
    ),
    "centering": Judge("dino_loss", _views, _distillation, CENTERING_PROPERTIES),
    "pooled_class_token": Judge(
        "pool_clip", _normal(((2, 7, 3), (8, 65, 32))), _pooled_clip, POOLED_CLASS_PROPERTIES
    ),
    "mel_filter": Judge("log_mel", _spectra, _log_mel, MEL_PROPERTIES),
    "relative_table": Judge(
        "relative_scores",
        _normal(*[((2, 5, 3), (8, 64, 32))] * 2, ((9, 3), (127, 32))),
        _relative_scores,
        RELATIVE_PROPERTIES,
    ),
}
