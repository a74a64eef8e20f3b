"""Properties of correct functions, used to find mistakes that a gradient check cannot find.

A property generates inputs, calls the learner's function on them, and tests the outputs.
"""

from dataclasses import dataclass

import numpy as np

__all__ = [
    "ADDITIVE_PROPERTIES", "BASELINE_PROPERTIES", "CAUSAL_PROPERTIES", "CENTERING_PROPERTIES",
    "CROSS_PROPERTIES", "CTC_PROPERTIES", "GAP_PROPERTIES", "HEAD_PROPERTIES",
    "LOGIT_SCALE_PROPERTIES", "MASK_PROPERTIES", "MATCHING_PROPERTIES", "MEL_PROPERTIES",
    "PACKED_PROPERTIES", "PAIR_PROPERTIES", "POOLED_CLASS_PROPERTIES", "RELATIVE_PROPERTIES",
    "REPEATED_PROPERTIES", "SCALE_PROPERTIES", "SHIFT_PROPERTIES", "TEACHER_PROPERTIES", "Property",
]  # fmt: skip

_LOG_3 = np.log(3.0)


@dataclass(frozen=True)
class Property:
    """Property that the learner's function must have.

    Parameters
    ----------
    name : str
        Description of the property.
    draw : callable
        `draw(rng)` returns a list of calls, each a list of input arrays.
    look : callable
        `look(results)` takes the outputs of each call and returns whether the property holds, and
        a phrase that describes the finding.
    """

    name: str
    draw: object
    look: object


def _normal(rng, *shapes):
    return [rng.normal(size=shape) for shape in shapes]


def _seen(value, wanted, off):
    """Return whether `off`, the largest error, is below 1e-9, and describe the worst entry."""
    value, wanted = np.broadcast_arrays(value, wanted)
    at = np.unravel_index(np.abs(value - wanted).argmax(), value.shape)
    return off < 1e-9, f"{value[at]:.4g} instead of {wanted[at]:.4g}"


def _rows_sum_to_one(results):
    sums = results[0][-1].sum(axis=-1)
    return _seen(sums, 1.0, np.abs(sums - 1).max())


def _deviation_is_one(results):
    deviation = results[0][1].std()
    return abs(deviation - 1) < 0.1, f"their standard deviation is {deviation:.3g}"


def _golden_inputs(rng, d=4):
    """Make one query and two keys. Their scores q k / sqrt(d) are log 3 and 0."""
    query, key, value = np.zeros((1, 1, 1, d)), np.zeros((1, 1, 2, d)), np.zeros((1, 1, 2, d))
    query[..., 0] = d**0.5
    key[0, 0, 0, 0] = _LOG_3
    value[0, 0, 0, 1], value[0, 0, 1, 1] = 4.0, 8.0
    return [[query, key, value]]


def _golden(results):
    context, _, weights = results[0]
    worst = np.abs(weights - [0.75, 0.25]).max()
    if worst > 1e-9:
        return False, "the weights are " + " and ".join(f"{w:.3g}" for w in weights.ravel())
    return _seen(context[..., 1], 5.0, np.abs(context[..., 1] - 5).max())


def _one_query(rng):
    """Return the inputs of two attention calls that differ only at the last token."""
    query, key, value = _normal(rng, (2, 3, 4, 4), (2, 3, 4, 4), (2, 3, 4, 4))
    changed = [part.copy() for part in (query, key, value)]
    for part in changed:
        part[:, :, -1] += 1.0
    return [[query, key, value], changed]


def _past_stays(results):
    before, after = results[0][0][:, :, :-1], results[1][0][:, :, :-1]
    off = np.abs(before - after).max()
    return off < 1e-12, f"the output at an earlier token changes by {off:.2g}"


def _padded(rng):
    """Return inputs of two masked softmax calls: words and padding, and the same words alone."""
    scores = rng.normal(size=(2, 3, 5))
    with_padding = np.array([True, True, True, False, False]) & np.ones((2, 1, 1), bool)
    return [[scores, with_padding], [scores[:, :, :3], np.ones((2, 1, 3), bool)]]


