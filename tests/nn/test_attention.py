"""Attention with every option equals its definition; with a cache, the whole sequence at once."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, GraphError
from minitorch_attn.gradcheck import gradcheck

BATCH, QUERIES, KEYS, EMBED, MEMORY = 2, 5, 7, 12, 11


def block(device, **options):
    mt.manual_seed(3)
    return mt.nn.Attention(EMBED, 6, **options).double().to(device)


def by_hand(attention, x, memory, mask=None, bias=None):
    """The definition, head by head, in NumPy."""
    parameters = {name: p.numpy() for name, p in attention.named_parameters()}

    def project(name, value):
        return value @ parameters[f"{name}.weight"].T + parameters.get(f"{name}.bias", 0)

    d, group = attention.head_dim, attention.num_heads // attention.num_kv_heads
    query, key, value = project("q_proj", x), project("k_proj", memory), project("v_proj", memory)
    contexts, all_weights = [], []
    for head in range(attention.num_heads):
        mine, shared = slice(head * d, (head + 1) * d), head // group
        theirs = slice(shared * d, (shared + 1) * d)
        scores = query[..., mine] @ key[..., theirs].swapaxes(1, 2) * attention.scale
        scores = scores if bias is None else scores + bias[:, head]
        scores = scores if mask is None else np.where(mask, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        all_weights.append(weights)
        contexts.append(weights @ value[..., theirs])
    return project("out_proj", np.concatenate(contexts, -1)), np.stack(all_weights, 1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_kv_heads": 2, "head_dim": 5},
        {"num_kv_heads": 1, "bias": False, "output_dim": 3},
        {"key_bias": False, "scale": 1.0},
        {"bias": False, "out_bias": True, "head_dim": 7},
    ],
)
@pytest.mark.parametrize("watched", [False, True])
def test_equals_the_definition(options, watched, make, device):
    attention = block(device, memory_dim=MEMORY, **options)
    x, memory = make(BATCH, QUERIES, EMBED), make(BATCH, KEYS, MEMORY)
    bias = make(1, 6, QUERIES, KEYS)
    mask = np.arange(KEYS) <= np.arange(QUERIES)[:, None] + 1
    context, weights = by_hand(attention, x.numpy(), memory.numpy(), mask, bias.numpy())
    given = {"mask": mt.tensor(mask, device=device), "bias": bias}
    if watched:
        with mt.nn.collect_attention(attention) as found:
            y = attention(x, memory, **given)
        ((module, seen),) = found
        assert module is attention
        np.testing.assert_allclose(seen.numpy(), weights, atol=1e-14)
    else:
        y = attention(x, memory, **given)
    np.testing.assert_allclose(y.numpy(), context, atol=1e-13)


@pytest.mark.parametrize("watched", [False, True])
def test_gradients(watched, make, device):
    attention = block(device, num_kv_heads=3, dropout=0.0)
    bias, mask = make(1, 6, QUERIES, QUERIES), mt.masks.causal(QUERIES, device=device)
    if watched:
        attention.weight_hooks.append(lambda attention, weights: None)
    parameters = list(attention.parameters())
    x = make(BATCH, QUERIES, EMBED)
    assert gradcheck(lambda x, b, *_: attention(x, mask=mask, bias=b), (x, bias, *parameters))


def test_the_collected_weights_are_part_of_the_graph(make, device):
    attention, x = block(device), make(BATCH, QUERIES, EMBED)
    with mt.nn.collect_attention(attention) as found:
        attention(x)
    (found[0][1] ** 2).sum().backward()
    assert x.grad.abs().max().item() > 0
    assert attention.v_proj.weight.grad is None
    assert attention.weight_hooks == []


def test_the_context_depends_on_the_collected_weights(make, device):
    """Heads that share keys, too: a gradient with respect to the weights arrives at them."""
    attention = block(device, num_kv_heads=2)
    with mt.nn.collect_attention(attention) as found:
        y = attention(make(BATCH, QUERIES, EMBED))
    (grad,) = mt.autograd.grad(y.square().sum(), found[0][1])
    assert grad.shape == (BATCH, 6, QUERIES, QUERIES) and grad.abs().max().item() > 0


@pytest.mark.parametrize("cache", [mt.nn.KVCache, lambda: mt.nn.StaticKVCache(2)])
@pytest.mark.parametrize("chunks", [(1,) * QUERIES, (2, 1, 2), (QUERIES,)])
def test_in_chunks_as_all_at_once(cache, chunks, make, device):
    attention, x, cache = block(device, num_kv_heads=2), make(BATCH, QUERIES, EMBED), cache()
    whole = attention(x, is_causal=True)
    parts, start = [], 0
    with mt.no_grad():
        for n in chunks:
            parts.append(attention(x[:, start : start + n], is_causal=True, cache=cache.layer(0)))
            start += n
            assert cache.length == start
    np.testing.assert_allclose(mt.cat(parts, 1).numpy(), whole.numpy(), atol=1e-14)
    assert len(cache) == 1
    assert cache[0][0].shape == cache[0][1].shape == (BATCH, 2, QUERIES, 2)


def test_padding_counts_the_keys_that_are_held(make, device):
    attention, x, cache = block(device), make(BATCH, QUERIES, EMBED), mt.nn.KVCache()
    attend = mt.tensor(np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool), device=device)
    mask = attend[:, None, None]
    whole = attention(x, is_causal=True, mask=mask).numpy()
    attention(x[:, :3], is_causal=True, mask=mask[..., :3], cache=cache.layer(0))
    last = attention(x[:, 3:], is_causal=True, mask=mask, cache=cache.layer(0)).numpy()
    np.testing.assert_allclose(last, whole[:, 3:], atol=1e-14)


def test_gradients_flow_through_a_growing_cache(make, device):
    attention, x = block(device), make(BATCH, QUERIES, EMBED)
    attention(x, is_causal=True).sum().backward()
    expected, x.grad = x.grad.numpy().copy(), None
    cache = mt.nn.KVCache()
    parts = [
        attention(x[:, i : i + 1], is_causal=True, cache=cache.layer(0)) for i in range(QUERIES)
    ]
    mt.cat(parts, 1).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, atol=1e-13)


def test_the_encoder_is_projected_once(make, device):
    attention, cache = block(device, memory_dim=MEMORY), mt.nn.KVCache()
    x, memory = make(BATCH, QUERIES, EMBED), make(BATCH, KEYS, MEMORY)
    first = attention(x, memory, cache=cache.cross(0))
    held = cache.cross(0).key
    second = attention(x, memory * 0, cache=cache.cross(0))
    assert cache.cross(0).key is held
    np.testing.assert_array_equal(first.numpy(), second.numpy())


@pytest.mark.parametrize("make_cache", [mt.nn.KVCache, lambda: mt.nn.StaticKVCache(9)])
def test_reorder_picks_rows_of_the_batch(make_cache, make, device):
    attention, cache = block(device), make_cache()
    x, memory = make(BATCH, 3, EMBED), make(BATCH, KEYS, EMBED)
    with mt.no_grad():
        attention(x, cache=cache.layer(0))
        attention(x, memory, cache=cache.cross(0))
        before = [t.numpy().copy() for t in cache[0]]
        cache.reorder(mt.tensor([1, 1, 0], device=device))
        for old, new in zip(before, cache[0], strict=True):
            np.testing.assert_array_equal(new.numpy(), old[[1, 1, 0]])
        attention(make(3, 1, EMBED), cache=cache.layer(0))  # and it can be written to again
    assert cache.length == 4
    np.testing.assert_array_equal(cache[0][0].numpy()[:, :, :3], before[0][[1, 1, 0]])


def test_a_static_cache_writes_into_the_same_memory(make, device):
    attention, cache = block(device), mt.nn.StaticKVCache(4)
    with mt.no_grad():
        for n in (1, 2, 3, 4):
            attention(make(BATCH, 1, EMBED), cache=cache.layer(0))
            if n == 1:
                memory = cache.layer(0)._keys
            assert cache.layer(0)._keys is memory
        attention(make(BATCH, 1, EMBED), cache=cache.layer(0))
    assert cache.layer(0)._keys.shape[2] == 8


def test_a_static_cache_refuses_the_graph(make, device):
    attention, cache = block(device), mt.nn.StaticKVCache(4)
    with pytest.raises(GraphError, match="no_grad"):
        attention(make(BATCH, 1, EMBED), cache=cache.layer(0))


def test_past_as_tuples(make, device):
    past = [tuple(make(BATCH, 2, 3, 5) for _ in range(4)) for _ in range(3)]
    cache = mt.nn.KVCache.of(past)
    assert len(cache) == 3 and cache.length == 3
    assert all(a is b for a, b in zip(cache[2], past[2], strict=True))
    assert mt.nn.KVCache.of(cache) is cache and mt.nn.KVCache.of(None) is None
    with pytest.raises(ArgumentError, match="layer 0"):
        mt.nn.KVCache([(past[0][0],)])


def test_a_token_that_sees_nothing_gets_zeros(make, device):
    attention, x = block(device, bias=False), make(BATCH, QUERIES, EMBED)
    nothing = mt.tensor(np.zeros((QUERIES, QUERIES), bool), device=device)
    assert attention(x, mask=nothing).abs().max().item() == 0


def test_rotations_are_applied_once(make, device):
    """Keys are turned before they are kept: the same tokens in chunks give the same scores."""
    attention, x = block(device), make(BATCH, QUERIES, EMBED)
    angles = mt.tensor(np.arange(QUERIES)[:, None] * np.array([[1.0]]), device=device)

    def at(start, stop):
        return lambda t: mt.apply_rotary(t, angles[start:stop].cos(), angles[start:stop].sin())

    whole = attention(x, is_causal=True, rotary=at(0, QUERIES))
    cache = mt.nn.KVCache()
    parts = [
        attention(x[:, a:b], is_causal=True, rotary=at(a, b), cache=cache.layer(0))
        for a, b in ((0, 2), (2, 3), (3, QUERIES))
    ]
    np.testing.assert_allclose(mt.cat(parts, 1).numpy(), whole.numpy(), atol=1e-14)


def test_heads_that_do_not_share_out():
    with pytest.raises(ArgumentError, match="embed_dim=7"):
        mt.nn.Attention(7, 2)
    with pytest.raises(ArgumentError, match="num_kv_heads=4"):
        mt.nn.Attention(6, 6, num_kv_heads=4)


def test_dropout_only_while_training(make, device):
    attention, x = block(device, dropout=0.5), make(BATCH, QUERIES, EMBED)
    still = attention.eval()(x).numpy()
    assert np.abs(attention.train()(x).numpy() - still).max() > 1e-3
    assert math.isclose(attention.scale, 1 / math.sqrt(2))


def test_what_is_collected_from_a_stack(make, device):
    layers = mt.nn.Sequential(block(device), mt.nn.ReLU(), block(device))
    x = make(BATCH, QUERIES, EMBED)
    with mt.nn.collect_outputs(layers) as outputs, mt.nn.collect_attention(layers) as weights:
        y = layers(x)
    assert [module for module, _ in outputs] == list(layers)
    assert outputs[-1][1] is y
    assert [module for module, _ in weights] == [layers[0], layers[2]]
    layers(x)
    assert len(outputs) == 3 and len(weights) == 2


def test_skip_init_leaves_the_generator_alone():
    mt.manual_seed(5)
    expected = mt.randn(3).numpy()
    mt.manual_seed(5)
    with mt.nn.init.skip_init():
        mt.nn.Attention(6, 2)
        assert mt.nn.init.ones_(mt.empty(2)).sum().item() == 2
    np.testing.assert_array_equal(mt.randn(3).numpy(), expected)
