"""Checks of the encoder-decoder assignment: the library computes the expected values."""

import numpy as np

from minitorch_attn.grader.build.checking import check, gradient_check, layer_check

LAYERS = "minitorch_attn.models.encoder_decoder:"
MODEL = "minitorch_attn.models.transformer:Transformer"
SIZES = {"embed_dim": 8, "num_heads": 2, "ff_dim": 12}
MAKE = {
    **SIZES, "vocab_size": 11, "num_encoder_layers": 2, "num_decoder_layers": 2, "pad_id": 0,
    "tie_weights": False, "max_len": 16,
}  # fmt: skip


def around(inputs, settings):
    """Run Residual with three different functions as its norm, dropout and sublayer."""
    import minitorch_attn as mt
    from minitorch_attn.models.encoder_decoder import Residual

    class Map(mt.nn.Module):
        def __init__(self, factor, term):
            super().__init__()
            self.factor, self.term = factor, term

        def forward(self, x):
            return x * x * self.factor + self.term

    path = Residual(4, 0.0, settings["norm_first"], 1e-5)
    path.norm, path.dropout, sublayer = (Map(*pair) for pair in settings["maps"])
    return {"output": path(mt.tensor(inputs["x"]), sublayer).numpy()}


def residual(rng):
    made = []
    for first in (False, True):
        settings = {"norm_first": first, "maps": (0.5 * rng.normal(size=(3, 2))).tolist()}
        made.append(check(f"norm first: {first}", around, {"x": rng.normal(size=(2, 4))}, settings))
    return made


def attend(rng, *shape):
    mask = rng.random(shape) < 0.6
    mask[..., 0] = True
    return mask


def encoder_layer(rng):
    made = []
    for first in (False, True):
        make, x = {**SIZES, "norm_first": first}, {"x": rng.normal(size=(2, 5, 8))}
        mask = {"mask": attend(rng, 2, 1, 5, 5)}
        name = f"norm first: {first}"
        made.append(layer_check(name, LAYERS + "EncoderLayer", make, x, rng, tensors=mask))
    return made


def encoder_layer_gradients(rng):
    made, tokens = [], int(rng.integers(4, 8))
    for first in (False, True):
        make, x = {**SIZES, "norm_first": first}, {"x": rng.normal(size=(2, tokens, 8))}
        mask = {"mask": attend(rng, 2, 1, tokens, tokens)}
        of = layer_check(
            f"norm first: {first}", LAYERS + "EncoderLayer", make, x, rng, tensors=mask
        )
        made.append(gradient_check(of, rng))
    return made


def _decoder(name, rng, norm_first=False, memory=True, **masks):
    make, arguments = {**SIZES, "norm_first": norm_first}, {"x": rng.normal(size=(2, 5, 8))}
    if memory:
        arguments["memory"] = rng.normal(size=(2, 7, 8))
    return layer_check(name, LAYERS + "DecoderLayer", make, arguments, rng, tensors=masks)


def decoder_layer(rng):
    return [_decoder(f"norm first: {first}", rng, first) for first in (False, True)]


def decoder_layer_masks(rng):
    return [
        _decoder("the target's mask", rng, mask=attend(rng, 2, 1, 5, 5)),
        _decoder("the memory's mask", rng, memory_mask=attend(rng, 2, 1, 5, 7)),
        _decoder("no memory", rng, memory=False),
    ]


def decoder_layer_gradients(rng):
    return [gradient_check(_decoder("with a memory", rng, norm_first=True), rng)]


def embedded(inputs, settings):
    """Build a SequenceEmbedding and run its `look_up` if ids are given, otherwise its `place`."""
    import minitorch_attn as mt
    from minitorch_attn.models.encoder_decoder import SequenceEmbedding

    class Norm(mt.nn.Module):
        def forward(self, x):
            return x * x + 0.25

    tokens = mt.nn.Embedding(11, 8).double()
    with mt.no_grad():
        tokens.weight.data = mt.tensor(inputs["weight"])
    positions = mt.nn.SinusoidalPositionalEncoding(8, 16)
    norm = Norm() if settings["norm"] else None
    made = SequenceEmbedding(tokens, positions, settings["scale"], norm).eval()
    if "ids" in inputs:
        return {"output": made.look_up(mt.tensor(inputs["ids"])).detach().numpy()}
    return {"output": made.place(mt.tensor(inputs["x"]), settings["offset"]).numpy()}


def looking_up(rng):
    arrays = {"ids": rng.integers(0, 11, (2, 5)), "weight": rng.normal(size=(11, 8))}
    return [
        check(f"scale {scale}", embedded, arrays, {"scale": scale, "norm": False})
        for scale in (1.0, 2.5)
    ]