def _padding_changes_nothing(results):
    off = np.abs(results[0][0][:, :, :3] - results[1][0]).max()
    return off < 1e-12, f"the weight of a word changes by {off:.2g}"


def _cross(rng):
    return [_normal(rng, (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4))]


def _cross_shape(results):
    context, _, weights = results[0]
    good = context.shape == (2, 3, 5, 4) and weights.shape == (2, 3, 5, 7)
    return good, f"context {context.shape} and weights {weights.shape}"


def _one_state(rng):
    """Return the inputs of two additive attention calls that differ only in the last query."""
    query, key, value, v = _normal(rng, (2, 5, 3), (2, 5, 3), (2, 5, 4), (3,))
    changed = query.copy()
    changed[:, -1] += 1.0
    return [[query, key, value, v], [changed, key, value, v]]


def _other_states_stay(results):
    off = np.abs(results[0][0][:, :-1] - results[1][0][:, :-1]).max()
    return off < 1e-12, f"the context of another state changes by {off:.2g}"


def _other_padding(rng):
    """Return the inputs of two calls of a recurrent network: equal words, different padding."""
    lengths = np.array([5, 3, 1])
    x, w, u = _normal(rng, (3, 5, 4), (4, 2), (2, 2))
    changed = np.where((np.arange(5) < lengths[:, None])[..., None], x, x + 1.0)
    return [[x, w, u, lengths], [changed, w, u, lengths]]


def _states_stay(results):
    off = np.abs(results[0][0] - results[1][0]).max()
    return off < 1e-12, f"a last state changes by {off:.2g}"


def _two_frames(rng):
    """Return the inputs of one CTC call: two frames, two different labels, p = 1/3 per class."""
    return [[np.zeros((2, 1, 3)), np.array([[1, 2]])]]


def _one_alignment(results):
    loss = results[0][0]
    return _seen(loss, 2 * _LOG_3, np.abs(loss - 2 * _LOG_3).max())


def _two_policies(rng):
    """Return the inputs of two REINFORCE loss calls that differ only in the policy's logits."""
    guess = rng.normal(size=3).astype("float32")
    choice, reward = rng.integers(0, 5, 3), rng.integers(0, 4, 3)
    return [[rng.normal(size=(3, 5)), guess, choice, reward] for _ in range(2)]


def _baseline_stays(results):
    off = np.abs(results[0][0][1:] - results[1][0][1:]).max()
    return off < 1e-12, f"the baseline's gradient changes by {off:.2g}"


def _views(rng):
    """Return the inputs of two DINO loss calls.

    In the second call, the same vector is added to the teacher's outputs and to the center.
    """
    student = rng.normal(size=(3, 5)) / 10
    teacher, center = (rng.normal(size=shape).astype("float32") / 10 for shape in ((3, 5), 5))
    shift = rng.normal(size=5).astype("float32")
    return [[student, teacher + by * shift, center + by * shift] for by in (0, 1)]


def _no_gradient(results):
    largest = np.abs(results[0][0][1:]).max()
    return largest == 0, f"the teacher's gradient has an entry of {largest:.2g}"


def _loss_stays(results):
    first, second = (float(outputs[0]) for outputs in results)
    return abs(first - second) < 1e-4 * abs(first), f"it changes from {first:.4g} to {second:.4g}"


def _other_frames(rng):
    """Return inputs of two pooling calls: clips with equal class tokens but different frames."""
    x = rng.normal(size=(2, 7, 3))
    return [[x], [np.concatenate([x[:, :1], x[:, 1:] + 1.0], 1)]]


def _class_token_stays(results):
    off = np.abs(results[0][0][:, 0] - results[1][0][:, 0]).max()
    return off < 1e-12, f"the class token changes by {off:.2g}"


def _last_query_and_first_key(rng):
    """Return queries of ones, keys of zeros, and a position table: 1 in the last row, else 0."""
    return [[np.ones((1, 5, 1)), np.zeros((1, 5, 1)), (np.arange(9.0) == 8)[:, None]]]


