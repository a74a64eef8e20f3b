"""Llama: published sizes, a NumPy reference, rotations, shared key heads, longer contexts."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.models import Llama, llama
from minitorch_attn.models.rotary import Rotary, rotary_frequencies

SETTINGS = dict(
    vocab_size=11, embed_dim=6, num_heads=4, num_layers=2, ff_dim=5, num_kv_heads=2, head_dim=4,
    context_length=7, norm_eps=1e-3,
)  # fmt: skip


def small(rng, device="cpu", **changes):
    """A model with every parameter at random: the initial values hide norms and biases."""
    model = Llama(**{**SETTINGS, **changes}).double()
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.uniform(-0.8, 0.8, parameter.shape))
    return model.to(device)


@pytest.mark.parametrize(
    "build, parameters",
    [
        (llama.llama_7b, 6_738_415_616),
        (llama.llama_13b, 13_015_864_320),
        (llama.llama_33b, 32_528_943_616),
        (llama.llama_65b, 65_285_660_672),
        (llama.llama2_70b, 68_976_648_192),
        (llama.llama3_8b, 8_030_261_248),
    ],
)
def test_published_sizes(build, parameters, monkeypatch):
    """From small models: the count is linear in the vocabulary and in the layers."""

    def count(**changes):
        with mt.nn.init.skip_init():
            return sum(p.numel() for p in build(**changes).parameters())

    none = count(vocab_size=1, num_layers=0)
    per_token = count(vocab_size=2, num_layers=0) - none
    per_layer = count(vocab_size=1, num_layers=1) - none
    published = {}

    monkeypatch.setattr(llama, "Llama", lambda **settings: published.update(settings))
    build()
    tokens, layers = published["vocab_size"] - 1, published["num_layers"]
    assert none + tokens * per_token + layers * per_layer == parameters


def rms(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * weight


def turned(x, position):
    """Each pair (i, i + dim / 2) of a vector as a complex number, times exp(i m f)."""
    half = len(x) // 2
    pairs = x[:half] + 1j * x[half:]
    pairs = pairs * np.exp(1j * position * 10000.0 ** (-2 * np.arange(half) / len(x)))
    return np.concatenate([pairs.real, pairs.imag])


def plain_llama(state, ids, heads, kv_heads, head_dim, layers):
    """One sequence through the model, position by position and head by head."""
    w = {name: value.numpy() for name, value in state.items()}
    x = w["token_embedding.weight"][ids]
    n = len(ids)
    for i in range(layers):
        p = f"blocks.{i}."
        y = rms(x, w[p + "norm1.weight"])
        query, key, value = (y @ w[f"{p}attention.{name}_proj.weight"].T for name in "qkv")
        context = np.zeros((n, heads * head_dim))
        for h in range(heads):
            part = slice(h * head_dim, (h + 1) * head_dim)
            shared = h // (heads // kv_heads)
            theirs = slice(shared * head_dim, (shared + 1) * head_dim)
            for t in range(n):
                asked = turned(query[t, part], t)
                scores = np.array([asked @ turned(key[s, theirs], s) for s in range(t + 1)])
                weights = np.exp(scores / math.sqrt(head_dim))
                context[t, part] = weights / weights.sum() @ value[: t + 1, theirs]
        x = x + context @ w[p + "attention.out_proj.weight"].T
        y = rms(x, w[p + "norm2.weight"])
        gate, up = (y @ w[f"{p}feed_forward.{name}.weight"].T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[p + "feed_forward.down.weight"].T
    return rms(x, w["norm.weight"]) @ w["head.weight"].T


def test_against_a_plain_twin(device, rng):
    model = small(rng, device)
    ids = rng.integers(11, size=(3, 5))
    found = model(mt.tensor(ids, device=device)).numpy()
    state = model.state_dict()
    expected = np.stack([plain_llama(state, row, 4, 2, 4, layers=2) for row in ids])
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("cache", [mt.nn.KVCache, lambda: mt.nn.StaticKVCache(3)])
def test_tokens_in_pieces_give_what_they_give_at_once(cache, device, rng):
    model = small(rng, device)
    ids = mt.tensor(rng.integers(11, size=(3, 7)), device=device)
    with mt.no_grad():
        whole, cache = model(ids).numpy(), cache()
        pieces = [model(ids[:, a:b], cache).numpy() for a, b in ((0, 2), (2, 3), (3, 6), (6, 7))]
    np.testing.assert_allclose(np.concatenate(pieces, 1), whole, rtol=1e-10, atol=1e-13)
    assert cache[0][0].shape == (3, 2, 7, 4)  # two key heads are kept, not four


def test_gradients(device, rng):
    model = small(rng, device, num_layers=1, attention_bias=True, ff_bias=True)
    assert gradcheck_module(model, mt.tensor(rng.integers(11, size=(2, 4)), device=device))


def test_biases_and_ties(rng):
    names = dict(small(rng, attention_bias=True, ff_bias=True, tie_weights=True).named_parameters())
    for part in ("attention.q_proj", "attention.out_proj", "feed_forward.gate"):
        assert f"blocks.1.{part}.bias" in names
    assert "head.weight" not in names
    assert not any(name.endswith("bias") for name, _ in small(rng).named_parameters())


def test_ids_of_a_batch(rng):
    with pytest.raises(ShapeError, match=r"\(batch, token\)"):
        small(rng)(mt.tensor([1, 2]))


# Rotary positions


@pytest.mark.parametrize(
    "scaling", [None, {"rope_type": "linear", "factor": 3.0}, {"rope_type": "dynamic", "factor": 2}]
)
def test_products_depend_on_distances_only(scaling, device, rng):
    rotary = Rotary(6, 16, scaling=scaling)
    query, key = (mt.tensor(rng.normal(size=(1, 1, 1, 6)), device=device) for _ in range(2))

    def product(m, n):
        both = rotary(mt.tensor([[m, n, 15]], device=device), "float64")
        vectors = mt.cat((query, key, key), 2)
        turned_query, turned_key, _ = both(vectors).numpy()[0, 0]
        return turned_query @ turned_key

    assert product(9, 4) == pytest.approx(product(5, 0), rel=1e-12)
    assert product(9, 4) != pytest.approx(product(9, 5), rel=1e-3)


def test_the_kinds_of_frequencies():
    plain, _ = rotary_frequencies(8, 16, 100.0)
    np.testing.assert_allclose(plain, 100.0 ** -np.array([0, 0.25, 0.5, 0.75]))
    linear, _ = rotary_frequencies(8, 16, 100.0, {"rope_type": "linear", "factor": 4.0})
    np.testing.assert_allclose(linear, np.array(plain) / 4)
    dynamic = {"rope_type": "dynamic", "factor": 2.0}
    assert rotary_frequencies(8, 16, 100.0, dynamic, length=16)[0] == plain
    longer, _ = rotary_frequencies(8, 16, 100.0, dynamic, length=32)
    # with factor 2 at twice the length the base grows by 3^(8/6): the last pair turns 3 times
    # slower, the first as ever
    assert longer[0] == 1.0 and longer[-1] == pytest.approx(plain[-1] / 3)


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        {"rope_type": "yarn", "factor": 8.0, "beta_fast": 4, "beta_slow": 1, "truncate": False},
    ],
)
def test_slow_pairs_are_squeezed_and_fast_ones_are_not(scaling):
    trained = 64
    scaling = {**scaling, "original_max_position_embeddings": trained}
    plain, found = (np.array(rotary_frequencies(32, 512, 10000.0, s)[0]) for s in (None, scaling))
    turns = trained * plain / (2 * math.pi)
    np.testing.assert_allclose(found[turns >= 4], plain[turns >= 4])
    np.testing.assert_allclose(found[turns <= 1], plain[turns <= 1] / 8)
    between = (turns > 1.2) & (turns < 3.8)
    assert between.any()
    assert (found[between] < plain[between]).all() and (found[between] > plain[between] / 8).all()


def test_the_temperature_of_yarn():
    settings = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    assert rotary_frequencies(8, 64, scaling=settings)[1] == 0.1 * math.log(4) + 1
    given = {**settings, "attention_factor": 1.25}
    assert rotary_frequencies(8, 64, scaling=given)[1] == 1.25
    turn = Rotary(4, 64, scaling=given)(mt.tensor([[0]]), "float64")
    np.testing.assert_allclose(turn(mt.ones(1, 1, 1, 4, dtype="float64")).numpy(), 1.25)


def test_each_row_has_its_own_positions(device, rng):
    x = mt.tensor(rng.normal(size=(2, 3, 2, 4)), device=device)
    positions = np.array([[3, 4], [0, 6]])
    found = Rotary(4, 8)(mt.tensor(positions, device=device), "float64")(x).numpy()
    for row in range(2):
        for head in range(3):
            for t in range(2):
                expected = turned(x.numpy()[row, head, t], positions[row, t])
                np.testing.assert_allclose(found[row, head, t], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "scaling, message",
    [
        ({"rope_type": "longrope"}, "'longrope'"),
        ({"rope_type": "linear"}, r"\['factor'\] missing"),
        ({"rope_type": "default", "factor": 2.0}, r"\['factor'\] unknown"),
    ],
)
def test_settings_that_are_not_known(scaling, message):
    with pytest.raises(ArgumentError, match=message):
        Rotary(4, 8, scaling=scaling)
