"""Swin: the paper's parameter counts, a reference that computes one token at a time, gradients."""

import numpy as np
import pytest
from models.plain_swin import linear, plain_swin, randomised

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models import Swin, swin_b, swin_l, swin_s, swin_t
from minitorch_attn.models.swin import Block, PatchEmbedding, PatchMerging
from minitorch_attn.models.window_attention import WindowAttention
from minitorch_attn.nn.summary import Summary


def small(device="cpu", **changes):
    settings = dict(
        image_size=10, patch_size=2, in_channels=3, num_classes=5, embed_dim=6, depths=(2, 2),
        num_heads=(2, 3), window_size=2, mlp_ratio=1.5,
    )  # fmt: skip
    return randomised(Swin(**{**settings, **changes})).to(device)


@pytest.mark.parametrize(
    ("builder", "count"),
    [(swin_t, 28_288_354), (swin_s, 49_606_258), (swin_b, 87_768_224), (swin_l, 196_532_476)],
)
def test_parameter_counts_of_the_paper(builder, count):
    with nn.init.skip_init():
        model = builder()
    assert sum(p.array.size for p in model.parameters()) == count


def test_cost_of_equation_2():
    """4 h w C^2 + 2 M^2 h w C multiply-adds in attention, 8 h w C^2 in the feed-forward layer."""
    height, width, window, embed = 14, 21, 7, 6
    block = Block(embed, 2, (window, window), (3, 3), 4 * embed)
    found = Summary(block, mt.zeros(1, height, width, embed))
    tokens = height * width
    assert found.flops == 2 * (12 * tokens * embed**2 + 2 * window**2 * tokens * embed)


def test_cost_of_swin_t():
    """4.5 G multiply-adds at 224 (Table 1)."""
    with nn.init.skip_init():
        model = swin_t()
    found = Summary(model, mt.zeros(1, 3, 224, 224))
    assert round(found.flops / 2e9, 1) == 4.5