def _only_that_score(results):
    wanted = np.zeros((1, 5, 5))
    wanted[:, -1, 0] = 1.0
    scores = results[0][0]
    return _seen(scores, wanted, np.abs(scores - wanted).max())


def _all_distances(rng):
    """Return queries of ones, and a table in which each distance's row contains the distance."""
    return [[np.ones((1, 5, 1)), np.arange(4.0, -5.0, -1.0)[:, None]]]


def _query_minus_key(results):
    wanted = np.arange(5.0)[:, None] - np.arange(5.0)
    return _seen(results[0][0][0], wanted, np.abs(results[0][0][0] - wanted).max())


def _five_five(rng):
    """Return the inputs of one CTC call: three frames, two equal labels, p = 1/3 per class."""
    return [[np.zeros((3, 1, 3)), np.array([[1, 1]])]]


def _with_a_blank(results):
    wanted = 3 * _LOG_3  # one alignment: label, blank, label
    return _seen(results[0][0], np.array([wanted]), np.abs(results[0][0] - wanted).max())


def _with_gaps(rng):
    """Return the inputs of one generalized IoU call: pairs of unit squares with gaps of 1 and 4."""
    first = np.array([[0.0, 0.0, 1.0, 1.0]] * 2)
    return [[first, first + [[2.0, 0.0, 2.0, 0.0], [5.0, 0.0, 5.0, 0.0]]]]


def _hull_minus_union(results):
    wanted = np.array([-1 / 3, -2 / 3])  # the enclosing boxes are 3 and 6 long
    return _seen(results[0][0], wanted, np.abs(results[0][0] - wanted).max())


def _near_or_likely(rng):
    """Return one target and two predictions.

    The first prediction gives the target's class a higher probability. The second has a box that is
    nearer to the target's box.
    """
    probability = np.array([[[0.9, 0.1], [0.5, 0.5]]])
    boxes = np.zeros((1, 2, 4))
    boxes[0, :, 0] = 0.2, 0.1
    return [[np.log(probability), boxes, np.zeros((1, 1), int), np.zeros((1, 1, 4))]]


def _near_one(results):
    wanted = 5 * 0.1 + np.log(2)
    return _seen(results[0][0], wanted, np.abs(results[0][0] - wanted).max())


def _tone(rng):
    """Return the inputs of two log-mel calls: without and with a tone in frequency bin 3."""
    spectrum = np.ones((1, 1, 17))
    spectrum[..., 3] = 11.0
    points = np.array([0, 1, 2, 4, 8, 16], "float32")
    return [[np.ones((1, 1, 17)), points], [spectrum, points]]


def _bands_above_stay(results):
    off = np.abs(results[0][0][..., 3] - results[1][0][..., 3]).max()
    return off < 1e-9, f"its logarithm changes by {off:.2g}"


def _transposed(rng):
    """Return the inputs of two loss calls: logits, and their transpose (images and texts swap)."""
    logits = rng.normal(size=(5, 5))
    return [[logits], [logits.T.copy()]]


def _loss_of_both(results):
    first, second = (float(outputs[0]) for outputs in results)
    return abs(first - second) < 1e-9, f"it changes from {first:.4g} to {second:.4g}"


def _equal_directions(rng):
    """Return the inputs of two calls that compute the scaled similarity of images and texts.

    The texts' vectors are equal to the images' vectors. The log scale is 0, then -log 2.
    """
    return [[np.eye(3), np.eye(3), np.array([s])] for s in (0.0, -np.log(2.0))]


def _factors(results):
    found, wanted = (np.array([x[0, 0], y[0, 0]]) for x, y in (
        (results[0][0], results[1][0]), (np.eye(1), np.eye(1) / 2)))  # fmt: skip
    return _seen(found, wanted, np.abs(found - wanted).max())


_ROWS = Property("each query's weights sum to 1 over the keys", _cross, _rows_sum_to_one)
_GOLDEN = Property("scores log 3 and 0 give the weights 3/4 and 1/4", _golden_inputs, _golden)
_SPREAD = "scores of random queries and keys have standard deviation 1"

