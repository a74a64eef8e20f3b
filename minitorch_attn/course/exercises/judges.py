"""Judges for checking exercises: correct implementations, and inputs that reveal mistakes.

The correct implementation uses the library's own operations. Each check samples new inputs for a
small and a big case. In the small case, most axes have different sizes. Batch sizes are larger than
1, and the gains of norms resemble those of a trained model. The big case is so large that finite
differences of the forward pass take too long.
"""

from dataclasses import dataclass

from ... import ops
from ...models.boxes import paired_generalized_iou
from ...models.matching import assign, matching_cost
from ...models.mvitv2 import relative_distances
from ...models.relative_attention import relative_shift
from ...nn import functional as F
from ...ops.windows import window_partition
from . import inputs
from .properties import (
    ADDITIVE_PROPERTIES,
    BASELINE_PROPERTIES,
    CAUSAL_PROPERTIES,
    CENTERING_PROPERTIES,
    CROSS_PROPERTIES,
    CTC_PROPERTIES,
    GAP_PROPERTIES,
    HEAD_PROPERTIES,
    LOGIT_SCALE_PROPERTIES,
    MASK_PROPERTIES,
    MATCHING_PROPERTIES,
    MEL_PROPERTIES,
    PACKED_PROPERTIES,
    PAIR_PROPERTIES,
    POOLED_CLASS_PROPERTIES,
    RELATIVE_PROPERTIES,
    REPEATED_PROPERTIES,
    SCALE_PROPERTIES,
    SHIFT_PROPERTIES,
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
    """Return attention output, scores and weights, which the functions in `properties` test."""
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


def _matched_loss(logits, boxes, labels, target_boxes):
    rows = zip(logits, boxes, labels, target_boxes, strict=True)
    losses = []
    for z, box, label, target_box in rows:
        cost = matching_cost(z, box, label, target_box, bbox_cost=5, giou_cost=0)
        i, j = assign(cost.detach().numpy())
        distance = (box[i] - target_box[j]).abs().sum()
        losses.append(5 * distance + F.cross_entropy(z[i], label[j], reduction="sum"))
    return ops.stack(losses)


def _pooled_clip(x):
    frames = [x[:, i] for i in range(1, x.shape[1])]
    pooled = [x[:, 0]]
    for i in range(0, len(frames), 2):
        window = ops.stack(frames[max(i - 1, 0) : i + 2], 1)  # (batch, 2 or 3, width)
        pooled.append(window.max(1).values)
    return ops.stack(pooled, 1)


def _relative_scores(query, key, table):
    n, dim = query.shape[1:]
    rows = table[relative_distances(n, n)]  # (query, key, dim)
    return query @ key.transpose(-1, -2) / dim**0.5 + ops.einsum("bic,ijc->bij", query, rows)


def _log_mel(power, points):
    points = points.to(power.dtype)
    frequency = ops.arange(power.shape[-1], dtype=power.dtype).unsqueeze(1)
    above = frequency - points  # (frequency, point)
    gaps = points[1:] - points[:-1]
    rising, falling = above[:, :-2] / gaps[:-1], -above[:, 2:] / gaps[1:]
    return (power @ ops.minimum(rising, falling).relu()).log()


def _pair_loss(logits):
    """Return the CLIP loss: the mean of the cross-entropies of the rows and of the columns.

    The correct class of each row and of each column is its entry on the diagonal.
    """
    both = logits.log_softmax(1) + logits.log_softmax(0)
    return -both.diagonal().mean() / 2


def _scaled_similarity(images, texts, log_scale):
    images, texts = (x / (x * x).sum(-1, keepdim=True).sqrt() for x in (images, texts))
    return ops.exp(log_scale) * (images @ texts.T)


_X = ((2, 5, 4), (8, 256, 64))  # batch, token, width
_ROWS = ((2, 3, 5), (2, 12, 64, 64))
_SQUARE = ((4, 4), (64, 64))

JUDGES = {
    "project": Judge("project", inputs.normal(_X, *[((4, 3), (64, 48))] * 3), _project),
    "pair_bias": Judge(
        "add_bias",
        inputs.normal(((2, 3, 5, 4), (8, 12, 64, 48)), ((3, 5, 4), (12, 64, 48))),
        lambda scores, bias: scores + bias,
    ),
    "softmax": Judge("softmax", inputs.normal(_ROWS), lambda x: x.softmax(-1)),
    "temperature": Judge("sharp_softmax", inputs.normal(_ROWS), lambda x: (x / 0.5).softmax(-1)),
    "slots": Judge(
        "compete", inputs.normal(((2, 3, 5), (24, 64, 64))), lambda scores: scores.softmax(1)
    ),
    "feed_forward": Judge(
        "feed_forward",
        inputs.normal(_X, ((4, 7), (64, 128)), ((7, 4), (128, 64))),
        lambda x, w_1, w_2: x + ops.tanh(x @ w_1) @ w_2,
    ),
    "layer_scale": Judge(
        "scaled_branch",
        inputs.normal(_X, _SQUARE, ((4,), (64,))),
        lambda x, weight, gain: x + gain * (x @ weight),
    ),
    "half": Judge("block", inputs.normal(_X, _SQUARE), lambda x, w: x + 0.5 * ops.tanh(x @ w)),
    "self_attention": Judge("attention", inputs.heads(5, 5), _attention),
    "attention": Judge("attention", inputs.heads(5, 7), _attention),
    "merge_heads": Judge(
        "merge_heads",
        inputs.normal(((2, 3, 5, 4), (8, 12, 64, 32))),
        lambda x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1),
    ),
    "layer_norm": Judge(
        "layer_norm", inputs.norm, lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b, 1e-5)
    ),
    "padding": Judge("masked_softmax", inputs.padding, _masked_softmax, MASK_PROPERTIES),
    "causal": Judge("causal_softmax", inputs.causal, _masked_softmax),
    "bias_table": Judge("position_bias", inputs.table, _position_bias),
    "biased_scores": Judge(
        "biased_scores", inputs.biased, lambda s, table, index: s + _position_bias(table, index)
    ),
    "shifted": Judge(
        "shifted_attention", inputs.normal(((2, 15, 4), (8, 255, 32)), ((4, 4), (32, 32))), _shifted
    ),
    "scaled": Judge("attention", inputs.heads(5, 7), _whole_attention, SCALE_PROPERTIES),
    "several_heads": Judge(
        "attention",
        inputs.normal(*[((2, n, 12), (2, 64, 256)) for n in (5, 7, 7)]),
        _several_heads,
        HEAD_PROPERTIES,
    ),
    "causal_attention": Judge(
        "attention", inputs.heads(5, 5), _causal_attention, CAUSAL_PROPERTIES
    ),
    "cross": Judge("attention", inputs.heads(5, 5), _whole_attention, CROSS_PROPERTIES),
    "gelu": Judge(
        "gelu", inputs.normal(((2, 3, 5), (8, 256, 64))), lambda x: F.gelu(x, approximate="tanh")
    ),
    "embedding": Judge("embedding", inputs.embedding, lambda table, ids: F.embedding(ids, table)),
    "cross_entropy": Judge("cross_entropy", inputs.labels, lambda z, t: F.cross_entropy(z, t)),
    "windows": Judge("windows", inputs.normal(((2, 4, 9, 5), (8, 32, 48, 16))), _windows),
    "online": Judge(
        "attention", inputs.normal(*[((2, n, 4), (24, 64, 64)) for n in (5, 7, 7)]), _attention
    ),
    "additive": Judge(
        "attention",
        inputs.normal(*[((2, 5, n), (4, 48, 4 * n)) for n in (3, 3, 4)], ((3,), (12,))),
        _additive,
        ADDITIVE_PROPERTIES,
    ),
    "packed": Judge("last_state", inputs.packed, _last_state, PACKED_PROPERTIES),
    "negative_samples": Judge(
        "negative_sampling_loss",
        inputs.normal(((3, 4), (256, 64)), ((3, 6, 4), (256, 11, 64))),
        _negative_sampling,
    ),
    "ctc": Judge("ctc", inputs.frames, _ctc, CTC_PROPERTIES),
    "reinforce": Judge(
        "reinforce", inputs.choices, lambda z, choice, reward: -reward * _chosen(z, choice)
    ),
    "baseline": Judge("loss_and_baseline_gradient", inputs.guesses, _baseline, BASELINE_PROPERTIES),
    "teacher_gradient": Judge(
        "loss_and_teacher_gradient", inputs.views, _distillation_and_zeros, TEACHER_PROPERTIES
    ),
    "centering": Judge("dino_loss", inputs.views, _distillation, CENTERING_PROPERTIES),
    "generalized_iou": Judge(
        "generalized_iou", inputs.boxes, paired_generalized_iou, GAP_PROPERTIES
    ),
    "matching_cost": Judge("set_loss", inputs.detections, _matched_loss, MATCHING_PROPERTIES),
    "pooled_class_token": Judge(
        "pool_clip", inputs.normal(((2, 7, 3), (8, 65, 32))), _pooled_clip, POOLED_CLASS_PROPERTIES
    ),
    "relative_shift": Judge(
        "relative_scores",
        inputs.normal(((2, 5, 3), (8, 64, 32)), ((9, 3), (127, 32))),
        lambda query, table: relative_shift(query @ table.T / table.shape[1] ** 0.5),
        SHIFT_PROPERTIES,
    ),
    "repeated_label": Judge("ctc", inputs.frames, _ctc, REPEATED_PROPERTIES),
    "relative_table": Judge(
        "relative_scores",
        inputs.normal(*[((2, 5, 3), (8, 64, 32))] * 2, ((9, 3), (127, 32))),
        _relative_scores,
        RELATIVE_PROPERTIES,
    ),
    "mel_filter": Judge("log_mel", inputs.spectra, _log_mel, MEL_PROPERTIES),
    "symmetric_loss": Judge(
        "pair_loss", inputs.normal(((5, 5), (256, 256))), _pair_loss, PAIR_PROPERTIES
    ),
    "logit_scale": Judge(
        "scaled_similarity",
        inputs.normal(((3, 4), (256, 64)), ((5, 4), (192, 64)), ((1,), (1,))),
        _scaled_similarity,
        LOGIT_SCALE_PROPERTIES,
    ),
}
