"""VideoMAE: tubes, cubes, what the encoder sees, the targets and the loss."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck
from minitorch_attn.models import VideoMAE, video_mae_b, video_mae_l, video_mae_s
from minitorch_attn.models.video_mae import cubes_of, tube_masking, visible_and_masked
from minitorch_attn.nn.init import skip_init


def small(device="cpu", **changes):
    settings = dict(
        image_size=(4, 6), patch_size=2, num_frames=6, tubelet_size=3, embed_dim=4, num_layers=1,
        num_heads=2, mlp_dim=5, in_channels=2, decoder_dim=6, decoder_layers=2, decoder_heads=1,
        decoder_mlp_dim=7, mask_ratio=0.5,
    )  # fmt: skip
    mt.manual_seed(5)
    return VideoMAE(**{**settings, **changes}).double().to(device)


@pytest.fixture
def video(rng, device):
    return mt.tensor(rng.normal(size=(2, 2, 6, 4, 6)), device=device)


def test_parameter_counts():
    counts = {video_mae_s: 24_029_376, video_mae_b: 94_210_944, video_mae_l: 342_996_992}
    with skip_init():
        for builder, count in counts.items():
            assert sum(p.array.size for p in builder().parameters()) == count


@pytest.mark.parametrize("ratio", [0.0, 0.4, 0.5, 1.0])
def test_tubes(ratio, rng, device):
    noise = rng.random((3, 7))
    mask = tube_masking(mt.tensor(noise, device=device), 4, ratio).numpy().reshape(3, 4, 7)
    assert (mask == mask[:, :1]).all()
    count = int(7 * ratio)
    for row, found in zip(noise, mask[:, 0], strict=True):
        np.testing.assert_array_equal(np.flatnonzero(found), np.sort(row.argsort()[7 - count :]))
    with pytest.raises(ArgumentError, match="at least 0 and at most 1"):
        tube_masking(mt.tensor(noise), 4, 1.5)


def test_cubes(video):
    cubes, array = cubes_of(video, 3, 2).numpy(), video.numpy()
    assert cubes.shape == (2, 2 * 2 * 3, 12, 2)
    for number, (step, row, column) in enumerate(np.ndindex(2, 2, 3)):
        rows, columns = slice(2 * row, 2 * row + 2), slice(2 * column, 2 * column + 2)
        piece = array[:, :, 3 * step : 3 * step + 3, rows, columns]
        expected = piece.reshape(2, 2, 12).transpose(0, 2, 1)
        np.testing.assert_array_equal(cubes[:, number], expected)
    with pytest.raises(ShapeError, match="is not divisible by the cube size"):
        cubes_of(video, 4, 2)


def test_visible_and_masked(device):
    mask = mt.tensor([[True, False, False, True, False], [False, True, True, False, False]],
                     device=device)  # fmt: skip
    visible, masked = visible_and_masked(mask)
    assert visible.tolist() == [[1, 2, 4], [0, 3, 4]] and masked.tolist() == [[0, 3], [1, 2]]
    with pytest.raises(ShapeError, match="different numbers of masked cubes"):
        visible_and_masked(mt.tensor([[True, False], [True, True]], device=device))


def test_the_encoder_sees_only_what_is_visible(rng, device, video):
    model = small(device)
    mask = tube_masking(mt.tensor(rng.random((2, 6)), device=device), 2, 0.5)
    predicted, again = model(video, mask)
    assert predicted.shape == (2, 6, 24) and (again.numpy() == mask.numpy()).all()
    hidden = mask.numpy().reshape(2, 1, 2, 2, 3)
    hidden = hidden.repeat(3, 2).repeat(2, 3).repeat(2, 4)  # (batch, 1, frame, height, width)
    for where, same in ((hidden, True), (~hidden, False)):
        changed = mt.tensor(video.numpy() + 9.0 * where, device=device)
        assert np.allclose(model(changed, mask)[0].numpy(), predicted.numpy()) == same
    mt.manual_seed(1)
    assert model(video)[1].numpy().sum(1).tolist() == [6, 6]


def test_tokens_keep_their_positions(rng, device, video):
    model = small(device)
    encoder, visible = model.encoder, mt.tensor([[3, 0], [5, 11]], device=device)
    tokens = encoder.embed(video, visible).numpy()
    weight = encoder.projection.weight.numpy().reshape(4, -1)
    table = mt.nn.sinusoidal_positions(12, 4).numpy()
    for n, picked in enumerate(visible.numpy()):
        for i, number in enumerate(picked):
            step, row, column = np.unravel_index(number, (2, 2, 3))
            rows, columns = slice(2 * row, 2 * row + 2), slice(2 * column, 2 * column + 2)
            piece = video.numpy()[n, :, 3 * step : 3 * step + 3, rows, columns].ravel()
            expected = weight @ piece + encoder.projection.bias.numpy() + table[number]
            np.testing.assert_allclose(tokens[n, i], expected, atol=1e-12)


def test_the_decoder_adds_the_positions_of_each_cube(device, rng):
    """The order of the visible cubes does not matter; that of the masked ones is kept."""
    decoder = small(device).decoder
    for p in decoder.parameters():
        p.data = mt.tensor(rng.normal(size=p.shape), device=device)
    encoded = rng.normal(size=(1, 3, 4))
    visible, masked = np.array([[2, 7, 5]]), np.array([[1, 9]])

    def run(encoded, visible, masked):
        return decoder(*(mt.tensor(x, device=device) for x in (encoded, visible, masked))).numpy()

    y = run(encoded, visible, masked)
    turned = run(encoded[:, ::-1].copy(), visible[:, ::-1].copy(), masked)
    np.testing.assert_allclose(turned, y, atol=1e-10)
    swapped = run(encoded, visible, masked[:, ::-1].copy())
    np.testing.assert_allclose(swapped, y[:, ::-1], atol=1e-10)
    assert abs(run(encoded, visible[:, ::-1].copy(), masked) - y).max() > 1e-3
    assert abs(y[0, 0] - y[0, 1]).max() > 1e-3


@pytest.mark.parametrize("normalise", [True, False])
def test_target_and_loss(normalise, rng, device, video):
    model = small(device, normalise_pixels=normalise)
    cubes = cubes_of(video, 3, 2).numpy()
    if normalise:
        deviation = cubes.std(2, keepdims=True, ddof=1) + 1e-6
        cubes = (cubes - cubes.mean(2, keepdims=True)) / deviation
    target = cubes.reshape(2, 12, 24)
    np.testing.assert_allclose(model.target(video).numpy(), target, atol=1e-12)
    mask = tube_masking(mt.tensor(rng.random((2, 6)), device=device), 2, 0.5)
    predicted = rng.normal(size=(2, 6, 24))
    expected = np.mean([(predicted[n] - target[n][mask.numpy()[n]]) ** 2 for n in range(2)])
    loss = model.loss(video, mt.tensor(predicted, device=device), mask)
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-12)


def test_gradients(make, device):
    model = small(
        device, normalise_pixels=False, image_size=(2, 6), num_frames=4, tubelet_size=2,
        in_channels=1,
    )  # fmt: skip
    mask = tube_masking(mt.tensor([[0.3, 0.9, 0.2]], device=device), 2, 0.5)
    x = make(1, 1, 4, 2, 6)

    def loss(x, weight, token):
        model.encoder.projection.weight = weight
        model.decoder.mask_token = token
        return model.loss(x, model(x, mask)[0], mask)

    weight = mt.nn.Parameter(model.encoder.projection.weight.detach())
    token = mt.nn.Parameter(make(1, 1, 6).detach())
    assert gradcheck(loss, (x, weight, token))


def test_the_keys_have_no_bias():
    names = {name for name, _ in small().named_parameters()}
    assert "encoder.blocks.0.attention.q_proj.bias" in names
    assert "encoder.blocks.0.attention.k_proj.bias" not in names


def test_errors(video):
    with pytest.raises(ShapeError, match="does not match the model") as caught:
        small()(video.transpose(1, 2))
    assert "video.transpose(1, 2)" in str(caught.value)


@pytest.mark.parametrize(
    ("noise", "steps", "ratio"),
    [
        ([0.3, 0.9], 2, 0.5),
        (mt.rand(3), 2, 0.5),
        (mt.rand(2, 3), 2.5, 0.5),
        (mt.rand(2, 3), 2, "1"),
    ],
)  # fmt: skip
def test_tube_masking_names_an_invalid_argument(noise, steps, ratio):
    with pytest.raises(mt.errors.MiniTorchError, match="^tube_masking: (noise|num|mask)_?"):
        tube_masking(noise, steps, ratio)
