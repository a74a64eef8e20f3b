"""Convolution, pooling, channel norm and upsampling layers."""

import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError, CheckpointError, ShapeError


def host(tensor):
    return tensor.detach().numpy()


def shapes(module):
    return {name: value.shape for name, value in module.state_dict().items()}


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 7)),
        (nn.Conv2d(3, 2, (3, 2), padding="same", bias=False), (2, 3, 5, 4)),
        (nn.Conv2d(3, 5, 2, stride=2), (2, 3, 4, 6)),
        (nn.Conv3d(2, 3, 2), (1, 2, 3, 2, 4)),
        (nn.ConvTranspose1d(3, 2, 3, 2, 1, 1), (2, 3, 4)),
        (nn.ConvTranspose2d(4, 6, (3, 2), stride=2, groups=2, dilation=(1, 2)), (1, 4, 3, 2)),
        (nn.BatchNorm1d(3), (5, 3)),
        (nn.BatchNorm2d(3), (2, 3, 2, 5)),
        (nn.FrozenBatchNorm2d(3), (2, 3, 2, 5)),
        (nn.GroupNorm(2, 6), (2, 6, 5)),
        (nn.InstanceNorm2d(3, affine=True), (2, 3, 2, 5)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_gradients(layer, shape, make, device):
    layer = layer.double().to(device)
    rng = np.random.default_rng(3)
    with mt.no_grad():
        for p in layer.parameters():
            p.add_(mt.tensor(rng.uniform(-0.5, 0.5, p.shape), device=device))
    assert gradcheck_module(layer, make(*shape))


def test_state_dicts():
    assert shapes(nn.Conv2d(4, 6, (3, 2), groups=2)) == {"weight": (6, 2, 3, 2), "bias": (6,)}
    assert shapes(nn.ConvTranspose2d(4, 6, 3, groups=2)) == {"weight": (4, 3, 3, 3), "bias": (6,)}
    assert shapes(nn.Conv1d(4, 6, 3, bias=False)) == {"weight": (6, 4, 3)}
    norm = nn.BatchNorm2d(3)
    assert shapes(norm) == {
        "weight": (3,), "bias": (3,), "running_mean": (3,), "running_var": (3,),
        "num_batches_tracked": (),
    }  # fmt: skip
    assert norm.double().num_batches_tracked.dtype == mt.int64
    assert shapes(nn.BatchNorm1d(3, affine=False, track_running_stats=False)) == {}
    assert shapes(nn.InstanceNorm1d(3)) == {}
    assert shapes(nn.GroupNorm(1, 3)) == {"weight": (3,), "bias": (3,)}
    assert shapes(nn.GroupNorm(1, 3, bias=False)) == {"weight": (3,)}
    assert "bias" not in shapes(nn.BatchNorm2d(3, bias=False))
    assert nn.Conv2d(3, 5, 2).bias.shape == (5,) and nn.Conv2d(3, 5, 2, bias=False).bias is None


def test_a_checkpoint_from_before_batches_were_counted():
    model = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2))
    model[1].num_batches_tracked.fill_(7)
    state = {k: v for k, v in model.state_dict().items() if "num_batches" not in k}
    assert model.load_state_dict(state) == ([], [])
    assert model[1].num_batches_tracked.item() == 7
    del state["1.running_mean"]
    with pytest.raises(CheckpointError, match="missing      1.running_mean"):
        model.load_state_dict(state)


def test_frozen_batch_norm_reads_a_batch_norm(make, device):
    normal = nn.Sequential(nn.BatchNorm2d(3, eps=0.1)).double().to(device)
    with mt.no_grad():
        normal[0].weight.copy_(mt.tensor([2.0, -1.0, 0.5]))
        normal[0].bias.copy_(mt.tensor([0.3, 0.2, -1.0]))
    for _ in range(3):
        normal(make(2, 3, 5, 4))
    frozen = nn.Sequential(nn.FrozenBatchNorm2d(3, eps=0.1)).double().to(device)
    assert frozen.load_state_dict(normal.state_dict()) == ([], [])
    x = make(2, 3, 5, 4)
    np.testing.assert_allclose(host(frozen(x)), host(normal.eval()(x)), rtol=1e-12, atol=1e-14)
    frozen[0](x).square().sum().backward()
    grad = host(x.grad)
    x.grad = None
    normal(x).square().sum().backward()
    np.testing.assert_allclose(host(x.grad), grad, rtol=1e-12, atol=1e-14)
    assert list(frozen.parameters()) == [] and len(shapes(frozen)) == 4
    state = {**normal.state_dict(), "1.num_batches_tracked": mt.tensor(1)}
    with pytest.raises(CheckpointError, match="unexpected   1.num_batches_tracked"):
        frozen.load_state_dict(state)
    with pytest.raises(ShapeError, match="FrozenBatchNorm2d: input has the wrong shape"):
        frozen(make(2, 4, 5, 3))


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_parameters_start_uniform_within_one_over_the_root_of_the_inputs(kind):
    mt.manual_seed(0)
    layer = kind(6, 4, (3, 5), groups=2)
    bound = 1 / math.sqrt(layer.weight.shape[1] * 15)
    for values in (host(layer.weight), host(layer.bias)):
        assert np.abs(values).max() <= bound
    assert np.abs(host(layer.weight)).max() > 0.95 * bound
    assert abs(host(layer.weight).std() - bound / math.sqrt(3)) < 0.1 * bound


