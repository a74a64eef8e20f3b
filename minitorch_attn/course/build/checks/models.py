"""Checks of steps 4 to 7 of `mta build`: from the bigram model to the GPT."""

import itertools
import math

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


def _batch(part):
    def mine(m, ids):
        return m.batch(ids, 3, 5, np.random.default_rng([7, 0]))[part]

    return mine


def _batch_by_library(part):
    return lambda ids: next(TextBatches(ids, 3, 5, seed=7))[part].numpy()


def _batch_shapes(m, ids):
    found = m.batch(ids, 3, 5, np.random.default_rng(7))
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise TypeError("it must return two arrays: inputs, targets")
    for name, part in zip(("inputs", "targets"), found, strict=True):
        if part.shape != (3, 5):
            raise ValueError(f"{name}: shape {part.shape} instead of (3, 5)")
    return []


_SCORES = np.random.default_rng(0).normal(size=(5, 5)) * 3


def _sampled(m, start=(1, 2), rng=None, dtype=np.float64):
    table, rng = _SCORES.astype(dtype), rng or np.random.default_rng(3)
    return m.sample(lambda ids: m.Tensor(table[ids]), start, 40, 1, rng)


def _sampled_by_library():
    table, rng, ids = _SCORES, np.random.default_rng(3), [1, 2]
    for _ in range(40):
        p = ops.softmax(tensor(table[ids[-1]] / 0.8), -1).numpy()
        ids.append(int(rng.choice(5, p=p)))
    return ids


def _sampled_types(m):
    """Return the type of the result of `sample`, and whether the caller's ids are unchanged."""
    start = [1, 2]
    found = _sampled(m, start)
    return [type(found).__name__, "unchanged" if start == [1, 2] else f"{len(start)} ids"]


class _WatchedGenerator(np.random.Generator):
    """Random number generator that records the dtype of the probabilities that `choice` gets."""

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))
        self.dtypes = set()

    def choice(self, a, *arguments, p=None, **options):
        self.dtypes.add(str(np.asarray(p).dtype))
        return super().choice(a, *arguments, p=p, **options)


def _sampled_dtypes(m):
    """Return the dtypes of the probabilities that `sample` computes from float32 logits."""
    rng = _WatchedGenerator(3)
    _sampled(m, [1, 2], rng, np.float32)
    return [" and ".join(sorted(rng.dtypes))]


def _windows_seen(m):
    seen = []

    def model(ids):
        seen.append(str(tuple(ids.shape)))
        return m.Tensor(np.zeros((*ids.shape, 5)))

    m.sample(model, [1, 2], 4, 3, np.random.default_rng(3))
    return seen


def _once(table, ids, cotangent):
    """Return what `grad[ids] += g` computes: if an id is repeated, only its last row counts."""
    grad = np.zeros_like(table)
    grad[ids] = cotangent
    return grad


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
    Check("batch", "plain", with_ids(normal(), 99, (50,)), _batch(0), _batch_by_library(0),
          "the inputs of 3 windows of 5", mistakes={"they are the targets": _batch_by_library(1)}),
    Check("batch", "plain", with_ids(normal(), 99, (50,)), _batch(1), _batch_by_library(1),
          "the targets of 3 windows of 5",
          mistakes={"they equal the inputs: target t is the id after input t, ids[start + t + 1]":
                    _batch_by_library(0)}),
    Check("embedding", "tensor", with_ids(normal(table=(5, 3)), 5, (2, 7)),
          lambda m, table, ids: m.embedding(table, ids),
          lambda table, ids: F.embedding(tensor(ids), table),
          "a table (5, 3), 14 ids, most of them repeated",
          wrong_gradients={"an id that occurs several times counts once: use np.add.at": _once}),
    Check("sample", "plain", normal(), lambda m: _sampled(m, [1, 2]), _sampled_by_library,
          "40 ids sampled after [1, 2], with a context of 1"),
    Check("sample", "plain", normal(), lambda m: _sampled(m, np.array([1, 2])),
          _sampled_by_library, "40 ids sampled after np.array([1, 2]), with a context of 1"),
    Check("sample", "plain", normal(), _sampled_types, lambda: ["list", "unchanged"],
          "the type of the result, and the list of ids that the caller passed"),
    Check("sample", "plain", normal(), _sampled_dtypes, lambda: ["float64"],
          "the dtype of the p that rng.choice gets, for a model that returns float32"),
    Check("sample", "plain", normal(), _windows_seen, lambda: ["(1, 2)"] + 3 * ["(1, 3)"],
          "the shapes of the windows that the model gets, with a context of 3"),
]  # fmt: skip

# Steps 5 and 6

_QKV = normal(query=(2, 3, 5), key=(2, 7, 5), value=(2, 7, 2))


def _hidden(n):
    return np.where(np.arange(n) % 3 == 1, -np.inf, 0.0).astype(np.float32)


