"""The Transformer: a NumPy reference, the paper's numbers, masks, cache, gradients."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError, IndexRangeError, ShapeError
from minitorch_attn.generation.translate import translate
from minitorch_attn.models import Transformer, transformer_base, transformer_big


def small(device="cpu", randomise=None, **changes):
    settings = dict(
        vocab_size=11, embed_dim=6, num_heads=2, ff_dim=7, num_encoder_layers=2,
        num_decoder_layers=1, dropout=0.0, max_len=13, pad_id=0,
    )  # fmt: skip
    mt.manual_seed(5)
    model = Transformer(**{**settings, **changes}).double().to(device)
    if randomise is not None:  # the initial values hide biases and norm weights
        for parameter in model.parameters():
            values = randomise.uniform(-1, 1, parameter.shape)
            parameter.data = mt.tensor(values, device=device)
    return model


def count(model):
    return sum(p.array.size for p in model.parameters())


def layers_of(builder):
    """Parameters of the whole model without embeddings; the count is linear in the layers."""
    options = dict(vocab_size=2, max_len=1)

    def at(encoder_layers, decoder_layers):
        layers = dict(num_encoder_layers=encoder_layers, num_decoder_layers=decoder_layers)
        return count(builder(**options, **layers))

    none, encoder, decoder = at(0, 0), at(1, 0), at(0, 1)
    return none, none + 6 * (encoder - none) + 6 * (decoder - none) - none


def test_parameter_counts_of_base_and_big():
    for builder, width, layers, total in [
        (transformer_base, 512, 44_138_496, 63_082_496),
        (transformer_big, 1024, 176_357_376, 214_245_376),
    ]:
        embeddings, found = layers_of(builder)
        assert (embeddings, found) == (2 * width, layers)
        assert layers + 37_000 * width == total


def table_3(width=512, ff=2048, layers=6):
    """Parameters in the layers for a row of Table 3."""
    options = dict(vocab_size=2, embed_dim=width, num_heads=8, ff_dim=ff, max_len=1)
    one = count(Transformer(num_encoder_layers=1, num_decoder_layers=1, **options)) - 2 * width
    return layers * one


@pytest.mark.parametrize(
    ("row", "millions"),
    [
        ({}, 65),
        ({"layers": 2}, 36),
        ({"layers": 4}, 50),
        ({"layers": 8}, 80),
        ({"width": 256}, 28),
        ({"width": 1024}, 168),
        ({"ff": 1024}, 53),
        ({"ff": 4096}, 90),
    ],
)
def test_the_small_rows_of_table_3_agree_on_a_vocabulary_of_41_thousand(row, millions):
    total = table_3(**row) + 41_000 * row.get("width", 512)
    assert abs(total / 1e6 - millions) <= 0.8


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias


class Plain:
    """One sentence through the model with loops over tokens and heads."""

    def __init__(self, model, heads):
        self.w = {name: value.numpy() for name, value in model.state_dict().items()}
        self.heads, self.norm_first = heads, model.encoder.norm is not None

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def normed(self, x, name):
        return layer_norm(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def attention(self, x, memory, name, causal):
        query = self.linear(x, name + ".q_proj")
        key, value = self.linear(memory, name + ".k_proj"), self.linear(memory, name + ".v_proj")
        d, context = x.shape[1], np.zeros_like(x)
        for h in range(self.heads):
            part = slice(h * d // self.heads, (h + 1) * d // self.heads)
            for t in range(len(x)):
                end = t + 1 if causal else len(memory)
                scores = key[:end, part] @ query[t, part] / math.sqrt(d / self.heads)
                weights = np.exp(scores - scores.max())
                context[t, part] = weights / weights.sum() @ value[:end, part]
        return self.linear(context, name + ".out_proj")

    def feed_forward(self, x, name):
        hidden = np.maximum(self.linear(x, name + ".linear1"), 0)
        return self.linear(hidden, name + ".linear2")

    def around(self, x, name, f, *args):
        if self.norm_first:
            return x + f(self.normed(x, name), *args)
        return self.normed(x + f(x, *args), name)

    def embed(self, ids, side):
        table = self.w[side + "_embedding.tokens.weight"]
        d = table.shape[1]
        x = table[ids] * math.sqrt(d)
        for position in range(len(ids)):
            for i in range(0, d, 2):
                angle = position / 10000 ** (i / d)
                x[position, i : i + 2] += math.sin(angle), math.cos(angle)
        return x

    def stack(self, x, memory, name, depth):
        for i in range(depth):
            p = f"{name}.layers.{i}."
            causal = memory is not None
            x = self.around(x, p + "around_attention.norm", self.attend_itself, p, causal)
            if memory is not None:
                x = self.around(x, p + "around_cross_attention.norm", self.attend, memory, p)
            ff = p + "feed_forward"
            x = self.around(x, p + "around_feed_forward.norm", self.feed_forward, ff)
        return self.normed(x, name + ".norm") if self.norm_first else x

    def attend_itself(self, x, layer, causal):
        return self.attention(x, x, layer + "attention", causal)

    def attend(self, x, memory, layer):
        return self.attention(x, memory, layer + "cross_attention", False)

    def logits(self, source, target):
        memory = self.stack(self.embed(source, "source"), None, "encoder", 2)
        x = self.stack(self.embed(target, "target"), memory, "decoder", 1)
        return x @ self.w["head.weight"].T


def padded(rows, device):
    longest = max(map(len, rows))
    return mt.tensor([[*row, *[0] * (longest - len(row))] for row in rows], device=device)


@pytest.mark.parametrize("norm_first", [False, True])
def test_against_a_plain_twin(device, rng, norm_first):
    model = small(device, rng, norm_first=norm_first, target_vocab_size=13)
    sources = [rng.integers(1, 11, size=n) for n in (7, 4, 5)]
    targets = [rng.integers(1, 13, size=n) for n in (3, 5, 4)]
    found = model(padded(sources, device), padded(targets, device)).numpy()
    plain = Plain(model, heads=2)
    for row, source, target in zip(found, sources, targets, strict=True):
        expected = plain.logits(source, target)
        np.testing.assert_allclose(row[: len(target)], expected, rtol=1e-9, atol=1e-11)


def test_a_vocabulary_of_both_languages_is_one_matrix():
    model = small()
    table = model.source_embedding.tokens.weight
    assert model.target_embedding.tokens.weight is table and model.head.weight is table
    assert sum(p is table for p in model.parameters()) == 1
    apart = small(target_vocab_size=13)
    assert apart.source_embedding.tokens.weight.shape == (11, 6)
    assert apart.head.weight is apart.target_embedding.tokens.weight
    assert apart.head.weight.shape == (13, 6)
    free = small(target_vocab_size=11, tie_weights=False)
    assert count(free) == count(model) + 2 * 11 * 6


def test_the_target_sees_neither_its_future_nor_the_padding_of_the_source(device, rng):
    model = small(device, rng)
    source, target = rng.integers(1, 11, size=(1, 7)), rng.integers(1, 11, size=(1, 5))
    later = target.copy()
    later[0, 3] = target[0, 3] % 10 + 1
    before, after = (
        model(mt.tensor(source, device=device), mt.tensor(t, device=device)).numpy()
        for t in (target, later)
    )
    assert (before[0, :3] == after[0, :3]).all()
    assert (before[0, 3:] != after[0, 3:]).all(axis=-1).all()
    longer = np.concatenate([source, np.zeros((1, 3), "int64")], 1)
    same = model(mt.tensor(longer, device=device), mt.tensor(target, device=device)).numpy()
    np.testing.assert_allclose(same, before, rtol=1e-10)
    model.pad_id = None
    seen = model(mt.tensor(longer, device=device), mt.tensor(target, device=device)).numpy()
    assert abs(seen - before).max() > 1e-3


@pytest.mark.parametrize("make_cache", [mt.nn.KVCache, lambda: mt.nn.StaticKVCache(2)])
def test_decoding_with_a_cache_is_decoding_without(device, rng, make_cache):
    model = small(device, rng, num_decoder_layers=3)
    source, target = rng.integers(0, 11, size=(3, 7)), rng.integers(0, 11, size=(3, 5))
    source, target = mt.tensor(source, device=device), mt.tensor(target, device=device)
    with mt.no_grad():
        full = model(source, target).numpy()
        mask = model.padding_mask(source)
        memory, cache, parts = model.encode(source, mask), make_cache(), []
        for start, end in [(0, 1), (1, 4), (4, 5)]:
            parts.append(model.decode(target[:, start:end], memory, mask, cache=cache).numpy())
    np.testing.assert_allclose(np.concatenate(parts, 1), full, rtol=1e-10, atol=1e-12)
    assert cache.length == 5 and len(cache) == 3 and len(cache[0]) == 4


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients(device, rng, norm_first):
    model = small(
        device, rng, num_encoder_layers=1, norm_first=norm_first, activation="gelu", embed_dim=4,
        ff_dim=3,
    )  # fmt: skip
    source = mt.tensor([[3, 4, 9], [7, 2, 0]], device=device)
    target = mt.tensor([[1, 5], [1, 8]], device=device)
    assert gradcheck_module(model, source, target)


def test_the_weights_of_attention_can_be_seen(device, rng):
    model = small(device, rng)
    source = mt.tensor([[3, 4, 9, 1, 5], [7, 2, 6, 0, 0]], device=device)
    target = mt.tensor([[1, 5, 4], [1, 8, 2]], device=device)
    with mt.nn.collect_attention(model.decoder) as found:
        seen = model(source, target).numpy()
    np.testing.assert_allclose(seen, model(source, target).numpy(), rtol=1e-10)
    layer = model.decoder.layers[0]
    assert [attention for attention, _ in found] == [layer.attention, layer.cross_attention]
    own, cross = (weights.numpy() for _, weights in found)
    assert own.shape == (2, 2, 3, 3) and cross.shape == (2, 2, 3, 5)
    assert not np.triu(own, 1).any() and not cross[1, :, :, 3:].any()
    np.testing.assert_allclose(cross.sum(-1), 1)


def test_dropout_only_while_training(device):
    source, target = mt.tensor([[3, 4]], device=device), mt.tensor([[1, 5]], device=device)
    for name in ("dropout", "attention_dropout", "ff_dropout"):
        model = small(device, **{name: 0.5})
        assert (model(source, target).numpy() != model(source, target).numpy()).any()
        model.eval()
        assert (model(source, target).numpy() == model(source, target).numpy()).all()


def test_dropped_layers_are_skipped_only_while_training(device, rng):
    model = small(device, rng)
    x = mt.tensor(rng.uniform(-1, 1, (2, 3, 6)), device=device)
    kept = model.encoder(x).numpy()
    model.encoder.layer_drop = 1.0
    assert (model.encoder(x).numpy() == x.numpy()).all()
    assert (model.eval().encoder(x).numpy() == kept).all()


def test_the_recipe_of_the_paper_learns_to_reverse(rng):
    mt.manual_seed(3)
    model = Transformer(
        8, embed_dim=16, num_heads=2, ff_dim=32, num_encoder_layers=1, num_decoder_layers=1,
        dropout=0.0, pad_id=0, max_len=8,
    )  # fmt: skip
    optimizer = mt.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    schedule = mt.optim.lr_scheduler.NoamLR(optimizer, d_model=16, warmup_steps=60)
    loss_fn = mt.nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    for _ in range(200):
        source, target = reversals(rng, 32)
        logits = model(source, target[:, :-1])
        loss = loss_fn(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    source, target = reversals(rng, 50)
    written = translate(model, source, start_id=1, end_id=2, max_new_tokens=6)
    assert (written.numpy() == target.numpy()[:, 1:]).mean() > 0.9


def reversals(rng, count):
    """Pairs of four letters (3 to 7) and the same backwards, between start (1) and end (2)."""
    source = rng.integers(3, 8, size=(count, 4))
    ends = np.full((count, 1), 1), np.full((count, 1), 2)
    return mt.tensor(source), mt.tensor(np.concatenate([ends[0], source[:, ::-1], ends[1]], 1))


def test_wrong_calls(device):
    with pytest.raises(ArgumentError, match="not divisible by num_heads"):
        Transformer(3, embed_dim=6, num_heads=4)
    model = small(device)
    ids = mt.tensor([[1, 2]], device=device)
    with pytest.raises(ShapeError, match=r"\(batch, token\)"):
        model(ids[0], ids)
    with pytest.raises(IndexRangeError, match="14 tokens"):
        model(mt.zeros(1, 14, dtype=mt.int64, device=device), ids)
