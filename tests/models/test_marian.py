"""Marian: its positions, its vocabularies, cache, gradients."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import IndexRangeError
from minitorch_attn.models import Marian
from minitorch_attn.models.marian import split_sinusoidal_positions


def small(device="cpu", randomise=None, **changes):
    settings = dict(
        vocab_size=11, embed_dim=6, num_heads=2, num_encoder_layers=2, num_decoder_layers=1,
        ff_dim=7, dropout=0.0, max_len=9, pad_id=10,
    )  # fmt: skip
    mt.manual_seed(5)
    model = Marian(**{**settings, **changes}).double().to(device)
    if randomise is not None:
        for parameter in model.parameters():
            values = randomise.uniform(-1, 1, parameter.shape)
            parameter.data = mt.tensor(values, device=device)
    return model


@pytest.mark.parametrize("width", [6, 7])
def test_all_sines_stand_in_front_of_all_cosines(width):
    found = split_sinusoidal_positions(5, width).numpy()
    assert found.dtype == np.float32 and found.shape == (5, width)
    sines = math.ceil(width / 2)
    for position in range(5):
        for i in range(width):
            pair = i if i < sines else i - sines
            angle = position / 10000 ** (2 * pair / width)
            expected = math.sin(angle) if i < sines else math.cos(angle)
            assert found[position, i] == pytest.approx(expected, abs=1e-7)


def test_positions_are_saved_and_not_trained(device, rng):
    model = small(device, rng)
    name = "source_embedding.positions.weight"
    assert name in model.state_dict() and name not in dict(model.named_parameters())
    ids = rng.integers(0, 10, (2, 4))
    expected = model.source_embedding.tokens.weight.numpy()[ids] * math.sqrt(6)
    expected += split_sinusoidal_positions(9, 6).numpy()[3:7]
    found = model.source_embedding(mt.tensor(ids, device=device), offset=3).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(IndexRangeError, match="SplitSinusoidalPositions"):
        model.source_embedding(mt.tensor(ids, device=device), offset=6)


def test_vocabularies():
    one = small()
    assert one.head.weight is one.source_embedding.tokens.weight
    two = small(target_vocab_size=13)
    assert two.head.weight is two.target_embedding.tokens.weight
    assert two.source_embedding.tokens.weight.shape == (11, 6) and two.head.weight.shape == (13, 6)
    free = small(tie_weights=False)
    tables = {id(p) for p in free.parameters() if p.shape == (11, 6)}
    assert len(tables) == 3


def test_swish(device, rng):
    layer = small(device, rng).decoder.layers[0].feed_forward
    x = mt.tensor(rng.uniform(-2, 2, (2, 6)), device=device)
    hidden = layer.linear1(x)
    expected = layer.linear2(hidden * mt.sigmoid(hidden)).numpy()
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-12)


def test_decoding_with_a_cache_is_decoding_without(device, rng):
    model = small(device, rng, target_vocab_size=13, num_decoder_layers=2)
    source = mt.tensor([[3, 4, 9, 5], [7, 2, 10, 10]], device=device)
    target = mt.tensor(rng.integers(0, 13, (2, 7)), device=device)
    full = model(source, target).numpy()
    mask, cache = model.padding_mask(source), mt.nn.KVCache()
    memory = model.encode(source, mask)
    parts = [
        model.decode(target[:, a:b], memory, mask, cache=cache).numpy()
        for a, b in [(0, 1), (1, 5), (5, 7)]
    ]
    np.testing.assert_allclose(np.concatenate(parts, 1), full, rtol=1e-10, atol=1e-12)


def test_gradients(device, rng):
    model = small(device, rng, num_encoder_layers=1, embed_dim=4, ff_dim=3, max_len=3)
    source = mt.tensor([[3, 4, 9], [7, 2, 10]], device=device)
    assert gradcheck_module(model, source, mt.tensor([[9, 5], [6, 8]], device=device))
