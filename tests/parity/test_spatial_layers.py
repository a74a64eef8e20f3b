"""Convolution and channel norm layers: names, limits, values, gradients, statistics."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn

torch = pytest.importorskip("torch")
from parity import tally  # noqa: E402
from parity.test_layers import build, compare  # noqa: E402

pytestmark = pytest.mark.parity


def numbers(rng, axes, low, high):
    if rng.integers(2):
        return int(rng.integers(low, high + 1))
    return tuple(int(n) for n in rng.integers(low, high + 1, axes))


@pytest.mark.parametrize("draw", range(40))
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_convolutions(kind, draw, device):
    rng = np.random.default_rng(draw)
    axes, groups = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    config = {
        "in_channels": groups * int(rng.integers(1, 3)),
        "out_channels": groups * int(rng.integers(1, 3)),
        "kernel_size": numbers(rng, axes, 1, 3),
        "stride": numbers(rng, axes, 1, 2),
        "padding": numbers(rng, axes, 0, 1),
        "dilation": numbers(rng, axes, 1, 2),
        "groups": groups,
        "bias": bool(rng.integers(2)),
    }
    if kind == "Conv":
        modes = ["zeros", "reflect", "replicate", "circular"]
        config["padding_mode"] = modes[rng.integers(4)]
        if rng.integers(3) == 0:
            config |= {"padding": ["same", "valid"][rng.integers(2)], "stride": 1}
    ours, peer = build(f"{kind}{axes}d", config, device)
    space = rng.integers(5, 8, axes)
    batch = [] if rng.integers(4) == 0 else [2]
    x = rng.normal(size=(*batch, config["in_channels"], *space))
    kwargs = {}
    if kind == "ConvTranspose" and rng.integers(2):
        least = peer(torch.from_numpy(x)).shape[-axes:]
        strides = peer.stride
        kwargs["output_size"] = tuple(
            n + int(rng.integers(s)) for n, s in zip(least, strides, strict=True)
        )
    compare(ours, peer, [x], kwargs, device)
    assert repr(ours) == repr(peer)
    tally.compared[f"nn.{kind}{axes}d"] += 1


@pytest.mark.parametrize("draw", range(30))
@pytest.mark.parametrize("kind", ["BatchNorm", "InstanceNorm"])
def test_norms_with_running_statistics(kind, draw, device):
    rng = np.random.default_rng(draw)
    axes = int(rng.integers(1, 4))
    config = {
        "num_features": int(rng.integers(1, 4)),
        "eps": 0.1,
        "momentum": [0.1, 0.7, None][rng.integers(3 if kind == "BatchNorm" else 2)],
        "affine": bool(rng.integers(2)),
        "track_running_stats": bool(rng.integers(2)),
        "bias": bool(rng.integers(2)),
    }
    ours, peer = build(f"{kind}{axes}d", config, device)
    for _ in range(3):
        if rng.integers(4) == 0:
            ours.eval(), peer.eval()
        x = rng.normal(size=(3, config["num_features"], *rng.integers(2, 4, axes)))
        ours.zero_grad(), peer.zero_grad()
        compare(ours, peer, [x], {}, device)
    for name, value in peer.state_dict().items():
        own = ours.state_dict()[name].numpy()
        np.testing.assert_allclose(own, value.numpy(), rtol=1e-11, err_msg=name)
        assert own.dtype == value.numpy().dtype
    assert repr(ours) == repr(peer)
    tally.compared[f"nn.{kind}{axes}d"] += 1


@pytest.mark.parametrize("draw", range(10))
def test_group_norm(draw, device):
    rng = np.random.default_rng(draw)
    groups = int(rng.integers(1, 4))
    config = {"num_groups": groups, "num_channels": groups * int(rng.integers(1, 4)), "eps": 0.1}
    config |= {"affine": bool(rng.integers(2)), "bias": bool(rng.integers(2))}
    ours, peer = build("GroupNorm", config, device)
    space = rng.integers(1, 4, rng.integers(0, 3))
    compare(ours, peer, [rng.normal(size=(2, config["num_channels"], *space))], {}, device)
    assert repr(ours) == repr(peer)
    tally.compared["nn.GroupNorm"] += 1


@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose2d"])
def test_initial_values_have_the_same_bounds(name):
    config = {"in_channels": 64, "out_channels": 128, "kernel_size": (3, 5), "groups": 4}
    ours, peer = getattr(nn, name)(**config), getattr(torch.nn, name)(**config)
    for key, value in peer.state_dict().items():
        own = ours.state_dict()[key].numpy()
        assert own.shape == tuple(value.shape) and own.dtype == np.float32
        np.testing.assert_allclose(abs(own).max(), float(abs(value).max()), rtol=0.1)


def test_texts(device):
    for name, args in (
        ("MaxPool2d", (3, 2, 1)), ("AvgPool2d", (3,)), ("AdaptiveAvgPool2d", (2,)),
        ("AvgPool1d", (3,)), ("MaxPool1d", (2,)), ("PixelShuffle", (2,)), ("Unfold", (2,)),
        ("Fold", (4, 2)), ("Upsample", (None, 2)), ("AdaptiveMaxPool1d", (3,)),
    ):  # fmt: skip
        assert repr(getattr(nn, name)(*args)) == repr(getattr(torch.nn, name)(*args))
    assert mt.nn.functional.pixel_shuffle is mt.pixel_shuffle
