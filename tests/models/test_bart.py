"""BART: its differences from the Transformer, cache, gradients, initial values."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import IndexRangeError
from minitorch_attn.models import BART


def small(device="cpu", randomise=None, **changes):
    settings = dict(
        vocab_size=11, embed_dim=6, num_heads=2, num_encoder_layers=2, num_decoder_layers=1,
        ff_dim=7, dropout=0.0, max_len=9,
    )  # fmt: skip
    mt.manual_seed(5)
    model = BART(**{**settings, **changes}).double().to(device)
    if randomise is not None:
        for parameter in model.parameters():
            values = randomise.uniform(-1, 1, parameter.shape)
            parameter.data = mt.tensor(values, device=device)
    return model


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_the_embeddings_are_normalised_after_positions_that_begin_at_row_two(device, rng):
    model = small(device, rng, scale_embedding=True)
    stage = model.source_embedding
    ids = rng.integers(2, 11, (3, 4))
    table, rows = stage.tokens.weight.numpy(), stage.positions.weight.numpy()
    assert rows.shape == (9 + 2, 6)
    x = table[ids] * np.sqrt(6) + rows[2 + 3 : 2 + 3 + 4]
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    expected = normal * stage.norm.weight.numpy() + stage.norm.bias.numpy()
    found = stage(mt.tensor(ids, device=device), offset=3).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert model.target_embedding.positions.weight is not stage.positions.weight


def test_it_is_the_transformers_post_norm_stack_with_gelu(device, rng):
    """The same layers between other embeddings: GELU in them, no norm after them."""
    model = small(device, rng)
    assert model.encoder.norm is None and model.decoder.norm is None
    layer = model.encoder.layers[0].feed_forward
    x = mt.tensor(rng.uniform(-2, 2, (2, 6)), device=device)
    expected = layer.linear2(mt.nn.functional.gelu(layer.linear1(x))).numpy()
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-12)


def test_parameter_count():
    d, ff, v = 6, 7, 11
    attention, norm, feed_forward = 4 * (d * d + d), 2 * d, 2 * d * ff + ff + d
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    embeddings = 2 * ((9 + 2) * d + norm)
    assert count(small()) == v * d + embeddings + 2 * encoder + decoder
    assert count(small(tie_weights=False)) == count(small()) + 2 * v * d
    wider = small(decoder_num_heads=3, decoder_ff_dim=10)
    assert count(wider) == count(small()) + 3 * (2 * d + 1)
    assert wider.decoder.layers[0].cross_attention.num_heads == 3


def test_padding_has_no_vector_and_learns_none(device):
    model = small(device)
    table = model.source_embedding.tokens.weight
    assert not table.numpy()[1].any() and table.numpy()[2].any()
    source = mt.tensor([[4, 1, 1]], device=device)
    model.source_embedding(source).sum().backward()
    assert not table.grad.numpy()[1].any()


def test_decoding_with_a_cache_is_decoding_without(device, rng):
    model = small(device, rng, num_decoder_layers=2)
    source = mt.tensor([[3, 4, 9, 5], [7, 2, 1, 1]], device=device)
    target = mt.tensor(rng.integers(2, 11, (2, 7)), device=device)
    full = model(source, target).numpy()
    mask, cache = model.padding_mask(source), mt.nn.KVCache()
    memory = model.encode(source, mask)
    parts = [
        model.decode(target[:, a:b], memory, mask, cache=cache).numpy()
        for a, b in [(0, 3), (3, 4), (4, 7)]
    ]
    np.testing.assert_allclose(np.concatenate(parts, 1), full, rtol=1e-10, atol=1e-12)
    with pytest.raises(IndexRangeError, match="3 tokens"):
        model.decode(target[:, :3], memory, mask, cache=cache)


def test_gradients(device, rng):
    model = small(device, rng, num_encoder_layers=1, embed_dim=4, ff_dim=3, max_len=3)
    source = mt.tensor([[3, 4, 9], [7, 2, 1]], device=device)
    assert gradcheck_module(model, source, mt.tensor([[2, 5], [2, 8]], device=device))


def test_the_start():
    model = small(embed_dim=96, ff_dim=200, vocab_size=300)
    layer = model.decoder.layers[0]
    weights = [layer.cross_attention.k_proj.weight, layer.feed_forward.linear1.weight]
    for weight in [*weights, model.source_embedding.tokens.weight, model.head.weight]:
        assert weight.numpy().std() == pytest.approx(0.02, rel=0.05)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.numpy().any(), name