_ADDED = np.random.default_rng(5).normal(size=(3, 7)).astype(np.float32)


def _attend(query, key, value, scale=None, mask=None):
    mask = None if mask is None else tensor(mask.astype(np.float64))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


_ATTENTION = [
    Check("linear", "module", normal(x=(2, 3, 5), weight=(7, 5), bias=(7,)),
          lambda m, x, p: m.linear(x, p), lambda: nn.Linear(5, 7), "x (2, 3, 5), weight (7, 5)"),
    Check("attention", "tensor", _QKV, lambda m, **t: m.attention(**t), _attend,
          "3 queries, 7 keys",
          mistakes={"the scores are not divided by sqrt(d)": lambda **t: _attend(**t, scale=1.0),
                    "the scores are divided by d, not by sqrt(d)":
                    lambda **t: _attend(**t, scale=0.2)}),
    Check("attention", "tensor", _QKV, lambda m, **t: m.attention(**t, mask=_hidden(7)),
          lambda **t: F.scaled_dot_product_attention(**t, attn_mask=tensor(_hidden(7) == 0.0)),
          "with a mask that hides the keys 1 and 4"),
    Check("attention", "tensor", _QKV, lambda m, **t: m.attention(**t, mask=_ADDED),
          lambda **t: _attend(**t, mask=_ADDED),
          "with a mask (3, 7) of random numbers, which are added to the scaled scores",
          mistakes={"the mask is added before the division by sqrt(d); add it after":
                    lambda **t: _attend(**t, mask=np.float64(_ADDED) / math.sqrt(5))}),
]  # fmt: skip


def _attention_module():
    attention = nn.Attention(6, HEADS)
    attention.forward = lambda x: nn.Attention.forward(attention, x, is_causal=True)
    return attention


def drawn(build, **inputs):
    """Return a function that draws both the inputs and the parameters of a module.

    `build()` returns the module. `inputs` contains the shape of each input by name.
    """

    def draw(rng):
        state = {name: rng.normal(size=p.shape) * 0.5 for name, p in build().named_parameters()}
        return {**{name: rng.normal(size=size) for name, size in inputs.items()}, **state}

    return draw


def _allowed(m):
    mask = m.causal_mask(5)
    if np.isnan(mask).any():
        raise ValueError(
            "the mask contains NaN: 0 * -inf is NaN, so build the mask with np.where or np.triu"
        )
    return np.exp(mask)


_SEVERAL = [
    Check("causal_mask", "plain", normal(), _allowed,
          lambda: np.tril(np.ones((5, 5))), "exp(mask): 1 where query i may see key j"),
    Check("causal_mask", "plain", normal(), lambda m: [str(m.causal_mask(3).dtype)],
          lambda: ["float32"], "the dtype of the mask"),
    Check("split_heads", "tensor", normal(x=(2, 3, 8)), lambda m, x: m.split_heads(x, 4),
          lambda x: x.reshape(2, 3, 4, 2).transpose(1, 2), "(2, 3, 8) -> (2, 4, 3, 2)",
          mistakes={"one reshape mixes tokens and heads: reshape to (2, 3, 4, 2), then swap":
                    lambda x: x.reshape(2, 4, 3, 2)}),
    Check("merge_heads", "tensor", normal(x=(2, 4, 3, 5)), lambda m, x: m.merge_heads(x),
          lambda x: x.transpose(1, 2).reshape(2, 3, 20), "(2, 4, 3, 5) -> (2, 3, 20)",
          mistakes={"the axes of heads and tokens are not swapped before the reshape":
                    lambda x: x.reshape(2, 3, 20)}),
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
    """Describe each parameter that `initialize` returns: name, shape, dtype and spread."""
    p, lines = m.initialize(11, 13, 64, 2, np.random.default_rng(0)), []
    _refuse_shared(p)
    for name, t in flat(p):
        lines.append(f"{name} {t.data.shape} {t.data.dtype} {_spread(t.data)}")
        if t.parents != ():
            raise ValueError(
                f"{name} was computed from another Tensor: scale the array, then make the Tensor"
            )
    return sorted(lines)


def _refuse_shared(p):
    """Raise an error if the parameters p contain a block, a Tensor or an array twice."""
    blocks = p["blocks"]
    pairs = itertools.combinations(range(len(blocks)), 2)
    for i, j in pairs:
        if blocks[i] is blocks[j]:
            raise ValueError(f"block {i} and block {j} are the same object: make a new dict, with "
                             "new Tensors, for every layer")  # fmt: skip
    for (name, one), (other, two) in itertools.combinations(flat(p), 2):
        if one is two:
            raise ValueError(f"{name} and {other} are the same Tensor: make two Tensors")
        if np.shares_memory(one.data, two.data):
            raise ValueError(f"{name} and {other} share one array: training would change both")


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
