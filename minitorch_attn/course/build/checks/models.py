"""Checks of steps 4 to 7: from the bigram model to the GPT."""

import numpy as np

from .... import models, nn, ops
from ....data import CharTokenizer, TextBatches
from ....models.gpt import Block
from ....nn import functional as F
from ....tensor import tensor
from ..trees import flat
from .check import Check, normal, with_ids

__all__ = ["CHECKS", "HEADS", "drawn", "small_gpt"]

TEXT = "the cat sat on the mat; the dog did not."
HEADS = 2

# Step 4


def _batch(m, ids):
    return np.stack(m.batch(ids, 3, 5, np.random.default_rng([7, 0])))


def _batch_shapes(m, ids):
    found = m.batch(ids, 3, 5, np.random.default_rng(7))
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise TypeError("it must return two arrays: inputs, targets")
    for name, part in zip(("inputs", "targets"), found, strict=True):
        if part.shape != (3, 5):
            raise ValueError(f"{name}: shape {part.shape} instead of (3, 5)")
    return []


def _sampled(m):
    table = np.random.default_rng(0).normal(size=(5, 5)) * 3
    return m.sample(lambda ids: m.Tensor(table[ids]), [1, 2], 40, 1, np.random.default_rng(3))


def _sampled_by_library():
    table, rng, ids = (
        np.random.default_rng(0).normal(size=(5, 5)) * 3,
        np.random.default_rng(3),
        [1, 2],
    )
    for _ in range(40):
        p = ops.softmax(tensor(table[ids[-1]] / 0.8), -1).numpy()
        ids.append(int(rng.choice(5, p=p)))
    return ids


def _windows_seen(m):
    seen = []

    def model(ids):
        seen.append(str(tuple(ids.shape)))
        return m.Tensor(np.zeros((*ids.shape, 5)))

    m.sample(model, [1, 2], 4, 3, np.random.default_rng(3))
    return seen


_TOKENS = CharTokenizer.from_text(TEXT)
_BIGRAM = [
    Check("vocabulary", "plain", normal(), lambda m: [m.vocabulary(TEXT)],
          lambda: [_TOKENS.vocabulary], repr(TEXT)),
    Check("encode", "plain", normal(), lambda m: m.encode("a cat", " act"),
          lambda: np.array([1, 0, 2, 1, 3]), "'a cat' with the characters ' act'"),
    Check("encode", "plain", normal(), lambda m: [type(m.encode("a", "a")).__name__],
          lambda: [np.ndarray.__name__], "the type of the result"),
    Check("decode", "plain", normal(), lambda m: [m.decode([1, 0, 2, 1, 3], " act")],
          lambda: ["a cat"], "[1, 0, 2, 1, 3] with the characters ' act'"),
    Check("batch", "plain", with_ids(normal(), 99, (50,)), _batch_shapes, lambda ids: [],
          "the shapes of inputs and targets: 3 windows of 5"),
    Check("batch", "plain", with_ids(normal(), 99, (50,)), _batch,
          lambda ids: np.stack([t.numpy() for t in next(TextBatches(ids, 3, 5, seed=7))]),
          "inputs and targets of 3 windows of 5"),
    Check("embedding", "tensor", with_ids(normal(table=(5, 3)), 5, (2, 7)),
          lambda m, table, ids: m.embedding(table, ids),
          lambda table, ids: F.embedding(tensor(ids), table),
          "a table (5, 3), 14 ids, most of them repeated"),
    Check("sample", "plain", normal(), _sampled, _sampled_by_library,
          "40 ids with a context of 1, after [1, 2]"),
    Check("sample", "plain", normal(), _windows_seen, lambda: ["(1, 2)"] + 3 * ["(1, 3)"],
          "the shapes of the windows that the model gets, with a context of 3"),
]  # fmt: skip

# Steps 5 and 6

_QKV = normal(query=(2, 3, 5), key=(2, 7, 5), value=(2, 7, 2))


def _hidden(n):
    return np.where(np.arange(n) % 3 == 1, -np.inf, 0.0).astype(np.float32)


_ATTENTION = [
    Check("linear", "module", normal(x=(2, 3, 5), weight=(7, 5), bias=(7,)),
          lambda m, x, p: m.linear(x, p), lambda: nn.Linear(5, 7), "x (2, 3, 5), weight (7, 5)"),
    Check("attention", "tensor", _QKV, lambda m, **t: m.attention(**t),
          F.scaled_dot_product_attention, "3 queries, 7 keys"),
    Check("attention", "tensor", _QKV, lambda m, **t: m.attention(**t, mask=_hidden(7)),
          lambda **t: F.scaled_dot_product_attention(**t, attn_mask=tensor(_hidden(7) == 0.0)),
          "with a mask that hides the keys 1 and 4"),
]  # fmt: skip


