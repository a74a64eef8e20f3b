"""Local relation and local self-attention: plain loops, geometry, groups; LR-Net's sizes."""

import itertools
import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models import LocalRelation, LocalSelfAttention, LRNet, lr_net_26, lr_net_50
from minitorch_attn.models.local_relation import LRBlock

PHI = {
    "product": lambda q, k: q * k,
    "squared_difference": lambda q, k: -((q - k) ** 2),
    "absolute_difference": lambda q, k: -abs(q - k),
}


def drawn(module, device="cpu"):
    rng = np.random.default_rng(2)
    for p in module.double().parameters():
        p.data = mt.tensor(rng.normal(size=p.shape) * 0.5)
    return module.to(device)


def arrays(module):
    return {name: value.numpy() for name, value in module.state_dict().items()}


def conv(x, state, name):
    weight = state[f"{name}.weight"][:, :, 0, 0]
    return (
        np.tensordot(weight, x, 1) + state.get(f"{name}.bias", np.zeros(len(weight)))[:, None, None]
    )


def windows(size, kernel, stride):
    """Yield each center in the output, and the entries, offsets and places of its window."""
    half = kernel // 2
    for i, j in itertools.product(*(range((n - 1) // stride + 1) for n in size)):
        window = []
        for entry, (a, b) in enumerate(itertools.product(range(kernel), repeat=2)):
            y, x = i * stride + a - half, j * stride + b - half
            inside = 0 <= y < size[0] and 0 <= x < size[1]
            window.append((entry, (a - half, b - half), (y, x) if inside else None))
        yield (i, j), window


def softmax(scores):
    p = np.exp(np.array(scores) - max(scores))
    return p / p.sum()


def plain_relation(x, layer):
    """One channel of one window at a time."""
    state, k, m = arrays(layer), layer.kernel_size, -(-x.shape[0] // layer.groups)
    query, key = conv(x, state, "query"), conv(x, state, "key")
    out = np.zeros((len(x), *((n - 1) // layer.stride + 1 for n in x.shape[1:])))
    for (i, j), window in windows(x.shape[1:], k, layer.stride):
        for c in range(len(x)):
            group, scores, values = c // m, [], []
            for _, offset, place in window:
                q = query[group, i * layer.stride, j * layer.stride]
                known = key[group][place] if place else 0.0
                hidden = state["geometry1.weight"] @ (np.array(offset) / max(k // 2, 1))
                hidden = np.maximum(hidden + state["geometry1.bias"], 0)
                geometry = (state["geometry2.weight"] @ hidden + state["geometry2.bias"])[group]
                score = PHI[layer.composability](q, known) + geometry
                scores.append(score if place or not layer.mask_padding else -math.inf)
                values.append(x[c][place] if place else 0.0)
            out[c, i, j] = softmax(scores) @ values
    return conv(out, state, "out")


SETTINGS = [
    dict(channels=4, kernel_size=3, channels_per_group=2, geometry_dim=3),
    dict(channels=3, kernel_size=5, channels_per_group=1, stride=2, mask_padding=True),
    dict(channels=6, kernel_size=3, channels_per_group=3, stride=3,
         composability="squared_difference"),
    dict(channels=5, kernel_size=3, channels_per_group=2, mask_padding=True,
         composability="absolute_difference"),
    dict(channels=2, kernel_size=1, channels_per_group=2),
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
def test_local_relation_equals_a_plain_loop(settings, rng, device):
    layer = drawn(LocalRelation(**settings), device)
    x = rng.normal(size=(2, settings["channels"], 5, 4))
    found = layer(mt.tensor(x, device=device)).numpy()
    expected = np.stack([plain_relation(image, layer) for image in x])
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def plain_attention(x, layer):
    """One head of one window at a time."""
    state, k, heads = arrays(layer), layer.kernel_size, layer.num_heads
    query, key, value = (conv(x, state, name) for name in ("query", "key", "value"))
    dim = len(query) // heads
    out = np.zeros((len(query), *((n - 1) // layer.stride + 1 for n in x.shape[1:])))
    for (i, j), window in windows(x.shape[1:], k, layer.stride):
        for head in range(heads):
            mine, scores, values = slice(head * dim, (head + 1) * dim), [], []
            q = query[mine, i * layer.stride, j * layer.stride]
            for entry, _, place in window:
                row = state["row_embedding"][head, :, entry // k]
                column = state["column_embedding"][head, :, entry % k]
                known = key[(mine, *place)] if place else np.zeros(dim)
                score = q @ (known + np.concatenate([row, column]))
                scores.append(score if place or not layer.mask_padding else -math.inf)
                values.append(value[(mine, *place)] if place else np.zeros(dim))
            out[mine, i, j] = softmax(scores) @ np.array(values)
    return out


@pytest.mark.parametrize(
    "settings",
    [
        dict(kernel_size=3, num_heads=2), dict(kernel_size=5, num_heads=1, mask_padding=True),
        dict(kernel_size=3, num_heads=2, stride=2, bias=True),
    ],
)  # fmt: skip
def test_local_self_attention_equals_a_plain_loop(settings, rng, device):
    layer = drawn(LocalSelfAttention(3, 8, **settings), device)
    x = rng.normal(size=(2, 3, 5, 4))
    found = layer(mt.tensor(x, device=device)).numpy()
    expected = np.stack([plain_attention(image, layer) for image in x])
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "layer",
    [
        LocalRelation(4, 3, 2, geometry_dim=3), LocalRelation(3, 3, 2, stride=2, geometry_dim=2),
        LocalSelfAttention(2, 4, 3, num_heads=2),
    ],
    ids=["relation", "uneven groups", "self-attention"],
)  # fmt: skip
def test_gradients(layer, make, device):
    channels = layer.query.in_channels
    assert gradcheck_module(drawn(layer, device), make(1, channels, 3, 4))


def test_weights_of_the_windows(make, device):
    layers = LocalRelation(4, 3, 2, stride=2), LocalSelfAttention(4, 4, 3, 2, stride=2)
    for layer in layers:
        weights = drawn(layer, device).window_weights(make(2, 4, 5, 4))
        assert weights.shape == (2, 2, 9, 3, 2)
        np.testing.assert_allclose(weights.sum(2).numpy(), 1.0, rtol=1e-12)


def test_the_geometry_of_the_center_is_that_of_offset_zero(device):
    layer = drawn(LocalRelation(4, 5, 2), device)
    at_zero = layer.geometry2(layer.geometry1.bias.relu())
    np.testing.assert_allclose(layer.geometry()[:, 12].numpy(), at_zero.numpy(), rtol=1e-12)


def test_what_is_refused():
    for make_layer in (LocalRelation, lambda *args: LocalSelfAttention(4, *args)):
        with pytest.raises(ArgumentError, match="kernel_size must be odd"):
            make_layer(16, 4)
    with pytest.raises(ArgumentError, match="kernel_size must be odd"):
        LocalRelation(4, stride=0)
    with pytest.raises(ArgumentError, match="not divisible by 2 . num_heads"):
        LocalSelfAttention(4, 6, num_heads=2)
    with pytest.raises(ArgumentError, match="channels_per_group must be"):
        LocalRelation(4, channels_per_group=0)
    with pytest.raises(ArgumentError, match="the same length"):
        LRNet((1, 1))


def relation_count(channels, m=8, geometry=16):
    groups = -(-channels // m)
    return (
        2 * (channels + 1) * groups
        + channels * (channels + 1)
        + 3 * geometry
        + (geometry + 1) * groups
    )


@pytest.mark.parametrize(
    ("builder", "layers", "count", "paper"),
    [
        (lr_net_26, (2, 2, 2, 2), 14_604_096, 14.7e6),
        (lr_net_50, (3, 4, 6, 3), 23_367_725, 23.3e6),
    ],
)
def test_parameter_counts(builder, layers, count, paper):
    with nn.init.skip_init():
        model = builder()
    expected, inputs = 3 * 64 + 4 * 64 + relation_count(64), 64
    for i, blocks in enumerate(layers):
        width, outputs = 100 * 2**i, 256 * 2**i
        for j in range(blocks):
            expected += inputs * width + width * outputs + 4 * width + 2 * outputs
            expected += relation_count(width) + (0 if j else inputs * outputs + 2 * outputs)
            inputs = outputs
    expected += 1000 * 2049
    assert sum(p.numel() for p in model.parameters()) == expected == count
    assert abs(count / paper - 1) < 0.01


def test_sizes_of_the_maps(make, device):
    sizes = dict(widths=(4, 6, 5), channels=(8, 10, 7), stem_channels=4, kernel_size=3)
    model = LRNet((1, 2, 1), 5, channels_per_group=2, **sizes).double().to(device)
    images = make(2, 3, 33, 21)
    assert [maps.shape for maps in model.feature_maps(images)] == [
        (2, 8, 9, 6), (2, 10, 5, 3), (2, 7, 3, 2),
    ]  # fmt: skip
    assert [block.relation.stride for stage in model.stages for block in stage] == [1, 2, 1, 2]
    assert model(images).shape == (2, 5)
    model = LRNet((1, 1, 1), 0, channels_per_group=2, small_stem=True, **sizes).double()
    small = mt.zeros(1, 3, 9, 7, dtype=mt.float64)
    assert [maps.shape[2:] for maps in model.feature_maps(small)] == [(9, 7), (5, 4), (3, 2)]
    assert model(small).shape == (1, 7)


def test_a_block_adds_to_its_input(make, device):
    block = LRBlock(6, 4, 6, 1, lambda width, stride: nn.Conv2d(width, width, 1, stride=stride))
    block = drawn(block).to(device)
    x = make(2, 6, 5, 7)
    y = block(x)
    assert (y >= 0).all() and (y > 0).any()
    nn.init.zeros_(block.bn3.weight), nn.init.zeros_(block.bn3.bias)
    np.testing.assert_array_equal(block(x).detach().numpy(), np.maximum(x.numpy(), 0))


def test_gradients_of_the_network(make, device):
    mt.manual_seed(3)
    sizes = dict(widths=(2,), channels=(3,), stem_channels=2, kernel_size=3, geometry_dim=2)
    model = drawn(LRNet((1,), 2, in_channels=1, channels_per_group=2, small_stem=True, **sizes))
    assert gradcheck_module(model.to(device).eval(), make(2, 1, 3, 4))