def arrays(model):
    return {name: value.numpy() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("window_size", [2, 3])
def test_equals_its_twin(window_size, rng, device):
    """A 5 x 5 map padded to 6 x 6, then a 3 x 3 map: padded, or one window without a shift."""
    model = small(device, window_size=window_size)
    image = rng.normal(size=(3, 10, 10))
    got = model.features(mt.tensor(image[None], device=device)).numpy()[0]
    shifts = [(1, 1), (1, 1) if window_size == 2 else (0, 0)]
    windows = [(window_size, window_size)] * 2
    expected = plain_swin(arrays(model), image, windows, shifts, (2, 3), (2, 2))
    np.testing.assert_allclose(got, expected, atol=1e-10)
    logits = model(mt.tensor(image[None], device=device)).numpy()[0]
    np.testing.assert_allclose(logits, linear(expected.mean((0, 1)), arrays(model), "head"), 1e-9)


def test_windows_of_two_sizes_on_an_oblong_map(rng):
    model = small(image_size=(8, 12), window_size=[(2, 5), (3, 3)])
    blocks = [[(b.window_size, b.shift_size) for b in stage.blocks] for stage in model.stages]
    assert blocks[0] == [((2, 5), (0, 0)), ((2, 5), (1, 2))]
    assert blocks[1] == [((2, 3), (0, 0)), ((2, 3), (0, 0))]  # a 2 x 3 map: one window
    image = rng.normal(size=(3, 8, 12))
    windows, shifts = [(2, 5), (2, 3)], [(1, 2), (0, 0)]
    expected = plain_swin(arrays(model), image, windows, shifts, (2, 3), (2, 2))
    np.testing.assert_allclose(model.features(mt.tensor(image[None])).numpy()[0], expected, 1e-9)


def test_padding_behind_the_shift(rng):
    """As on a map that is rolled and padded by hand, and rolled back so that all fits."""
    block = small(window_size=3).stages[0].blocks[1]
    x = rng.normal(size=(5, 5, 6))
    by_hand = np.zeros((6, 6, 6))
    by_hand[:5, :5] = np.roll(x, (-1, -1), (0, 1))
    whole = block.attend(mt.tensor(np.roll(by_hand, (1, 1), (0, 1))[None])).numpy()[0]
    expected = np.roll(np.roll(whole, (-1, -1), (0, 1))[:5, :5], (1, 1), (0, 1))
    first = block.attend(mt.tensor(x[None])).numpy()[0]
    block.pad_first = False
    np.testing.assert_allclose(block.attend(mt.tensor(x[None])).numpy()[0], expected, atol=1e-10)
    assert abs(first - expected).max() > 1e-3


def test_gradients(make):
    mt.manual_seed(2)
    attention = WindowAttention(4, 2, (1, 3)).double().to(make(1).device)
    mask = mt.ops.windows.shifted_window_mask(2, 6, (1, 3), (0, 1), device=make(1).device)
    assert gradcheck_module(attention, make(1, 4, 3, 4), mask)
    block = Block(4, 2, (2, 3), (1, 1), 5).double().to(make(1).device)
    assert gradcheck_module(block, make(1, 3, 4, 4))
    assert gradcheck_module(PatchMerging(2, 3).double().to(make(1).device), make(1, 3, 3, 2))


def test_watched_weights_are_those_that_are_used(rng, device):
    """In the open, with four axes, the same result; rows sum to one, regions are kept apart."""
    model = small(device)
    x = mt.tensor(rng.normal(size=(2, 3, 10, 10)), device=device)
    with nn.collect_attention(model) as found:
        watched = model(x)
    np.testing.assert_allclose(watched.numpy(), model(x).numpy(), atol=1e-12)
    shapes = [weights.shape for _, weights in found]
    assert shapes == [(18, 2, 4, 4), (18, 2, 4, 4), (8, 3, 4, 4), (8, 3, 4, 4)]
    for _, weights in found:
        np.testing.assert_allclose(weights.numpy().sum(-1), 1, atol=1e-12)
    mask = mt.ops.windows.shifted_window_mask(6, 6, (2, 2), (1, 1)).numpy()  # (window, 4, 4)
    shifted = found[1][1].numpy().reshape(2, 9, 2, 4, 4)
    assert shifted[:, ~mask.all((1, 2))].max() <= 1
    assert (shifted.transpose(0, 2, 1, 3, 4)[:, :, ~mask] < 1e-40).all()
    assert (shifted.transpose(0, 2, 1, 3, 4)[:, :, mask] > 1e-10).all()


def test_patches_of_an_image_that_they_do_not_divide(rng):
    embedding = PatchEmbedding(3, 6, (2, 3)).double()
    x = rng.normal(size=(1, 3, 5, 7))
    padded = np.zeros((1, 3, 6, 9))
    padded[:, :, :5, :7] = x
    got = embedding(mt.tensor(x))
    assert got.shape == (1, 3, 3, 6)
    np.testing.assert_array_equal(got.numpy(), embedding(mt.tensor(padded)).numpy())


def test_absolute_positions_are_added(rng):
    model = small(absolute_positions=True)
    x = mt.tensor(rng.normal(size=(1, 3, 10, 10)))
    with nn.collect_outputs([model.patch_embedding, model.dropout]) as found:
        model(x)
    added = found[1][1] - found[0][1]
    np.testing.assert_allclose(
        added.numpy().reshape(25, 6), model.position_embedding.numpy()[0], atol=1e-12
    )


def test_stochastic_depth_grows_from_block_to_block():
    model = small(depths=(2, 3), drop_path=0.4)
    rates = [block.drop_path1.drop_prob for stage in model.stages for block in stage.blocks]
    np.testing.assert_allclose(rates, [0, 0.1, 0.2, 0.3, 0.4])


def test_settings_for_each_stage():
    model = small(mlp_ratio=[1.0, 2.0], head_dim=[4, 5])
    widths = [stage.blocks[0].feed_forward.linear1.weight.shape for stage in model.stages]
    assert widths == [(6, 6), (24, 12)]
    assert [s.blocks[0].attention.q_proj.weight.shape[0] for s in model.stages] == [8, 15]
    with pytest.raises(ArgumentError, match="num_heads"):
        small(num_heads=(1, 2, 3))


@pytest.mark.parametrize(
    ("make", "rate"), [(swin_t, 0.2), (swin_s, 0.3), (swin_b, 0.5), (swin_l, 0.2)]
)
def test_default_drop_path_grows_to_the_published_rate(make, rate):
    with mt.nn.init.skip_init():
        model = make()
    rates = [m.drop_prob for m in model.modules() if isinstance(m, mt.nn.DropPath)]
    assert rates[0] == 0 and rates[-1] == pytest.approx(rate) and rates == sorted(rates)