@pytest.mark.parametrize(
    ("mode", "numpy_mode"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_padding_modes(mode, numpy_mode, make, device):
    x = make(2, 3, 5, 7, requires_grad=False)
    for padding, around in (
        ((1, 2), ((1, 1), (2, 2))), ("same", ((1, 1), (0, 1))), ("valid", ((0, 0), (0, 0))),
    ):  # fmt: skip
        layer = nn.Conv2d(3, 2, (3, 2), padding=padding, padding_mode=mode).double().to(device)
        wide = np.pad(host(x), ((0, 0), (0, 0), *around), numpy_mode)
        expected = mt.conv2d(mt.tensor(wide, device=device), layer.weight, layer.bias)
        np.testing.assert_allclose(host(layer(x)), host(expected), atol=1e-12)


def test_output_size_of_a_transposed_convolution(make, device):
    layer = nn.ConvTranspose2d(3, 2, 3, stride=3, padding=1).to(device)
    x = make(1, 3, 4, 2, dtype="float32")
    assert layer(x).shape == (1, 2, 10, 4)
    assert layer(x, output_size=(12, 5)).shape == (1, 2, 12, 5)
    assert layer(x, output_size=(1, 2, 11, 6)).shape == (1, 2, 11, 6)
    np.testing.assert_array_equal(host(layer(x, (12, 5)))[:, :, :10, :4], host(layer(x)))
    for size in ((13, 4), (9, 4), (10,)):
        with pytest.raises(ArgumentError, match="output_size is out of range"):
            layer(x, output_size=size)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_counts_batches_and_uses_what_it_saw(momentum, device, rng):
    layer = nn.BatchNorm1d(3, momentum=momentum).double().to(device)
    mean, variance = np.zeros(3), np.ones(3)
    for step in range(1, 4):
        x = rng.normal(size=(5, 3, 2)) * step + step
        y = host(layer(mt.tensor(x, device=device)))
        np.testing.assert_allclose(y.mean((0, 2)), np.zeros(3), atol=1e-12)
        share = 1 / step if momentum is None else momentum
        columns = x.swapaxes(0, 1).reshape(3, -1)
        mean = (1 - share) * mean + share * columns.mean(1)
        variance = (1 - share) * variance + share * columns.var(1, ddof=1)
        assert layer.num_batches_tracked.item() == step
    np.testing.assert_allclose(layer.running_mean.numpy(), mean)
    np.testing.assert_allclose(layer.running_var.numpy(), variance)
    x = rng.normal(size=(2, 3))
    y = host(layer.eval()(mt.tensor(x, device=device)))
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(variance + 1e-5))
    assert layer.num_batches_tracked.item() == 3
    layer.reset_running_stats()
    assert layer.running_mean.numpy().tolist() == [0, 0, 0]
    assert layer.running_var.numpy().tolist() == [1, 1, 1]
    assert layer.num_batches_tracked.item() == 0


def test_norms_without_running_statistics_use_the_batch_in_evaluation(make, device):
    x = make(5, 3, 4, dtype="float32", requires_grad=False)
    layer = nn.BatchNorm1d(3, track_running_stats=False).to(device)
    np.testing.assert_array_equal(host(layer(x)), host(layer.eval()(x)))
    layer = nn.InstanceNorm1d(3)
    np.testing.assert_array_equal(host(layer(x)), host(layer.eval()(x)))
    kept = nn.BatchNorm1d(3).to(device)
    kept.track_running_stats = False
    kept(x)
    assert kept.running_mean.numpy().tolist() == [0, 0, 0]


def test_instance_norm_takes_one_image(make, device):
    layer = nn.InstanceNorm2d(3, track_running_stats=True).double().to(device)
    x = make(3, 4, 5, requires_grad=False)
    y = layer(x)
    np.testing.assert_allclose(host(y).mean((1, 2)), np.zeros(3), atol=1e-12)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * host(x).mean((1, 2)))
    assert layer.num_batches_tracked.item() == 0
    assert layer.eval()(x).shape == (3, 4, 5)


