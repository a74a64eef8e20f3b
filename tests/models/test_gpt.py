"""GPT: the paper's numbers, a NumPy reference, causality, gradients."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError, IndexRangeError, ShapeError
from minitorch_attn.models import GPT, gpt


def small(device="cpu", **changes):
    settings = dict(vocab_size=11, context_length=7, embed_dim=6, num_heads=2, num_layers=2)
    mt.manual_seed(5)
    return GPT(**{**settings, **changes}).double().to(device)


def count(**settings):
    return sum(p.array.size for p in GPT(**settings).parameters())


@pytest.mark.parametrize(
    "build, parameters, heads",
    [
        (gpt.gpt2, 124_439_808, 12),
        (gpt.gpt2_medium, 354_823_168, 16),
        (gpt.gpt2_large, 774_030_080, 20),
        (gpt.gpt2_xl, 1_557_611_200, 25),
    ],
)
def test_published_sizes(build, parameters, heads):
    with mt.nn.init.skip_init():
        model = build(dropout=0.1)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model.context_length == 1024 and model.token_embedding.num_embeddings == 50257
    attention = model.blocks[-1].attention
    assert (attention.num_heads, attention.head_dim, attention.dropout) == (heads, 64, 0.1)


def test_parameter_count_without_biases_and_ties():
    d, ff, v, t, layers = 6, 10, 11, 7, 2
    bare = count(
        vocab_size=v, context_length=t, embed_dim=d, num_heads=2, num_layers=layers, ff_dim=ff,
        bias=False, tie_weights=False,
    )  # fmt: skip
    assert bare == 2 * v * d + t * d + layers * (4 * d * d + 2 * d * ff + 2 * d) + d


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def plain_gpt(state, ids, heads, layers):
    """One sequence through the model, position by position and head by head."""
    w = {name: value.numpy() for name, value in state.items()}
    x = w["token_embedding.weight"][ids] + w["position_embedding.weight"][: len(ids)]
    n, d = x.shape
    for i in range(layers):
        p = f"blocks.{i}."
        y = layer_norm(x, w[p + "norm1.weight"], w[p + "norm1.bias"])
        query, key, value = (
            y @ w[f"{p}attention.{n}_proj.weight"].T + w[f"{p}attention.{n}_proj.bias"]
            for n in "qkv"
        )
        context = np.zeros((n, d))
        for h in range(heads):
            part = slice(h * d // heads, (h + 1) * d // heads)
            for t in range(n):
                scores = key[: t + 1, part] @ query[t, part] / math.sqrt(d / heads)
                weights = np.exp(scores - scores.max())
                context[t, part] = weights / weights.sum() @ value[: t + 1, part]
        out = p + "attention.out_proj."
        x = x + context @ w[out + "weight"].T + w[out + "bias"]
        y = layer_norm(x, w[p + "norm2.weight"], w[p + "norm2.bias"])
        linear = p + "feed_forward.linear"
        u = y @ w[linear + "1.weight"].T + w[linear + "1.bias"]
        u = 0.5 * u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
        x = x + u @ w[linear + "2.weight"].T + w[linear + "2.bias"]
    return layer_norm(x, w["norm.weight"], w["norm.bias"]) @ w["head.weight"].T


def test_against_a_plain_twin(device, rng):
    model = small(device)
    for parameter in model.parameters():  # the initial values hide biases and norm weights
        values = rng.uniform(-1, 1, parameter.shape)
        parameter.data = mt.tensor(values, device=device)
    ids = rng.integers(11, size=(3, 5))
    found = model(mt.tensor(ids, device=device)).numpy()
    expected = np.stack([plain_gpt(model.state_dict(), row, heads=2, layers=2) for row in ids])
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_no_position_sees_a_later_token(device, rng):
    model = small(device)
    ids = rng.integers(11, size=(1, 7))
    changed = ids.copy()
    changed[0, 4] = (ids[0, 4] + 1) % 11
    before, after = (model(mt.tensor(x, device=device)).numpy() for x in (ids, changed))
    assert (before[0, :4] == after[0, :4]).all()
    assert (before[0, 4:] != after[0, 4:]).all(axis=-1).all()


@pytest.mark.parametrize("cache", [mt.nn.KVCache, lambda: mt.nn.StaticKVCache(3)])
def test_tokens_in_pieces_give_what_they_give_at_once(cache, device, rng):
    model = small(device)
    ids = mt.tensor(rng.integers(11, size=(3, 7)), device=device)
    with mt.no_grad():
        whole, cache = model(ids).numpy(), cache()
        pieces = [model(ids[:, a:b], cache).numpy() for a, b in ((0, 2), (2, 3), (3, 6), (6, 7))]
    np.testing.assert_allclose(np.concatenate(pieces, 1), whole, rtol=1e-10, atol=1e-13)
    assert cache.length == 7
    with pytest.raises(ShapeError, match="after 7 cached tokens"):
        model(ids[:, :1], cache)


def test_padding_changes_nothing(device, rng):
    """A row with padding in front gives what the row gives alone."""
    model = small(device)
    ids = rng.integers(11, size=(1, 4))
    padded = np.concatenate([rng.integers(11, size=(1, 3)), ids], 1)
    positions = mt.tensor([[0, 0, 0, 0, 1, 2, 3]], device=device)
    mask = mt.tensor([[[[False] * 3 + [True] * 4]]], device=device)
    x = model.token_embedding(mt.tensor(padded, device=device)) + model.position_embedding(
        positions
    )
    found = model.head(model.decode(x, mask)).numpy()[:, 3:]
    alone = model(mt.tensor(ids, device=device)).numpy()
    np.testing.assert_allclose(found, alone, rtol=1e-10, atol=1e-13)


def test_gradients(device, rng):
    model = small(device, embed_dim=6, num_heads=3, num_layers=1)
    for parameter in model.parameters():
        values = rng.uniform(-0.7, 0.7, parameter.shape)
        parameter.data = mt.tensor(values, device=device)
    assert gradcheck_module(model, mt.tensor(rng.integers(11, size=(2, 5)), device=device))


def test_the_head_is_the_embedding(device):
    tied, free = small(device), small(device, tie_weights=False)
    assert tied.head.weight is tied.token_embedding.weight
    assert free.head.weight is not free.token_embedding.weight
    assert "head.weight" not in dict(tied.named_parameters())
    assert set(tied.state_dict()) == set(free.state_dict())


def test_the_start_is_that_of_gpt2():
    mt.manual_seed(0)
    model = GPT(vocab_size=300, context_length=64, embed_dim=128, num_heads=4, num_layers=8)
    block = model.blocks[3]
    stds = {
        "token": (model.token_embedding.weight, 0.02),
        "position": (model.position_embedding.weight, 0.02),
        "query": (block.attention.q_proj.weight, 0.02),
        "value": (block.attention.v_proj.weight, 0.02),
        "out": (block.attention.out_proj.weight, 0.02 / 4),
        "up": (block.feed_forward.linear1.weight, 0.02),
        "down": (block.feed_forward.linear2.weight, 0.02 / 4),
    }
    for name, (weight, std) in stds.items():
        assert weight.numpy().std() == pytest.approx(std, rel=0.03), name
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.numpy().any(), name
    ids, targets = mt.randint(0, 300, (4, 64)), mt.randint(0, 300, (256,))
    loss = mt.nn.functional.cross_entropy(model(ids).reshape(-1, 300), targets)
    assert loss.item() == pytest.approx(math.log(300), abs=0.1)


def test_dropout_only_while_training(device):
    model = small(device, dropout=0.5)
    ids = mt.tensor([[1, 2, 3]], device=device)
    assert (model(ids).numpy() != model(ids).numpy()).any()
    model.eval()
    assert (model(ids).numpy() == model(ids).numpy()).all()


def test_wrong_calls(device):
    with pytest.raises(ArgumentError, match="multiple of num_heads"):
        GPT(vocab_size=3, context_length=3, embed_dim=6, num_heads=4, num_layers=1)
    model = small(device)
    with pytest.raises(ShapeError, match="at most 7 tokens"):
        model(mt.zeros(1, 8, dtype=mt.int64, device=device))
    with pytest.raises(ShapeError, match=r"\(batch, token\)"):
        model(mt.zeros(3, dtype=mt.int64, device=device))
    with pytest.raises(IndexRangeError):
        model(mt.tensor([[1, 11]], device=device)).numpy().sum()
        mt.zeros(1, device=device).item()  # on a device the check is read when numbers are