SCALE_PROPERTIES = (
    _ROWS,
    Property(
        f"{_SPREAD} (d = 64)", lambda rng: [_normal(rng, *[(2, 3, 50, 64)] * 3)], _deviation_is_one
    ),
    _GOLDEN,
)
HEAD_PROPERTIES = (
    Property(
        "each query's weights sum to 1 over the keys",
        lambda rng: [_normal(rng, (2, 5, 12), (2, 7, 12), (2, 7, 12))],
        _rows_sum_to_one,
    ),
    Property(
        f"{_SPREAD} (width 256)", lambda rng: [_normal(rng, *[(2, 50, 256)] * 3)], _deviation_is_one
    ),
)
CAUSAL_PROPERTIES = (
    Property(
        "each query's weights sum to 1 over the keys",
        lambda rng: [_normal(rng, *[(2, 3, 5, 4)] * 3)],
        _rows_sum_to_one,
    ),
    Property("a later token does not change the output at an earlier one", _one_query, _past_stays),
)
CROSS_PROPERTIES = (
    Property("5 queries and 7 keys give 5 rows of 7 weights", _cross, _cross_shape),
    _ROWS,
    _GOLDEN,
)
MASK_PROPERTIES = (
    Property("the weights of the words sum to 1", lambda rng: _padded(rng)[:1], _rows_sum_to_one),
    Property("padding does not change the weights of words", _padded, _padding_changes_nothing),
)
ADDITIVE_PROPERTIES = (
    Property(
        "a state does not change the context of another state", _one_state, _other_states_stay
    ),
)
PACKED_PROPERTIES = (
    Property("padding does not change the last state", _other_padding, _states_stay),
)
CTC_PROPERTIES = (
    Property(
        "two labels in two frames, with p = 1/3 for each class, have the loss 2 log 3", _two_frames,
        _one_alignment,
    ),
)  # fmt: skip
GAP_PROPERTIES = (
    Property(
        "squares of side 1 with gaps of 1 and 4 have the values -1/3 and -2/3", _with_gaps,
        _hull_minus_union,
    ),
)  # fmt: skip
MATCHING_PROPERTIES = (
    Property(
        "the prediction of cost 5 * 0.1 - 0.5, not 5 * 0.2 - 0.9, is matched: loss 0.5 + log 2",
        _near_or_likely,
        _near_one,
    ),
)
BASELINE_PROPERTIES = (
    Property("the policy does not change the baseline's gradient", _two_policies, _baseline_stays),
)
TEACHER_PROPERTIES = (
    Property("the teacher's output gets no gradient", lambda rng: _views(rng)[:1], _no_gradient),
)
CENTERING_PROPERTIES = (
    Property(
        "adding a vector to the teacher's outputs and to the center does not change the loss",
        _views,
        _loss_stays,
    ),
)
POOLED_CLASS_PROPERTIES = (
    Property("the frames do not change the class token", _other_frames, _class_token_stays),
)
RELATIVE_PROPERTIES = (
    Property(
        "the last row of the table is for the last query and the first key",
        _last_query_and_first_key,
        _only_that_score,
    ),
)
SHIFT_PROPERTIES = (
    Property(
        "if the table contains the distances themselves, the scores are i - j", _all_distances,
        _query_minus_key,
    ),
)  # fmt: skip
REPEATED_PROPERTIES = (
    Property(
        "two equal labels in three frames, with p = 1/3 for each class, have the loss 3 log 3",
        _five_five,
        _with_a_blank,
    ),
)
MEL_PROPERTIES = (
    Property("a tone in bin 3 does not change the band from 4 to 16", _tone, _bands_above_stay),
)
PAIR_PROPERTIES = (
    Property("the loss is the same if images and texts change places", _transposed, _loss_of_both),
)
LOGIT_SCALE_PROPERTIES = (
    Property(
        "vectors in the same direction have the logit 1 for s = 0, and 1/2 for s = -log 2",
        _equal_directions,
        _factors,
    ),
)