def test_wrong_arguments(make):
    with pytest.raises(ArgumentError, match="not divisible by groups"):
        nn.Conv2d(3, 4, 2, groups=2)
    with pytest.raises(ArgumentError, match="padding_mode is not supported"):
        nn.Conv2d(3, 4, 2, padding_mode="mirror")
    with pytest.raises(ArgumentError, match="padding_mode is not supported"):
        nn.ConvTranspose1d(3, 4, 2, padding_mode="reflect")
    with pytest.raises(ArgumentError, match="stride must be 1"):
        nn.Conv2d(3, 4, 2, stride=2, padding="same")
    with pytest.raises(ArgumentError, match="padding is not supported"):
        nn.Conv2d(3, 4, 2, padding="full")
    with pytest.raises(ArgumentError, match="kernel_size must be one"):
        nn.Conv1d(3, 4, (2, 2))
    with pytest.raises(ArgumentError, match="not divisible by num_groups"):
        nn.GroupNorm(2, 3)
    with pytest.raises(ShapeError, match="4 axes"):
        nn.BatchNorm2d(3)(make(2, 3, 5))
    with pytest.raises(ShapeError, match="2 or 3 axes"):
        nn.BatchNorm1d(3)(make(2, 3, 5, 5))


SAME = [
    (nn.MaxPool1d(2, 1), lambda x: mt.max_pool1d(x[0], 2, 1), 1),
    (nn.MaxPool2d(3, 2, 1, ceil_mode=True), lambda x: mt.max_pool2d(x, 3, 2, 1, 1, True), 0),
    (nn.MaxPool2d((2, 1), dilation=2), lambda x: mt.max_pool2d(x, (2, 1), dilation=2), 0),
    (nn.AvgPool1d(2, padding=1), lambda x: mt.avg_pool1d(x[0], 2, padding=1), 1),
    (nn.AvgPool2d(3, 2, 1, True, False), lambda x: mt.avg_pool2d(x, 3, 2, 1, True, False), 0),
    (nn.AvgPool2d(2, divisor_override=3), lambda x: mt.avg_pool2d(x, 2, divisor_override=3), 0),
    (nn.AdaptiveAvgPool1d(3), lambda x: mt.adaptive_avg_pool1d(x[0], 3), 1),
    (nn.AdaptiveAvgPool2d((None, 3)), lambda x: mt.adaptive_avg_pool2d(x, (None, 3)), 0),
    (nn.AdaptiveMaxPool1d(2), lambda x: mt.adaptive_max_pool1d(x[0], 2), 1),
    (nn.AdaptiveMaxPool2d(2), lambda x: mt.adaptive_max_pool2d(x, 2), 0),
    (nn.Upsample(scale_factor=2), lambda x: mt.interpolate(x, scale_factor=2.0), 0),
    (nn.Upsample((3, 4), mode="bicubic"), lambda x: mt.interpolate(x, (3, 4), mode="bicubic"), 0),
    (nn.UpsamplingNearest2d(7), lambda x: mt.interpolate(x, 7), 0),
    (nn.UpsamplingBilinear2d(scale_factor=(2, 1)),
     lambda x: mt.interpolate(x, (12, 5), mode="bilinear", align_corners=True), 0),
    (nn.Unfold(2, 1, 1, 2), lambda x: mt.unfold(x, 2, 1, 1, 2), 0),
    (nn.PixelShuffle(2), lambda x: mt.pixel_shuffle(x, 2), 0),
    (nn.PixelUnshuffle(1), lambda x: mt.pixel_unshuffle(x, 1), 0),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "function", "first"), SAME, ids=lambda v: type(v).__name__)
def test_layers_without_parameters(layer, function, first, make):
    x = make(2, 4, 6, 5, requires_grad=False)
    np.testing.assert_array_equal(layer(x[0] if first else x).numpy(), function(x).numpy())
    assert layer.extra_repr() in repr(layer)


def test_fold_undoes_unfold_and_pools_return_places(make):
    x = make(2, 3, 4, 6, requires_grad=False)
    columns = nn.Unfold((2, 3), stride=(2, 3))(x)
    again = nn.Fold((4, 6), (2, 3), stride=(2, 3))(columns)
    np.testing.assert_array_equal(again.numpy(), x.numpy())
    for layer in (nn.MaxPool2d(2, return_indices=True), nn.AdaptiveMaxPool2d(2, True)):
        y, place = layer(x)
        found = np.take_along_axis(
            x.numpy().reshape(2, 3, -1), place.numpy().reshape(2, 3, -1), axis=2
        )
        np.testing.assert_array_equal(found.reshape(y.shape), y.numpy())


def test_texts_name_what_is_unusual():
    text = repr(nn.Conv2d(3, 4, 2, padding=1, bias=False, padding_mode="reflect"))
    assert text == (
        "Conv2d(3, 4, kernel_size=(2, 2), stride=(1, 1), padding=(1, 1), bias=False, "
        "padding_mode=reflect)"
    )
    assert repr(nn.GroupNorm(2, 4)) == "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"
