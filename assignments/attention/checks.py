"""Checks of the attention assignment: the library computes the expected values in float64."""

import numpy as np

from minitorch_attn.grader.build.checking import check, operation_check, parameters

OPERATION = "minitorch_attn.ops.attention.fused:Attention"
LAYER = "minitorch_attn.nn.attention:Attention"


def inputs(rng, lead=(2, 3), queries=5, keys=7, dim=4, value_dim=6, mask=None):
    """Return random query, key and value with distinct sizes, and the given mask."""
    return {
        "query": rng.normal(size=(*lead, queries, dim)),
        "key": rng.normal(size=(*lead, keys, dim)),
        "value": rng.normal(size=(*lead, keys, value_dim)),
        "mask": mask,
    }


def keywords(scale=0.5, is_causal=False, dropout_p=0.0):
    return {"scale": scale, "is_causal": is_causal, "dropout_p": dropout_p}


def by_formula(query, key, value, scale):
    """Compute softmax(scale * query key^T) value with NumPy."""
    scores = scale * np.einsum("...id,...jd->...ij", query, key)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("...ij,...je->...ie", weights, value)


def one(name, arguments, grad=None, **options):
    return operation_check(name, OPERATION, arguments, grad=grad, **options)


def forward(rng):
    made = []
    for scale in (0.5, 0.11):
        x = inputs(rng)
        expected = {"output": by_formula(x["query"], x["key"], x["value"], scale)}
        made.append(one(f"scale {scale}", x, keywords=keywords(scale), expected=expected))
    return made


def masks(rng):
    """Return a boolean mask with a fully masked row, a float mask with -inf, and a causal mask."""
    attend = rng.random((2, 1, 5, 7)) < 0.6
    attend[..., 0] = True
    attend[0, 0, 2] = False
    added = rng.normal(size=(3, 5, 7))
    added[1, :, 3] = -np.inf
    return {"boolean": (attend, False), "floats": (added, False), "causal": (None, True)}


def forward_masks(rng):
    return [
        one(name, inputs(rng, mask=mask), keywords=keywords(is_causal=causal), needs=[])
        for name, (mask, causal) in masks(rng).items()
    ]


def forward_properties(rng):
    large = inputs(rng)
    large["query"] *= 1e3
    single = inputs(rng, keys=1)
    equal = inputs(rng)
    equal["key"][:] = equal["key"][..., :1, :]
    mean = np.broadcast_to(equal["value"].mean(-2, keepdims=True), (2, 3, 5, 6))
    order = rng.permutation(7)
    base = inputs(rng)
    turned = base | {"key": base["key"][..., order, :], "value": base["value"][..., order, :]}
    truth = by_formula(base["query"], base["key"], base["value"], 0.5)
    alone = np.broadcast_to(single["value"], (2, 3, 5, 6))
    return [
        one("very large scores", large, keywords=keywords()),
        one("one key", single, keywords=keywords(), expected={"output": alone.copy()}),
        one("equal scores", equal, keywords=keywords(), expected={"output": mean.copy()}),
        one("keys in another order", turned, keywords=keywords(), expected={"output": truth}),
    ]


def forward_large(rng):
    x = inputs(rng, lead=(2, 12), queries=64, keys=80, dim=32, value_dim=16)
    x["key"], x["value"] = x["key"][:1], x["value"][:, :1]
    small = {k: v if v is None else v.astype("float32") for k, v in inputs(rng).items()}
    return [
        one("broadcast", x, keywords=keywords(0.2)),
        one("float32", small, keywords=keywords(), rtol=1e-5),
    ]


def large(rng, mask=None, shared=False, **more):
    """Return a case with so many entries that finite differences would take too long."""
    x = inputs(rng, lead=(2, 12), queries=64, keys=64, dim=64, value_dim=64, mask=mask)
    if shared:
        x["key"], x["value"] = x["key"][:1], x["value"][:, :1]
    return x, rng.normal(size=x["query"].shape), keywords(0.125, **more)


def many_keys(rng, masked=False, shared=False, **more):
    """Return a case with so many keys that finite differences would take too long."""
    mask = rng.normal(size=(1, 3, 12_000)) if masked else None
    x = inputs(rng, lead=(2, 2), queries=3, keys=12_000, mask=mask)
    if shared:
        x["key"], x["value"] = x["key"][:1], x["value"][:, :1]
    return x, rng.normal(size=(2, 2, 3, 6)), keywords(0.5, **more)


def graded(name, case, **options):
    arguments, grad, keywords = case
    return one(name, arguments, grad, keywords=keywords, **options)


def small(rng, scale=0.5, **more):
    return inputs(rng), rng.normal(size=(2, 3, 5, 6)), keywords(scale, **more)


def backward(rng):
    return [
        graded("scale 0.5", small(rng)),
        graded("scale 0.11", small(rng, 0.11)),
        graded("24 heads", large(rng)),
        graded("many keys", many_keys(rng)),
    ]


