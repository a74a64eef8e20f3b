"""DINOv2: scaled blocks, SwiGLU sizes, register tokens."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.gradcheck import gradcheck_module
from minitorch_attn.models.dinov2 import DINOv2, ScaledBlock, dinov2_s_14, swiglu_dim


def small(**options):
    mt.manual_seed(3)
    model = DINOv2(6, 2, 6, 2, 3, 7, in_channels=2, **options).double().eval()
    for p in model.parameters():
        mt.nn.init.normal_(p, std=0.5)
    return model


@pytest.mark.parametrize("hidden, expected", [(6144, 4096), (12, 8), (13, 8), (1, 0), (24, 16)])
def test_swiglu_dim(hidden, expected):
    assert swiglu_dim(hidden) == expected


@pytest.mark.parametrize("swiglu", [False, True])
def test_block(swiglu, rng):
    block = ScaledBlock(6, 3, 13, scale=0.25, swiglu=swiglu).double()
    x = mt.tensor(rng.normal(size=(2, 5, 6)), requires_grad=True)
    y = x + 0.25 * block.attention(block.norm1(x))
    y = y + 0.25 * block.feed_forward(block.norm2(y))
    np.testing.assert_allclose(block(x).detach().numpy(), y.detach().numpy(), rtol=1e-12)
    assert gradcheck_module(block, x)


def test_masked_keys(rng):
    block = ScaledBlock(6, 3, 7).double()
    x, changed = rng.normal(size=(1, 5, 6)), rng.normal(size=(1, 5, 6))
    changed[:, :3] = x[:, :3]
    mask = mt.tensor(np.arange(5) < 3)[None, None, None]
    first, second = (block(mt.tensor(v), mask).detach().numpy()[:, :3] for v in (x, changed))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("registers", [0, 1, 4])
def test_registers_come_after_the_class_token(registers, rng):
    model = small(num_registers=registers)
    images = mt.tensor(rng.normal(size=(2, 2, 6, 6)), requires_grad=True)
    tokens = model.embed(images).detach().numpy()
    positions = model.positions.weight.detach().numpy()
    patches = model.patch_embedding(images).detach().numpy()
    assert tokens.shape == (2, 10 + registers, 6)
    first = model.class_token.detach().numpy()[0] + positions[:1]
    np.testing.assert_allclose(tokens[:, :1], np.broadcast_to(first, (2, 1, 6)), rtol=1e-12)
    middle = np.broadcast_to(model.register_tokens.detach().numpy(), (2, registers, 6))
    np.testing.assert_array_equal(tokens[:, 1 : 1 + registers], middle)
    np.testing.assert_allclose(tokens[:, 1 + registers :], patches + positions[1:], rtol=1e-12)
    assert model(images).shape == (2, 6)
    model(images).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.numel())


def test_options_of_the_sizes():
    with mt.nn.init.skip_init():
        model = dinov2_s_14(num_registers=4, image_size=28)
    assert model.grid == (2, 2) and model.register_tokens.shape == (1, 4, 384)
    assert model.blocks[11].drop_path.drop_prob == 0.0 and len(model.blocks) == 12


def test_drop_path_is_the_same_in_all_blocks():
    assert {block.drop_path.drop_prob for block in small(drop_path=0.3).blocks} == {0.3}
