"""Image GPT: both objectives, causality, features of the layers, refused calls."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck_module
from minitorch_attn.models.image_gpt import ImageGPT, quick_gelu
from minitorch_attn.nn import KVCache

CLUSTERS, PIXELS, WIDTH = 7, 11, 6


def small(causal=True, **options):
    mt.manual_seed(3)
    model = ImageGPT(CLUSTERS, PIXELS, WIDTH, 3, 2, causal=causal, **options).double()
    mt.nn.init.normal_(model.head.weight, std=0.5)
    return model.eval()


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.fixture
def pixels(rng):
    return mt.tensor(rng.integers(0, CLUSTERS, (3, PIXELS)))


def test_sizes_and_activation(rng):
    model = small()
    assert model.token_embedding.weight.shape == (CLUSTERS + 1, WIDTH)  # and a start token
    assert model.head.weight.shape == (CLUSTERS, WIDTH)
    x = rng.normal(size=(3, 5))
    found = quick_gelu(mt.tensor(x)).numpy()
    np.testing.assert_allclose(found, x / (1 + np.exp(-1.702 * x)), rtol=1e-12)
    assert model.blocks[0].feed_forward.activation is quick_gelu


def test_next_pixel_loss(pixels):
    model = small()
    ids = model.shifted(pixels)
    assert (ids[:, 0] == CLUSTERS).all() and (ids[:, 1:] == pixels[:, :-1]).all()
    log_p = log_softmax(model(ids).detach().numpy())
    each = -np.take_along_axis(log_p, pixels.numpy()[..., None], -1)[..., 0]
    np.testing.assert_allclose(model.next_pixel_loss(pixels).item(), each.mean(), rtol=1e-12)
    none = model.next_pixel_loss(pixels, reduction="none").detach().numpy()
    np.testing.assert_allclose(none, each, rtol=1e-12)


def test_a_new_model_finds_all_clusters_equally_likely(pixels):
    loss = ImageGPT(CLUSTERS, PIXELS, WIDTH, 3, 2).next_pixel_loss(pixels)
    np.testing.assert_allclose(loss.item(), np.log(CLUSTERS), rtol=1e-6)


def test_masked_loss(pixels, rng):
    model, masked = small(causal=False), rng.random((3, PIXELS)) < 0.4
    vectors = model.embed_visible(pixels, mt.tensor(masked)).detach().numpy()
    table = model.token_embedding.weight.detach().numpy()[pixels.numpy()]
    positions = model.position_embedding.weight.detach().numpy()
    np.testing.assert_allclose(vectors, np.where(masked[..., None], 0, table) + positions)
    logits = model.head(model.decode(mt.tensor(vectors))).detach().numpy()
    each = -np.take_along_axis(log_softmax(logits), pixels.numpy()[..., None], -1)[..., 0]
    loss = model.masked_loss(pixels, mt.tensor(masked))
    np.testing.assert_allclose(loss.item(), each[masked].mean(), rtol=1e-12)


def test_what_a_pixel_sees(pixels):
    for causal in (True, False):
        model = small(causal)
        x = model.embed(model.shifted(pixels)).detach()
        x.requires_grad = True
        model.decode(x)[0, 4].sum().backward()
        reached = x.grad[0].abs().sum(-1) > 0
        assert reached[:5].all() and bool(reached[5:].any()) is not causal


def test_hidden_pixels_are_not_seen(pixels, rng):
    model, masked = small(causal=False), mt.tensor(rng.random((3, PIXELS)) < 0.4)
    changed = mt.where(masked, (pixels + 1) % CLUSTERS, pixels)
    first, second = (model.embed_visible(x, masked) for x in (pixels, changed))
    assert (first == second).all()


def test_norms_do_not_subtract_the_mean(rng):
    model = small()
    x = rng.normal(size=(2, 3, WIDTH)) + 5
    for norm in (model.blocks[0].norm1, model.blocks[1].norm2, model.norm):
        expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(norm(mt.tensor(x)).detach().numpy(), expected, rtol=1e-12)


def test_gradients(pixels, rng):
    model = small()
    model.next_pixel_loss(pixels).backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None]
    assert not missing
    vectors = mt.tensor(rng.normal(size=(1, 3, WIDTH)), requires_grad=True)
    assert gradcheck_module(model.blocks[0], vectors)


def test_chunks_through_a_cache(pixels):
    model, cache = small(), KVCache()
    ids = model.shifted(pixels)
    parts = [model(ids[:, a:b], cache) for a, b in ((0, 4), (4, 5), (5, 11))]
    np.testing.assert_allclose(
        mt.cat(parts, 1).detach().numpy(), model(ids).detach().numpy(), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("causal", [True, False])
def test_features_of_every_layer(causal, pixels):
    model = small(causal)
    found = model.features(pixels)
    assert len(found) == 3 and not any(x.requires_grad for x in found)
    x = model.embed(model.shifted(pixels) if causal else pixels)
    for block, features in zip(model.blocks, found, strict=False):
        expected = block.norm1(x).mean(1).detach().numpy()
        np.testing.assert_allclose(features.numpy(), expected, rtol=1e-12)
        x = block(x)
    expected = model.norm(x).mean(1).detach().numpy()
    np.testing.assert_allclose(found[-1].numpy(), expected, rtol=1e-12)


def test_refused_calls(pixels):
    with pytest.raises(ArgumentError, match="causal=False"):
        small(causal=False).next_pixel_loss(pixels)
    masked = mt.zeros(3, PIXELS, dtype=mt.bool)
    with pytest.raises(ArgumentError, match="causal=True"):
        small().masked_loss(pixels, masked)
    with pytest.raises(ShapeError, match="same shape"):
        small(causal=False).masked_loss(pixels, masked[:2])
    with pytest.raises(ArgumentError, match="num_heads"):
        ImageGPT(CLUSTERS, PIXELS, 7, 3, 2)
