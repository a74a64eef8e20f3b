"""Swin V2: parameter counts, the reference with cosines and continuous biases, gradients."""

import math
from functools import partial

import numpy as np
import pytest
from models.plain_swin import (
    continuous_bias,
    plain_block_v2,
    plain_merge_v2,
    plain_swin,
    randomised,
)

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.models import SwinV2, swinv2_b, swinv2_l, swinv2_s, swinv2_t
from minitorch_attn.models.swinv2 import (
    ContinuousPositionBias,
    CosineWindowAttention,
    PatchMergingV2,
    PostNormBlock,
)


def small(device="cpu", **changes):
    settings = dict(
        image_size=10, patch_size=2, in_channels=3, num_classes=5, embed_dim=6, depths=(2, 2),
        num_heads=(2, 3), window_size=2, mlp_ratio=1.5,
    )  # fmt: skip
    return randomised(SwinV2(**{**settings, **changes})).to(device)


@pytest.mark.parametrize(
    ("builder", "count"),
    [
        (swinv2_t, 28_347_154),
        (swinv2_s, 49_728_418),
        (swinv2_b, 87_918_816),
        (swinv2_l, 196_739_932),
    ],
)
def test_parameter_counts(builder, count):
    with nn.init.skip_init():
        model = builder()
    assert sum(p.array.size for p in model.parameters()) == count


@pytest.mark.parametrize("window_size", [2, 3])
@pytest.mark.parametrize("pretrained", [0, 5])
def test_equals_its_twin(window_size, pretrained, rng, device):
    """A 5 x 5 map padded to 6 x 6, then a 3 x 3 map: padded, or one window without a shift."""
    model = small(device, window_size=window_size, pretrained_window_size=pretrained)
    image = rng.normal(size=(3, 10, 10))
    got = model.features(mt.tensor(image[None], device=device)).numpy()[0]
    bias = continuous_bias
    if pretrained:
        bias = partial(continuous_bias, pretrained=(pretrained, pretrained))
    expected = plain_swin(
        {name: value.numpy() for name, value in model.state_dict().items()},
        image,
        windows=[(window_size, window_size)] * 2,
        shifts=[(1, 1), (1, 1) if window_size == 2 else (0, 0)],
        heads=(2, 3),
        depths=(2, 2),
        block=partial(plain_block_v2, bias=bias),
        merge=plain_merge_v2,
    )
    np.testing.assert_allclose(got, expected, atol=1e-10)


def test_the_scale_stops_at_100(make, device):
    attention = CosineWindowAttention(4, 2, (2, 2)).double().to(device)
    windows = make(1, 1, 4, 4)
    at = {}
    for log in (1.0, math.log(100), 9.0):
        attention.logit_scale.data = mt.full((2, 1, 1), log, dtype=mt.float64, device=device)
        attention.zero_grad()
        y = attention(windows)
        (y * y).sum().backward()
        at[log] = y.numpy(), abs(attention.logit_scale.grad.numpy()).max()
    np.testing.assert_allclose(at[9.0][0], at[math.log(100)][0], rtol=1e-9)
    assert abs(at[1.0][0] - at[9.0][0]).max() > 1e-3
    assert at[9.0][1] == 0 < at[1.0][1]


def test_coordinates_are_log_spaced(device):
    """From -8 to 8 in the window's size, or beyond in that of a smaller one."""
    bias = ContinuousPositionBias((2, 3), 1).to(device)
    rows = bias.coordinates().numpy()
    largest = math.log2(9) / 3
    np.testing.assert_allclose(rows[[0, 7, -1]], [[-largest] * 2, [0, 0], [largest] * 2], 1e-6)
    np.testing.assert_allclose(rows[8], [0, math.log2(5) / 3], 1e-6)  # dx = 1 of 2
    wider = ContinuousPositionBias((2, 3), 1, (2, 2)).to(device).coordinates().numpy()
    np.testing.assert_allclose(wider[-1], [largest, math.log2(17) / 3], 1e-6)
    assert (ContinuousPositionBias((1, 1), 2).coordinates().numpy() == 0).all()
    values = ContinuousPositionBias((3, 3), 2)().numpy()
    assert values.shape == (2, 9, 9)
    assert 0 < values.min() < values.max() < 16


def test_the_key_has_no_bias():
    names = {name for name, _ in small().named_parameters()}
    assert "stages.0.blocks.0.attention.q_proj.bias" in names
    assert "stages.0.blocks.0.attention.k_proj.bias" not in names
    bare = {name for name, _ in small(qkv_bias=False).named_parameters()}
    assert "stages.0.blocks.0.attention.v_proj.bias" not in bare
    assert "stages.0.blocks.0.attention.out_proj.bias" in bare


def test_blocks_start_as_the_identity(make, device):
    model = SwinV2(image_size=8, embed_dim=4, depths=(1,), num_heads=(2,)).double().to(device)
    x = make(2, 2, 2, 4)
    np.testing.assert_array_equal(model.stages[0](x).numpy(), x.numpy())


def test_gradients(make, device):
    mt.manual_seed(2)
    attention = CosineWindowAttention(4, 2, (1, 3)).double()
    attention.position_bias = ContinuousPositionBias((1, 3), 2, hidden_dim=5).double()
    attention = attention.to(device)
    mask = mt.ops.windows.shifted_window_mask(2, 6, (1, 3), (0, 1), device=device)
    assert gradcheck_module(attention, make(1, 4, 3, 4), mask)
    block = PostNormBlock(4, 2, (2, 3), (1, 1), 5).double()
    block.attention.position_bias = ContinuousPositionBias((2, 3), 2, hidden_dim=5).double()
    assert gradcheck_module(block.to(device), make(1, 3, 4, 4))
    assert gradcheck_module(PatchMergingV2(2, 3).double().to(device), make(1, 3, 3, 2))