def placing(rng):
    arrays = {"x": rng.normal(size=(2, 5, 8)), "weight": rng.normal(size=(11, 8))}
    return [
        check(f"from {offset}", embedded, arrays, {"scale": 1.0, "norm": norm, "offset": offset})
        for offset, norm in ((0, False), (3, False), (2, True))
    ]


def the_mask(inputs, settings):
    """Return the padding mask that a model makes, or False if it does not make one."""
    import numpy as np

    import minitorch_attn as mt

    model = mt.models.Transformer(**settings["make"])
    mask = model.padding_mask(mt.tensor(inputs["source"]))
    return {"output": np.array(False) if mask is None else mask.attend.numpy()}


def source_ids(rng):
    ids = rng.integers(3, 11, (3, 6))
    ids[0, 4:] = ids[2, 2:] = 0
    return ids


def padding_mask(rng):
    makes = [(str(pad), {**MAKE, "pad_id": pad}) for pad in (0, 3, None)]
    return [
        check(f"padding is {pad}", the_mask, {"source": source_ids(rng)}, {"make": make})
        for pad, make in makes
    ]


def _model(name, method, arguments, rng, tensors=None):
    return layer_check(name, MODEL, MAKE, arguments, rng, method=method, tensors=tensors)


def teacher_forcing(rng):
    ids = {"source": source_ids(rng), "target": rng.integers(1, 11, (3, 4))}
    mask = {"source_mask": attend(rng, 3, 1, 1, 6)}
    return [
        _model("padding", "forward", ids, rng),
        _model("a given mask", "forward", ids, rng, mask),
    ]


def teacher_forcing_gradients(rng):
    ids = {"source": source_ids(rng), "target": rng.integers(1, 11, (3, int(rng.integers(3, 7))))}
    return [gradient_check(_model("padding", "forward", ids, rng), rng)]


def decoding(rng):
    arguments = {"target": rng.integers(1, 11, (3, 4)), "memory": rng.normal(size=(3, 6, 8))}
    masks = {
        "source_mask": attend(rng, 3, 1, 1, 6), "target_mask": attend(rng, 3, 1, 4, 4),
    }  # fmt: skip
    return [
        _model("no mask", "decode", arguments, rng),
        _model("two masks", "decode", arguments, rng, masks),
    ]


def by_token(inputs, settings):
    """Return the logits of a target that is passed one token at a time, with a cache."""
    import numpy as np

    import minitorch_attn as mt

    model = mt.models.Transformer(**settings["make"]).double().eval()
    with mt.no_grad():
        for path, parameter in model.named_parameters():
            parameter.data = mt.tensor(inputs[f"parameter {path}"])
        target, memory = mt.tensor(inputs["target"]), mt.tensor(inputs["memory"])
        cache = mt.nn.StaticKVCache(target.shape[1])
        steps = [
            model.decode(target[:, i : i + 1], memory, cache=cache).numpy()
            for i in range(target.shape[1])
        ]
    return {"output": np.concatenate(steps, 1)}


def decoding_with_a_cache(rng):
    arguments = {"target": rng.integers(1, 11, (3, 4)), "memory": rng.normal(size=(3, 6, 8))}
    at_once = _model("", "decode", arguments, rng)
    return [check("4 tokens", by_token, at_once.inputs, {"make": MAKE}, expected=at_once.expected)]


def written(inputs, settings):
    """Run _greedy with a model whose logits depend on the row, the last token and the step."""
    import numpy as np

    import minitorch_attn as mt
    from minitorch_attn.generation.translate import _greedy

    calls = []

    class Scripted:
        def decode(self, token, memory, source_mask=None, target_mask=None, cache=None):
            calls.append(token.shape)
            ids = token.numpy()[:, -1]
            logits = inputs["table"][len(calls) - 1, np.arange(len(ids)), ids]
            return mt.tensor(logits[:, None])

    memory = mt.tensor(inputs["memory"])
    found = _greedy(Scripted(), memory, None, 1, 2, settings["most"])
    return {"output": found.numpy(), "steps": np.array(len(calls))}


def _written(name, rng, most, table=None):
    if table is None:
        table = rng.normal(size=(most + 1, 4, 9, 9))
        table[..., 2] -= 50.0
    return check(name, written, {"table": table, "memory": np.zeros((4, 3, 8))}, {"most": most})


def greedy(rng):
    return [_written("6 tokens", rng, 6), _written("1 token", rng, 1)]


def greedy_end(rng):
    ending = rng.normal(size=(9, 4, 9, 9))
    ending[..., 2] -= 50.0
    for row, step in enumerate((0, 4, 2, 3)):
        ending[step, row, :, 2] += 100.0
    return [_written("each row ends", rng, 8, ending), _written("cut off", rng, 3, ending)]