def _attention_module():
    attention = nn.Attention(6, HEADS)
    attention.forward = lambda x: nn.Attention.forward(attention, x, is_causal=True)
    return attention


def drawn(build, **inputs):
    """Draw inputs, and values for all parameters of a module."""

    def draw(rng):
        state = {name: rng.normal(size=p.shape) * 0.5 for name, p in build().named_parameters()}
        return {**{name: rng.normal(size=size) for name, size in inputs.items()}, **state}

    return draw


_SEVERAL = [
    Check("causal_mask", "plain", normal(), lambda m: np.exp(m.causal_mask(5)),
          lambda: np.tril(np.ones((5, 5))), "exp(mask): 1 where query i may see key j"),
    Check("causal_mask", "plain", normal(), lambda m: [str(m.causal_mask(3).dtype)],
          lambda: ["float32"], "the dtype of the mask"),
    Check("split_heads", "tensor", normal(x=(2, 3, 8)), lambda m, x: m.split_heads(x, 4),
          lambda x: x.reshape(2, 3, 4, 2).transpose(1, 2), "(2, 3, 8) -> (2, 4, 3, 2)"),
    Check("merge_heads", "tensor", normal(x=(2, 4, 3, 5)), lambda m, x: m.merge_heads(x),
          lambda x: x.transpose(1, 2).reshape(2, 3, 20), "(2, 4, 3, 5) -> (2, 3, 20)"),
    Check("multi_head", "module", drawn(_attention_module, x=(2, 5, 6)),
          lambda m, x, p: m.multi_head(x, p, HEADS), _attention_module, "5 tokens, 2 heads",
          mistakes={"the causal mask is missing": lambda: nn.Attention(6, HEADS)}),
]  # fmt: skip
# Step 7


def _block():
    return Block(6, HEADS, 24)


def small_gpt():
    return models.GPT(vocab_size=7, context_length=5, embed_dim=6, num_heads=HEADS, num_layers=2)


def _initialized(m):
    """Describe every parameter in words."""
    lines = []
    for name, t in flat(m.initialize(11, 13, 64, 2, np.random.default_rng(0))):
        lines.append(f"{name} {t.data.shape} {t.data.dtype} {_spread(t.data)}")
        if t.parents != ():
            raise ValueError(
                f"{name} was computed from another Tensor: multiply the array, then make the Tensor"
            )
    return sorted(lines)


def _spread(x):
    if not x.std():
        return f"all {x.ravel()[0]:g}"
    known = {"0.02": 0.02, "0.02 / sqrt(2 layers)": 0.01}
    close = [name for name, std in known.items() if abs(x.std() / std - 1) < 0.15]
    return f"standard deviation {close[0] if close else f'{x.std():.2g}'}"


def _initialized_by_library():
    gpt = models.GPT(vocab_size=11, context_length=13, embed_dim=64, num_heads=4, num_layers=2)
    names = gpt.named_parameters()
    return sorted(f"{n} {p.shape} {p.dtype} {_spread(p.detach().numpy())}" for n, p in names)


_BLOCKS = [
    Check("layer_norm", "module", drawn(lambda: nn.LayerNorm(5), x=(2, 3, 5)),
          lambda m, x, p: m.layer_norm(x, p), lambda: nn.LayerNorm(5), "(2, 3, 5)"),
    Check("gelu", "tensor", normal(x=(3, 7)), lambda m, x: m.gelu(x * 2.0),
          lambda x: F.gelu(x * 2.0, approximate="tanh"), "(3, 7)"),
    Check("block", "module", drawn(_block, x=(2, 5, 6)), lambda m, x, p: m.block(x, p, HEADS),
          _block, "(2, 5, 6), 2 heads"),
    Check("gpt", "module", with_ids(drawn(small_gpt), 7, (2, 4)),
          lambda m, ids, p: m.gpt(ids, p, HEADS), small_gpt,
          "2 blocks, ids (2, 4), a context of 5"),
    Check("initialize", "plain", normal(), _initialized, _initialized_by_library,
          "initialize(11, 13, 64, 2, rng): names, shapes, dtypes and standard deviations"),
]  # fmt: skip

CHECKS = [*_BIGRAM, *_ATTENTION, *_SEVERAL, *_BLOCKS]
