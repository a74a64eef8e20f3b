"""TimeSformer: which tokens see each other, the divided block by hand, gradients, errors."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.gradcheck import gradcheck_module
from minitorch_attn.models import TimeSformer, timesformer_b
from minitorch_attn.models.timesformer import DividedBlock
from minitorch_attn.nn.init import skip_init

FRAMES, PATCHES, WIDTH = 3, 5, 4


def drawn(module, device="cpu", seed=3):
    rng = np.random.default_rng(seed)
    for p in module.double().eval().parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.5)
    return module.to(device)


def small(device="cpu", **changes):
    settings = dict(
        image_size=(4, 6), patch_size=2, num_frames=FRAMES, num_classes=7, embed_dim=WIDTH,
        num_layers=2, num_heads=2, mlp_dim=5, in_channels=2,
    )  # fmt: skip
    return drawn(TimeSformer(**{**settings, **changes}), device)


@pytest.fixture
def video(rng, device):
    return mt.tensor(rng.normal(size=(2, 2, FRAMES, 4, 6)), device=device)


def test_parameter_counts():
    with skip_init():
        assert sum(p.array.size for p in timesformer_b().parameters()) == 121_566_352


def test_divided_block_by_hand(rng, device):
    """Attention over time for each patch, then over space for each frame."""
    block = drawn(DividedBlock(WIDTH, 2, 5), device)
    x = rng.normal(size=(1, 1 + PATCHES * FRAMES, WIDTH))
    got = block(mt.tensor(x, device=device), FRAMES).numpy()[0]
    on_device = lambda array: mt.tensor(array, device=device)  # noqa: E731
    first, patches = x[0, 0], x[0, 1:].reshape(PATCHES, FRAMES, WIDTH)
    after_time = np.empty_like(patches)
    for place in range(PATCHES):
        row = on_device(patches[place][None])
        attended = block.time_projection(block.time_attention(block.time_norm(row)))
        after_time[place] = patches[place] + attended.numpy()[0]
    spread, copies = np.empty_like(patches), []
    for frame in range(FRAMES):
        row = on_device(np.concatenate([first[None], after_time[:, frame]])[None])
        attended = block.attention(block.norm1(row)).numpy()[0]
        copies.append(attended[0])
        spread[:, frame] = attended[1:]
    tokens = np.concatenate(
        [(first + np.mean(copies, 0))[None], (after_time + spread).reshape(-1, WIDTH)]
    )
    y = on_device(tokens[None])
    expected = (y + block.feed_forward(block.norm2(y))).numpy()[0]
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["divided", "joint", "space"])
def test_which_tokens_see_each_other(kind, device, video):
    """In one block, a change of one patch reaches its place at all times and its frame."""
    model = small(device, attention=kind, num_layers=1)
    block, tokens = model.blocks[0], model.embed(video)
    arguments = (FRAMES,) if kind == "divided" else ()
    before, changed = block(tokens, *arguments).numpy(), tokens.numpy().copy()
    if kind == "space":  # (batch * frame, 1 + patch, embed)
        assert tokens.shape == (2 * FRAMES, 7, WIDTH)
        changed[1, 2, 0] += 1
        after = block(mt.tensor(changed, device=device)).numpy()
        touched = (after != before).any(-1)
        assert touched[1].all() and not np.delete(touched, 1, 0).any()
        return
    assert tokens.shape == (2, 1 + 6 * FRAMES, WIDTH)
    changed[0, 1 + 4 * FRAMES + 1, 0] += 1  # patch 4 in frame 1
    after = block(mt.tensor(changed, device=device), *arguments).numpy()
    touched = (after != before).any(-1)
    assert touched[0].all() and not touched[1].any()


def test_time_alone_does_not_leave_the_place(device, video):
    model = small(device, num_layers=1)
    block, patches = model.blocks[0], model.embed(video)[:, 1:]
    changed = patches.numpy().copy()
    changed[0, 4 * FRAMES + 1, 0] += 1
    after = block.over_time(mt.tensor(changed, device=device), FRAMES).numpy()
    touched = (after != block.over_time(patches, FRAMES).numpy()).any(-1)[0]
    np.testing.assert_array_equal(np.flatnonzero(touched), 4 * FRAMES + np.arange(FRAMES))


@pytest.mark.parametrize("kind", ["divided", "joint", "space"])
def test_embedding_and_pooling(kind, device, video):
    model = small(device, attention=kind)
    tokens = model.embed(video).numpy()
    positions = model.positions.weight.numpy()
    for n, frame in np.ndindex(2, FRAMES):
        patches = model.patch_embedding(video[n : n + 1, :, frame]).numpy()[0] + positions[1:]
        if kind == "space":
            got = tokens[n * FRAMES + frame, 1:]
        else:
            patches = patches + model.time_positions.weight.numpy()[frame]
            got = tokens[n, 1:].reshape(6, FRAMES, WIDTH)[:, frame]
        np.testing.assert_allclose(got, patches, atol=1e-12)
    first = model.class_token.numpy()[0, 0] + positions[0]
    np.testing.assert_allclose(tokens[:, 0], [first] * len(tokens), atol=1e-12)
    last = model.encode(mt.tensor(tokens, device=device), FRAMES).numpy()[:, 0]
    last = last.reshape(2, -1, WIDTH).mean(1)  # of the frames, for space-only attention
    expected = last @ model.head.weight.numpy().T + model.head.bias.numpy()
    np.testing.assert_allclose(model(video).numpy(), expected, atol=1e-12)


def test_later_blocks_start_without_time():
    model = TimeSformer(4, 2, 3, 5, 4, 3, 2, 5)
    zeros = [not block.time_projection.weight.numpy().any() for block in model.blocks]
    assert zeros == [False, True, True]
    rates = TimeSformer(4, 2, 3, 5, 4, 3, 2, 5, drop_path=0.4, attention="joint")
    assert [block.drop_path.drop_prob for block in rates.blocks] == [0.0, 0.2, 0.4]


def test_gradients(make, device):
    block = drawn(DividedBlock(4, 2, 3), device)
    assert gradcheck_module(block, make(1, 1 + 2 * 3, 4), 3)


def test_errors(video):
    with pytest.raises(ArgumentError, match="the type of attention is invalid"):
        TimeSformer(attention="axial")
    with pytest.raises(ShapeError, match="does not match the model") as caught:
        small(image_size=8)(mt.zeros(1, 2, FRAMES, 8, 6))
    assert "video.transpose(1, 2)" in str(caught.value)
