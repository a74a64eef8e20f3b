"""Every argument that takes a mask, with every form of a mask: which token influences which.

What a query may attend to is read from gradients: row i of the output depends on token j of
the source exactly where the pattern says so.
"""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import masks, nn
from minitorch_attn.ops import attention_composed

BATCH, HEADS, QUERY, KEY, EMBED = 2, 3, 4, 4, 6
PATTERN = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]], bool)
KEYS = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], bool)  # which keys of each batch item are real


def influence(output, source):
    """(batch, query, key): does output[b, i] depend on source[b, j]?"""
    result = np.zeros((BATCH, QUERY, KEY), bool)
    for i in range(QUERY):
        cotangent = np.zeros(output.shape)
        cotangent[..., i, :] = np.random.default_rng(i).normal(size=output.shape[-1])
        cotangent = mt.tensor(cotangent, device=output.device)
        (grad,) = mt.autograd.grad(output, source, cotangent, retain_graph=True)
        found = abs(grad.numpy()).max(-1) > 1e-12  # (batch, key) or (batch, heads, key)
        result[:, i] = found if found.ndim == 2 else found.all(1)
    return result


def attention_module(device):
    return nn.MultiheadAttention(EMBED, HEADS, batch_first=True, dtype=mt.float64, device=device)


def decoder_layer(device, **options):
    return nn.TransformerDecoderLayer(
        EMBED, HEADS, 5, 0.0, batch_first=True, dtype=mt.float64, device=device, **options
    )


# Each function: run(make, device, mask) -> output, source.


def fused_function(make, device, mask):
    query, key, value = (make(BATCH, HEADS, QUERY, 2) for _ in range(3))
    return nn.functional.scaled_dot_product_attention(query, key, value, mask), value


def composed_function(make, device, mask):
    query, key, value = (make(BATCH, HEADS, QUERY, 2) for _ in range(3))
    return attention_composed(query, key, value, mask), value


def module_with_weights(make, device, mask, name="attn_mask"):
    x, source = make(BATCH, QUERY, EMBED), make(BATCH, KEY, EMBED)
    return attention_module(device)(x, source, source, **{name: mask})[0], source


def module_without_weights(make, device, mask, name="attn_mask"):
    x, source = make(BATCH, QUERY, EMBED), make(BATCH, KEY, EMBED)
    module = attention_module(device)
    return module(x, source, source, need_weights=False, **{name: mask})[0], source


def memory_of_a_decoder_layer(make, device, mask, name="memory_mask"):
    x, memory = make(BATCH, QUERY, EMBED), make(BATCH, KEY, EMBED)
    return decoder_layer(device)(x, memory, **{name: mask}), memory


def memory_of_a_transformer(make, device, mask, name="memory_mask"):
    layers = {"num_encoder_layers": 0, "num_decoder_layers": 1, "dim_feedforward": 5}
    model = nn.Transformer(
        EMBED, HEADS, **layers, dropout=0.0, batch_first=True, dtype=mt.float64, device=device
    )
    memory = make(BATCH, KEY, EMBED)
    return model(memory, make(BATCH, QUERY, EMBED), **{name: mask}), memory


BLOCKED = {
    "bool tensor, True = blocked": lambda attend, d: mt.tensor(~attend, device=d),
    "float tensor, added": lambda attend, d: mt.tensor(np.where(attend, 0, -np.inf), device=d),
}
ATTEND = {
    "bool tensor, True = attend": lambda attend, d: mt.tensor(attend, device=d),
    "float tensor, added": BLOCKED["float tensor, added"],
}
MASK = {
    "Mask from attend": lambda attend, d: masks.from_attend(mt.tensor(attend, device=d)),
    "Mask from blocked": lambda attend, d: masks.from_blocked(mt.tensor(~attend, device=d)),
}
FUNCTIONS = [fused_function, composed_function]
MODULES = [
    module_with_weights, module_without_weights, memory_of_a_decoder_layer,
    memory_of_a_transformer,
]  # fmt: skip
WAYS = [(run, form) for run in FUNCTIONS for form in (ATTEND | MASK).items()]
WAYS += [(run, form) for run in MODULES for form in (BLOCKED | MASK).items()]


def label(value):
    return value.__name__ if callable(value) else value if isinstance(value, str) else value[0]


@pytest.mark.parametrize("run, form", WAYS, ids=label)
def test_patterns_of_queries_and_keys(make, device, run, form):
    mask = form[1](PATTERN, device)
    output, source = run(make, device, mask)
    np.testing.assert_array_equal(influence(output, source), np.stack([PATTERN] * BATCH))


PADDING = BLOCKED | {
    "Mask of lengths": None,
    "Mask from key padding": lambda attend, d: masks.from_key_padding(mt.tensor(~attend, device=d)),
}
PADDING_ARGUMENTS = [
    (module_with_weights, "key_padding_mask"),
    (module_without_weights, "key_padding_mask"),
    (memory_of_a_decoder_layer, "memory_key_padding_mask"),
    (memory_of_a_transformer, "memory_key_padding_mask"),
]


@pytest.mark.parametrize("form", list(PADDING))
@pytest.mark.parametrize("run, name", PADDING_ARGUMENTS, ids=label)
def test_padding(make, device, run, name, form):
    keys = KEYS if PADDING[form] else np.arange(KEY) < np.array([[2], [4]])
    mask = PADDING[form](keys, device) if PADDING[form] else masks.padding([2, 4], device=device)
    output, source = run(make, device, mask, name)
    expected = np.broadcast_to(keys[:, None], (BATCH, QUERY, KEY))
    np.testing.assert_array_equal(influence(output, source), expected)


@pytest.mark.parametrize("form", list(BLOCKED | MASK))
def test_self_attention_of_an_encoder_layer(make, device, form):
    layer = nn.TransformerEncoderLayer(
        EMBED, HEADS, 5, 0.0, batch_first=True, dtype=mt.float64, device=device
    )
    x = make(BATCH, QUERY, EMBED)
    output = layer(x, src_mask=(BLOCKED | MASK)[form](PATTERN, device))
    expected = PATTERN | np.eye(QUERY, dtype=bool)  # each token sees itself by the residual path
    np.testing.assert_array_equal(influence(output, x), np.stack([expected] * BATCH))


@pytest.mark.parametrize("form", list(BLOCKED | MASK))
def test_self_attention_of_a_decoder_layer(make, device, form):
    x, memory = make(BATCH, QUERY, EMBED), make(BATCH, KEY, EMBED)
    output = decoder_layer(device)(x, memory, tgt_mask=(BLOCKED | MASK)[form](PATTERN, device))
    expected = PATTERN | np.eye(QUERY, dtype=bool)
    np.testing.assert_array_equal(influence(output, x), np.stack([expected] * BATCH))


def test_masked_softmax_reads_a_mask(make, device):
    scores = make(BATCH, HEADS, QUERY, KEY)
    for mask in (masks.from_attend(PATTERN).to(device), mt.tensor(PATTERN, device=device)):
        weights = mt.masked_softmax(scores, mask).detach().numpy()
        np.testing.assert_array_equal(weights > 0, np.broadcast_to(PATTERN, weights.shape))