def backward_masks(rng):
    made = []
    for name, (mask, causal) in masks(rng).items():
        case = inputs(rng, mask=mask), rng.normal(size=(2, 3, 5, 6)), keywords(is_causal=causal)
        made.append(graded(name, case))
    made.append(graded("24 heads", large(rng, mask=rng.normal(size=(12, 64, 64)))))
    made.append(graded("many keys", many_keys(rng, masked=True)))
    return made


def backward_broadcast(rng):
    x, grad, settings = small(rng)
    x["key"], x["value"] = x["key"][:1], x["value"][:, :1]
    return [
        graded("key and value are shared", (x, grad, settings)),
        graded("key alone", small(rng), needs=["key"]),
        graded("24 heads", large(rng, shared=True)),
        graded("many keys", many_keys(rng, shared=True)),
    ]


def backward_large(rng):
    x, grad, settings = large(rng, is_causal=True)
    narrow = {key: None if a is None else a.astype("float32") for key, a in x.items()}
    return [
        graded("causal", (x, grad, settings)),
        graded("many keys", many_keys(rng)),
        graded("float32", (narrow, grad.astype("float32"), settings), rtol=2e-5),
    ]


def dropout(rng):
    return [
        graded(f"with {name}", make(rng, dropout_p=0.3), seed=int(rng.integers(2**31)))
        for name, make in {"3 heads": small, "24 heads": large, "many keys": many_keys}.items()
    ]


def heads(inputs, settings):
    """Run `_split` or `_merge`."""
    import minitorch_attn as mt

    layer = mt.nn.Attention(settings["embed"], settings["heads"]).double()
    x = mt.tensor(inputs["x"])
    if settings["method"] == "_split":
        return {"output": layer._split(x, settings["heads"]).contiguous().numpy()}
    return {"output": layer._merge(x).contiguous().numpy()}


def split(rng):
    settings = {"embed": 12, "heads": 3, "method": "_split"}
    made = []
    for tokens in (5, 1):
        x = rng.normal(size=(2, tokens, 12))
        truth = x.reshape(2, tokens, 3, 4).transpose(0, 2, 1, 3).copy()
        made.append(
            check(f"{tokens} tokens", heads, {"x": x}, settings, expected={"output": truth})
        )
    return made


def merge(rng):
    settings = {"embed": 12, "heads": 3, "method": "_merge"}
    made = []
    for tokens in (5, 1):
        x = rng.normal(size=(2, 3, tokens, 4))
        truth = x.transpose(0, 2, 1, 3).reshape(2, tokens, 12)
        made.append(
            check(f"{tokens} tokens", heads, {"x": x}, settings, expected={"output": truth})
        )
    return made


def whole_layer(inputs, settings):
    """Run the layer with a plain sum in place of `attend`, to check only the layer's own code."""
    import minitorch_attn as mt

    class Kept:
        complete = settings.get("complete", False)

        def __init__(self):
            if self.complete:
                self.key, self.value = mt.tensor(inputs["key"]), mt.tensor(inputs["value"])

        def update(self, key, value):
            return key * 1.5, value * 0.7

    layer = mt.nn.Attention(**settings["make"]).double().eval()
    seen = {}

    def attend(query, key, value, mask=None, bias=None, is_causal=False):
        seen["flag"] = bool(is_causal)
        return query * 2 + key - value * 3 + (0 if bias is None else bias)

    layer.attend = attend
    options = {"is_causal": settings.get("is_causal", False)}
    if settings.get("rotary"):
        options["rotary"] = lambda x: x * 1.25 + 1
    if settings.get("cache"):
        options["cache"] = Kept()
    if "bias" in inputs:
        options["bias"] = mt.tensor(inputs["bias"])
    with mt.no_grad():
        for path, parameter in layer.named_parameters():
            parameter.data = mt.tensor(inputs[f"parameter {path}"])
        memory = mt.tensor(inputs["memory"]) if "memory" in inputs else None
        output = layer(mt.tensor(inputs["x"]), memory, **options)
    return {"output": output.numpy(), "causal": mt.tensor(seen["flag"]).numpy()}


def _layer(rng, name, make, more=None, **settings):
    make = {"embed_dim": 12, "num_heads": 3, **make}
    arrays = {"x": rng.normal(size=(2, 5, 12)), **(more or {})} | parameters(LAYER, make, rng)
    return check(name, whole_layer, arrays, {"make": make, **settings})


def layer(rng):
    memory = {"memory": rng.normal(size=(2, 5, 8))}
    bias = {"bias": rng.normal(size=(3, 5, 4))}
    return [
        _layer(rng, "self-attention", {}),
        _layer(rng, "a memory", {"memory_dim": 8}, memory),
        _layer(rng, "a bias, and the causal flag", {"head_dim": 4}, bias, is_causal=True),
    ]


def layer_rotary_and_cache(rng):
    kept = {"key": rng.normal(size=(2, 3, 5, 4)), "value": rng.normal(size=(2, 3, 5, 4))}
    return [
        _layer(rng, "rotary", {}, rotary=True),
        _layer(rng, "a cache", {}, rotary=True, cache=True),
        _layer(rng, "a complete cache", {}, kept, cache=True, complete=True),
    ]
