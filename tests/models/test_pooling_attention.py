"""Pooling attention: one convolution for all heads computes what the modules compute one by one."""

import math
from functools import partial

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.models import MViTv2, pooling_attention
from minitorch_attn.models.pooling_attention import PoolingAttention

SIZES = [((2, 4, 3), (3, 3, 3), (1, 2, 2)), ((5, 3), (3, 2), (2, 1)), ((1, 1), (3, 3), (1, 1))]


def drawn(device, heads=3, kernel=(3, 3), stride=(2, 1), class_token=True):
    """Return pooling attention in float64, with all parameters random and 2 channels per head."""
    attention = PoolingAttention(
        5, heads, kernel, kernel, stride, stride, class_token=class_token, output_dim=2 * heads
    )
    rng = np.random.default_rng(7)
    for p in attention.double().parameters():
        p.data = mt.tensor(rng.normal(size=p.shape))
    return attention.to(device)


def results_of(attention, x, size):
    """Return the output, and the gradients of the input and of all parameters."""
    x = mt.tensor(x, device=attention.qkv.weight.device).requires_grad_()
    attention.zero_grad()
    output, new_size = attention(x, size)
    cotangents = np.random.default_rng(1).normal(size=output.shape)
    (output * mt.tensor(cotangents, device=output.device)).sum().backward()
    grads = {name: p.grad.numpy() for name, p in attention.named_parameters()}
    return {"output": output.detach().numpy(), "x": x.grad.numpy(), **grads}, tuple(new_size)


def count_convolutions(monkeypatch):
    """Return a list that receives the channels of each joint convolution."""
    channels = []

    def counted(convolve, maps, **options):
        channels.append(maps.shape[1])
        return convolve(maps, **options)

    table = {axes: partial(counted, f) for axes, f in pooling_attention.CONVOLVE.items()}
    monkeypatch.setattr(pooling_attention, "CONVOLVE", table)  # the layers keep theirs
    return channels


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize(("size", "kernel", "stride"), SIZES)
def test_a_module_with_a_hook_is_called(
    size, kernel, stride, heads, class_token, rng, device, monkeypatch
):
    """The results are those of the joint convolution, which does not call the modules."""
    attention = drawn(device, heads, kernel, stride, class_token)
    x = rng.normal(size=(2, class_token + math.prod(size), 5))
    channels = count_convolutions(monkeypatch)
    jointly, new_size = results_of(attention, x, size)
    assert channels == [2 * heads, 2 * 2 * heads]  # the queries; the keys and the values
    shapes = []
    for pool in (attention.pool_q, attention.pool_v):
        pool.register_forward_hook(lambda _, args, y: shapes.append(args[0].shape))
    separately, hooked_size = results_of(attention, x, size)
    assert shapes == [(2 * heads, 2, *size)] * 2 and len(channels) == 2
    assert new_size == hooked_size
    for name, expected in separately.items():
        np.testing.assert_allclose(jointly[name], expected, atol=1e-11, err_msg=name)


# Settings of pool_k, and those of pool_v where they differ. The map has the size (3, 1).
OTHER_LAYERS = {
    "bias": ({"bias": True}, {}),
    "groups": ({"groups": 1}, {}),
    "padding mode": ({"padding_mode": "circular"}, {}),
    "dilation": ({"dilation": 2, "padding": 2}, {}),
    "two kernels": ({"stride": 3}, {"kernel_size": (5, 3)}),
    "two strides": ({"stride": (2, 1)}, {"stride": (2, 2)}),
    "two paddings": ({"stride": 3, "padding": (0, 1)}, {"padding": 1}),
}


@pytest.mark.parametrize("name", OTHER_LAYERS)
def test_other_pooling_layers(name, rng, device, monkeypatch):
    """If the pooling layers were replaced by others, the layers are called."""
    channels = count_convolutions(monkeypatch)
    attention, x = drawn(device), rng.normal(size=(2, 1 + 3, 5))
    settings, changes = OTHER_LAYERS[name]
    settings = {"kernel_size": 3, "padding": 1, "groups": 2, "bias": False, **settings}
    attention.pool_k = nn.Conv2d(2, 2, **settings).double().to(device)
    attention.pool_v = nn.Conv2d(2, 2, **{**settings, **changes}).double().to(device)
    replaced, _ = results_of(attention, x, (3, 1))
    assert channels == [6]  # the queries only
    attention.pool_v.register_forward_hook(lambda *_: None)
    hooked, _ = results_of(attention, x, (3, 1))
    for name, expected in hooked.items():
        np.testing.assert_allclose(replaced[name], expected, atol=1e-11, err_msg=name)


class Doubled(nn.Conv2d):
    def forward(self, x):
        return super().forward(x) * 2


def test_a_subclass_of_the_pooling_layer(rng, device):
    attention, x = drawn(device), rng.normal(size=(2, 1 + 12, 5))
    attention.norm_v = nn.Identity()
    expected, _ = results_of(attention, x, (4, 3))
    doubled = Doubled(2, 2, 3, (2, 1), 1, groups=2, bias=False).double().to(device)
    doubled.weight.data = attention.pool_v.weight.data / 2
    attention.pool_v = doubled
    found, _ = results_of(attention, x, (4, 3))
    np.testing.assert_allclose(found["output"], expected["output"], atol=1e-12)


def test_a_trace_shows_the_pooling_modules(device):
    attention = drawn(device)
    with mt.trace() as t:
        attention(mt.zeros(2, 13, 5, dtype="float64", device=device), (4, 3))
    convolutions = [step.module.path for step in t.steps if step.op == "Conv"]
    assert convolutions == ["pool_q", "pool_k", "pool_v"]


def test_the_summary_counts_the_pooling_modules():
    model = MViTv2((8, 8), 3, 6, (1,), 3)
    flops = {row.name: row.flops for row in nn.Summary(model, (2, 3, 8, 8)).rows}
    pooled = [flops[f"stages.0.blocks.0.attention.pool_{name}"] for name in "qkv"]
    outputs = [2 * 6 * 2 * 2, 2 * 6 * 1 * 1, 2 * 6 * 1 * 1]  # batch, channel, height, width
    assert pooled == [2 * 9 * n for n in outputs]
