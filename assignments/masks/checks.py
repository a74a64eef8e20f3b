"""Checks of the assignment on masks: the library or NumPy computes the expected values."""

import numpy as np

from minitorch_attn.grader.build.checking import call_check, check, operation_check

MASKS = "minitorch_attn.nn.masks:"
OPERATION = "minitorch_attn.ops.softmax:MaskedSoftmax"


def mask_of(name, function, **keywords):
    return call_check(name, MASKS + function, {}, keywords)


def causal(rng):
    n = int(rng.integers(4, 9))
    made = [mask_of(f"{n} tokens", "causal", n=n), mask_of("3 after 4", "causal", n=3, offset=4)]
    made[0].expected["output"] = np.tri(n, dtype=bool)
    return made


def causal_sizes(rng):
    return [
        mask_of("5 queries, 8 keys", "causal", n=5, m=8),
        mask_of("5 queries, 3 keys", "causal", n=5, m=3, offset=1),
        mask_of("a negative offset", "causal", n=5, m=6, offset=-2),
        mask_of("one query", "causal", n=1, offset=int(rng.integers(3, 9))),
    ]


def window(rng):
    n = int(rng.integers(6, 10))
    return [mask_of(f"{w} of {n}", "sliding_window", n=n, window=w) for w in (1, 2, 4, n + 3)]


def padding(rng):
    lengths = rng.integers(1, 7, 4).tolist()
    return [
        mask_of("random lengths", "padding", lengths=lengths),
        mask_of("a given width", "padding", lengths=lengths, max_len=9),
        mask_of("a length of 0", "padding", lengths=[2, 0, 3]),
    ]


def padded_attention(inputs, settings):
    """Return the attention output with the padding mask, for the real tokens only."""
    import numpy as np

    import minitorch_attn as mt

    mask = mt.masks.padding(settings["lengths"])
    weights = mt.masked_softmax(mt.tensor(inputs["scores"]), mask)
    context = (weights @ mt.tensor(inputs["values"])).numpy()
    rows = [item[:, :length] for item, length in zip(context, settings["lengths"], strict=True)]
    return {"output": np.concatenate(rows, 1)}


def padding_changes_nothing(rng):
    lengths = [3, 6, 1]
    arrays = {
        "scores": rng.normal(size=(3, 2, 6, 6)), "values": rng.normal(size=(3, 2, 6, 4)),
    }  # fmt: skip
    rows = []
    for b, n in enumerate(lengths):
        e = np.exp(arrays["scores"][b, :, :n, :n])
        rows.append(e / e.sum(-1, keepdims=True) @ arrays["values"][b, :, :n])
    truth = {"output": np.concatenate(rows, 1)}
    return [check("alone", padded_attention, arrays, {"lengths": lengths}, expected=truth)]


def documents(rng):
    lengths = rng.integers(1, 5, 4).tolist()
    return [
        mask_of("packed", "block_diagonal", lengths=lengths),
        mask_of("an empty document", "block_diagonal", lengths=[2, 0, 3]),
    ]


def key_padding(rng):
    made = []
    for shape in ((3, 5), (5,)):
        blocked = {"key_padding_mask": rng.random(shape) < 0.4}
        made.append(call_check(f"{shape}", MASKS + "from_key_padding", blocked))
    return made


def added(inputs, settings):
    """Return the additive form of a mask."""
    import minitorch_attn as mt

    mask = mt.masks.Mask(mt.tensor(inputs["attend"]))
    return {"output": mask.additive(settings["dtype"]).numpy()}


def additive(rng):
    attend = {"attend": rng.random((2, 1, 4, 5)) < 0.5}
    return [check(dtype, added, attend, {"dtype": dtype}) for dtype in ("float64", "float32")]


def both(inputs, settings):
    """Combine two masks with & and with |."""
    import minitorch_attn as mt

    a, b = (mt.masks.Mask(mt.tensor(inputs[key])) for key in "ab")
    return {"and": (a & b).attend.numpy(), "or": (a | b).attend.numpy()}


def combined(rng):
    arrays = {"a": rng.random((2, 1, 1, 5)) < 0.5, "b": rng.random((4, 5)) < 0.5}
    return [check("two masks", both, arrays)]


def masked(name, x, mask, grad=None, axis=-1, **options):
    arguments = {"x": x, "mask": mask}
    return operation_check(name, OPERATION, arguments, {"axis": axis}, grad, ["x"], **options)


def mask_for(rng, x, empty=False):
    mask = rng.random(x.shape) < 0.6
    mask[..., 0] = True
    mask[:, 0] = True
    if empty:
        mask[0, 1] = False
    return mask


def by_formula(x, mask, axis):
    e = mask * np.exp(x)
    return {"output": e / e.sum(axis, keepdims=True)}


def masked_forward(rng):
    made = []
    for axis in (-1, 1):
        x = rng.normal(size=(3, 5, 7))
        mask = mask_for(rng, x)
        expected = by_formula(x, mask, axis)
        made.append(masked(f"axis {axis}", x, mask, axis=axis, expected=expected))
    x = rng.normal(size=(3, 5, 7))
    return [*made, masked("no mask", x, None), masked("keys", x, mask_for(rng, x)[:, :1])]


def masked_forward_empty(rng):
    x = rng.normal(size=(3, 5, 7))
    blocked = x.copy()
    blocked[1, 2] = -np.inf
    return [
        masked("empty rows", x, mask_for(rng, x, empty=True)),
        masked("minus infinity", blocked, None),
        masked("large scores", 1e4 * x, mask_for(rng, x)),
    ]


def masked_backward(rng):
    x, wide = rng.normal(size=(3, 5, 7)), rng.normal(size=(2, 3, 20_000))
    return [
        masked("small", x, mask_for(rng, x, empty=True), rng.normal(size=x.shape)),
        masked("axis 1", x, mask_for(rng, x), rng.normal(size=x.shape), axis=1),
        masked("large", wide, mask_for(rng, wide), rng.normal(size=wide.shape)),
    ]


def masked_backward_large(rng):
    x = rng.normal(size=(3, 2, 20_000))
    return [masked("large", x, mask_for(rng, x), rng.normal(size=x.shape))]
