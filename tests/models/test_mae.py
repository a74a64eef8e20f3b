"""MAE: masking, patches and their inverse, what the encoder sees, the loss, and learning."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.models import MaskedAutoencoder
from minitorch_attn.models.mae import patchify, random_masking, unpatchify
from minitorch_attn.models.vit_positions import sincos_positions
from minitorch_attn.nn.init import skip_init

BATCH, CHANNELS, PATCH, GRID = 3, 2, (2, 3), (3, 2)
PATCHES = 6


def small(device="cpu", **changes):
    settings = dict(
        image_size=(6, 6), patch_size=PATCH, embed_dim=8, num_layers=1, num_heads=2, mlp_dim=11,
        in_channels=CHANNELS, decoder_dim=4, decoder_layers=2, decoder_heads=1,
        decoder_mlp_dim=7, mask_ratio=0.5,
    )  # fmt: skip
    mt.manual_seed(5)
    return MaskedAutoencoder(**{**settings, **changes}).double().to(device)


@pytest.fixture
def images(rng, device):
    return mt.tensor(rng.normal(size=(BATCH, CHANNELS, 6, 6)), device=device)


def noise_of(rng, device):
    return mt.tensor(rng.random((BATCH, PATCHES)), device=device)


def test_parameter_counts():
    with skip_init():
        for name, count in (("mae_b_16", 111_907_840), ("mae_l_16", 329_541_888)):
            model = getattr(mt.models, name)()
            assert sum(p.array.size for p in model.parameters()) == count


def test_patchify(images):
    patches = patchify(images, PATCH)
    array = images.numpy()
    for row in range(GRID[0]):
        for column in range(GRID[1]):
            piece = array[:, :, row * 2 : row * 2 + 2, column * 3 : column * 3 + 3]
            expected = piece.transpose(0, 2, 3, 1).reshape(BATCH, -1)
            np.testing.assert_array_equal(patches.numpy()[:, row * 2 + column], expected)
    np.testing.assert_array_equal(unpatchify(patches, PATCH, GRID).numpy(), array)


def test_random_masking(rng, device):
    noise = rng.random((BATCH, PATCHES))
    kept, restore, mask = (x.numpy() for x in random_masking(mt.tensor(noise, device=device), 2))
    order = noise.argsort(1)
    np.testing.assert_array_equal(kept, order[:, :2])
    np.testing.assert_array_equal(np.take_along_axis(order, restore, 1), [range(PATCHES)] * BATCH)
    expected = np.ones((BATCH, PATCHES), bool)
    np.put_along_axis(expected, kept, False, 1)
    np.testing.assert_array_equal(mask, expected)


def test_the_encoder_sees_only_what_is_kept(rng, device, images):
    model, noise = small(device), noise_of(rng, device)
    predicted, mask = model(images, noise)
    array, hidden = images.numpy().copy(), mask.numpy()
    assert predicted.shape == (BATCH, PATCHES, 12) and hidden.sum(1).tolist() == [3, 3, 3]
    patches = patchify(mt.tensor(array, device=device), PATCH).numpy().copy()
    patches[hidden] = 99.0
    changed = unpatchify(mt.tensor(patches, device=device), PATCH, GRID)
    np.testing.assert_array_equal(model(changed, noise)[0].numpy(), predicted.numpy())
    patches[~hidden] = 99.0
    changed = unpatchify(mt.tensor(patches, device=device), PATCH, GRID)
    assert not np.allclose(model(changed, noise)[0].numpy(), predicted.numpy())


def test_tokens_keep_their_positions(rng, device, images):
    """With nothing hidden, the encoder gets what ViT would get, in another order."""
    model = small(device, mask_ratio=0.0)
    patches = model.encoder.patch_embedding(images)
    noise = noise_of(rng, device)
    tokens, _, mask = model.hide(patches, noise)
    assert not mask.numpy().any()
    whole = model.encoder.embed(images).numpy()
    np.testing.assert_allclose(tokens.numpy()[:, 0], whole[:, 0], rtol=1e-12)
    order = noise.numpy().argsort(1)[..., None]
    expected = np.take_along_axis(whole[:, 1:], order, 1)
    np.testing.assert_allclose(tokens.numpy()[:, 1:], expected, rtol=1e-12)


def test_the_decoder_puts_mask_tokens_into_the_gaps(rng, device):
    decoder = small(device).decoder
    encoded = rng.normal(size=(BATCH, 1 + 2, 8))
    noise = noise_of(rng, device)
    kept, restore, mask = random_masking(noise, 2)
    got = decoder.fill(mt.tensor(encoded, device=device), restore).numpy()
    inner = decoder.embedding(mt.tensor(encoded, device=device)).numpy()
    gap = decoder.mask_token.numpy()[0, 0]
    np.testing.assert_allclose(got[:, 0], inner[:, 0], rtol=1e-12)
    for b in range(BATCH):
        for p in range(PATCHES):
            place = list(kept.numpy()[b]).index(p) if not mask.numpy()[b, p] else None
            expected = gap if place is None else inner[b, 1 + place]
            np.testing.assert_allclose(got[b, 1 + p], expected, rtol=1e-12)


def test_positions_are_sines_and_do_not_learn():
    model = small()
    for positions, width in ((model.encoder.positions, 8), (model.decoder.positions, 4)):
        weight = positions.weight
        assert not weight.requires_grad and not weight.numpy()[0].any()
        np.testing.assert_allclose(weight.numpy()[1:], sincos_positions(GRID, width).numpy())


@pytest.mark.parametrize("normalise", [True, False])
def test_loss(normalise, rng, device, images):
    model = small(device, normalise_pixels=normalise)
    mask = rng.random((BATCH, PATCHES)) < 0.5
    predicted = rng.normal(size=(BATCH, PATCHES, 12))
    target = patchify(images, PATCH).numpy()
    if normalise:
        deviation = np.sqrt(target.var(-1, ddof=1, keepdims=True) + 1e-6)
        target = (target - target.mean(-1, keepdims=True)) / deviation
    expected = ((predicted - target) ** 2).mean(-1)[mask].mean()
    got = model.loss(images, mt.tensor(predicted, device=device), mt.tensor(mask, device=device))
    assert got.item() == pytest.approx(expected, rel=1e-12)


def test_gradients(rng, device):
    model, noise = small(device, decoder_layers=1), noise_of(rng, device)[:1]
    images = mt.tensor(rng.normal(size=(1, CHANNELS, 6, 6)), device=device, requires_grad=True)
    weight = model.decoder.mask_token

    def loss(images, weight):
        predicted, mask = model(images, noise)
        return model.loss(images, predicted, mask)

    assert gradcheck(loss, (images, weight))


def test_a_reconstruction_keeps_what_was_seen(rng, device, images):
    model, noise = small(device), noise_of(rng, device)
    painted, mask = model.reconstruct(images, noise)
    hidden = mask.numpy()
    got, true = (patchify(x, PATCH).numpy() for x in (painted, images))
    np.testing.assert_array_equal(got[~hidden], true[~hidden])
    predicted = model(images, noise)[0].numpy()
    deviation = np.sqrt(true.var(-1, ddof=1, keepdims=True) + 1e-6)
    expected = predicted * deviation + true.mean(-1, keepdims=True)
    np.testing.assert_allclose(got[hidden], expected[hidden], rtol=1e-12)


def test_noise_is_drawn_anew_and_repeats_with_a_seed(images):
    model = small(images.device)
    mt.manual_seed(1)
    first, second = (model(images)[1].numpy() for _ in range(2))
    mt.manual_seed(1)
    again = model(images)[1].numpy()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)


@pytest.mark.slow
def test_it_learns_to_continue_stripes():
    rng = np.random.default_rng(0)
    phase = rng.random((32, 1, 1, 1)) * 2 * np.pi
    stripes = np.sin(phase + np.arange(12.0)[:, None] / 2 + np.zeros((32, 1, 12, 12)))
    images = mt.tensor(stripes)
    mt.manual_seed(0)
    model = MaskedAutoencoder(
        12, 3, 32, 2, 4, 64, in_channels=1, decoder_dim=16, decoder_layers=1, decoder_heads=2,
        decoder_mlp_dim=32, mask_ratio=0.5, normalise_pixels=False,
    ).double()  # fmt: skip
    optimizer = mt.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = model.loss(images, *model(images))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.15 * losses[0]  # all zeros would give half


def test_errors(images):
    with pytest.raises(ShapeError, match="not divisible by patch_size"):
        patchify(images, 4)
    with pytest.raises(ShapeError, match="does not match patch_size and grid"):
        unpatchify(mt.zeros(1, 5, 12), PATCH, GRID)
    with pytest.raises(ArgumentError, match="mask_ratio"):
        small(mask_ratio=1.0)
