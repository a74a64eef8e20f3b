"""Checks of the captioning assignment: the library or a formula gives the expected values."""

from minitorch_attn.grader.build.checking import (
    call_check,
    check,
    layer_check,
    operation_check,
    parameters,
)

ADDITIVE = "minitorch_attn.ops.attention.additive:AdditiveAttention"
SOFT = "minitorch_attn.models.show_attend_tell:SoftAttention"
LOSS = "minitorch_attn.models.show_attend_tell:caption_loss"
MAKE = {"annotation_dim": 5, "hidden_dim": 3, "attention_dim": 4}


def attention(name, rng, lead=(2,), sizes=(3, 5), hidden=4, dim=7, mask=None, grad=False,
              scale=1.0, dtype="float64", **options):  # fmt: skip
    """Create a check of additive attention with random inputs."""
    queries, keys = sizes
    arguments = {
        "query": rng.normal(size=(*lead, queries, hidden)),
        "key": rng.normal(size=(*lead, keys, hidden)),
        "v": scale * rng.normal(size=hidden),
        "value": rng.normal(size=(*lead, keys, dim)),
    }
    arguments = {key: array.astype(dtype) for key, array in arguments.items()} | {"mask": mask}
    shapes = (*lead, queries, dim), (*lead, queries, keys)
    grad = tuple(rng.normal(size=shape) for shape in shapes) if grad else None
    return operation_check(name, ADDITIVE, arguments, {}, grad, **options)


def allowed(rng, *shape):
    """Return a mask that allows the first key, and some others."""
    mask = rng.random(shape) < 0.5
    mask[..., 0] = True
    return mask


def forward(rng):
    return [attention("several queries", rng), attention("one query", rng, sizes=(1, 6))]


def forward_masks(rng):
    blocked = allowed(rng, 2, 3, 5)
    blocked[1, 2] = False
    return [
        attention("a mask for each query", rng, mask=allowed(rng, 2, 3, 5)),
        attention("one mask for all queries", rng, mask=allowed(rng, 2, 1, 5)),
        attention("a query that may not attend to any key", rng, mask=blocked),
    ]


def forward_hard(rng):
    return [
        attention("large scores", rng, scale=2000.0),
        attention("float32", rng, dtype="float32", rtol=1e-5),
        attention("two leading axes", rng, lead=(2, 3)),
        attention("no leading axis", rng, lead=()),
    ]


def large(rng):
    return attention("large", rng, lead=(3,), sizes=(11, 200), hidden=40, dim=50, grad=True)


def backward(rng):
    return [attention("several queries", rng, grad=True), large(rng)]


def backward_masks(rng):
    blocked = allowed(rng, 2, 3, 5)
    blocked[1, 2] = False
    return [
        attention("one mask for all queries", rng, mask=allowed(rng, 2, 1, 5), grad=True),
        attention("a query that may not attend to any key", rng, mask=blocked, grad=True),
        large(rng),
    ]


def backward_needs(rng):
    names = ("query", "key", "v", "value")
    return [attention(f"{name} alone", rng, grad=True, needs=[name]) for name in names] + [
        large(rng)
    ]


def backward_large(rng):
    return [
        attention("one query", rng, lead=(8,), sizes=(1, 700), hidden=60, dim=30, grad=True),
        attention("two leading axes", rng, lead=(2, 3), sizes=(7, 90), hidden=50, grad=True),
    ]


def looking(inputs, settings):
    """Run `attend` of a SoftAttention with the given parameters."""
    import minitorch_attn as mt
    from minitorch_attn.models.show_attend_tell import SoftAttention

    layer = SoftAttention(**settings["make"]).double()
    own = {key.split()[1]: a for key, a in inputs.items() if key.startswith("parameter ")}
    layer.load_state_dict(own)
    names = ("projected", "hidden", "annotations", "mask")
    context, alpha = layer.attend(*[mt.tensor(inputs[n]) for n in names if n in inputs])
    return {"context": context.detach().numpy(), "alpha": alpha.detach().numpy()}


def looked(name, rng, batch=3, positions=6, mask=None):
    """Create a check of `SoftAttention.attend` with random annotations."""
    inputs = {
        "projected": rng.normal(size=(batch, positions, 4)),
        "hidden": rng.normal(size=(batch, 3)),
        "annotations": rng.normal(size=(batch, positions, 5)),
        **parameters(SOFT, MAKE, rng),
    }
    inputs |= {} if mask is None else {"mask": mask}
    return check(name, looking, inputs, {"make": MAKE})


def attend(rng):
    return [looked("several images", rng), looked("one position", rng, positions=1)]


def attend_masked(rng):
    blocked = ~allowed(rng, 3, 6)
    return [looked("blocked positions", rng, mask=blocked)]


def gate(rng):
    hidden = {"hidden": rng.normal(size=(4, 3))}
    return [layer_check("four states", SOFT, MAKE, hidden, rng, method="gate")]


def loss(name, rng, sizes=(3, 4, 5, 6), ignored=0.0, **keywords):
    """Create a check of the loss for random captions."""
    batch, words, vocabulary, positions = sizes
    targets = rng.integers(0, vocabulary, (batch, words))
    targets[:, 1:][rng.random((batch, words - 1)) < ignored] = keywords.get("ignore_index", -100)
    alphas = rng.random((batch, words, positions))
    arguments = {
        "logits": rng.normal(size=(batch, words, vocabulary)),
        "targets": targets,
        "alphas": alphas / alphas.sum(-1, keepdims=True),
    }
    return call_check(name, LOSS, arguments, keywords)


def caption_loss(rng):
    return [
        loss("with the penalty", rng),
        loss("with a larger penalty", rng, penalty=2.5),
        loss("without the penalty", rng, penalty=0.0),
    ]


def caption_loss_ignored(rng):
    return [
        loss("captions of different lengths", rng, ignored=0.5),
        loss("a different id for the padding", rng, ignored=0.5, ignore_index=0),
    ]
