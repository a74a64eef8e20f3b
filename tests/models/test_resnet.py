"""ResNet: the published sizes, a reference in NumPy, dilated stages, names of torchvision."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError
from minitorch_attn.models import ResNet, resnet18, resnet34, resnet50, resnet101
from minitorch_attn.models.resnet import BasicBlock, Bottleneck
from minitorch_attn.nn.summary import Summary

BLOCKS = [BasicBlock, Bottleneck]


def small(block, layers=(2, 1), device="cpu", **changes):
    settings = dict(
        num_classes=5, in_channels=2, channels=(3, 5, 7)[: len(layers)], stem_channels=4
    )
    mt.manual_seed(3)
    model = ResNet(block, layers, **{**settings, **changes}).double()
    rng = np.random.default_rng(5)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d | nn.FrozenBatchNorm2d):
            for name in ("weight", "running_var"):
                getattr(module, name).data = mt.tensor(rng.uniform(0.5, 1.5, module.weight.shape))
            for name in ("bias", "running_mean"):
                getattr(module, name).data = mt.tensor(rng.normal(size=module.weight.shape) * 0.3)
    return model.to(device)


def convolved(x, weight, stride=1, padding=0, dilation=1, groups=1):
    """A convolution as a sum over the places of the kernel."""
    out_channels, inner, kernel = weight.shape[:3]
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    size = [(n - dilation * (kernel - 1) - 1) // stride + 1 for n in x.shape[2:]]
    y = np.zeros((len(x), out_channels, *size))
    for o in range(out_channels):
        first = o // (out_channels // groups) * inner
        for i in range(kernel):
            for j in range(kernel):
                rows = slice(i * dilation, i * dilation + stride * (size[0] - 1) + 1, stride)
                columns = slice(j * dilation, j * dilation + stride * (size[1] - 1) + 1, stride)
                part = x[:, first : first + inner, rows, columns]
                y[:, o] += (part * weight[o, :, i, j, None, None]).sum(1)
    return y


def normed(x, state, name):
    mean, var, weight, bias = (
        state[f"{name}.{key}"][:, None, None]
        for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / np.sqrt(var + 1e-5) * weight + bias


def plain_block(x, state, name, kind, stride, dilations, groups=1):
    relu = lambda value: np.maximum(value, 0)  # noqa: E731
    shortcut = x
    if f"{name}.downsample.0.weight" in state:
        shortcut = convolved(x, state[f"{name}.downsample.0.weight"], stride)
        shortcut = normed(shortcut, state, f"{name}.downsample.1")
    settings = [(stride, dilations[0], dilations[0]), (1, dilations[1], dilations[1])]
    if kind is Bottleneck:
        settings = [(1, 0, 1), (stride, dilations[0], dilations[0], groups), (1, 0, 1)]
    for i, setting in enumerate(settings):
        x = normed(convolved(x, state[f"{name}.conv{i + 1}.weight"], *setting), state,
                   f"{name}.bn{i + 1}")  # fmt: skip
        x = relu(x) if i + 1 < len(settings) else x
    return relu(x + shortcut)


def plain_maps(x, state, kind, layers, dilated, small_stem, groups):
    x = convolved(x, state["conv1.weight"], *((1, 1) if small_stem else (2, 3)))
    x = np.maximum(normed(x, state, "bn1"), 0)
    if not small_stem:
        wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        rows, columns = ((n - 1) // 2 + 1 for n in x.shape[2:])
        parts = [wide[:, :, i : i + 2 * rows - 1 : 2, j : j + 2 * columns - 1 : 2]
                 for i in range(3) for j in range(3)]  # fmt: skip
        x = np.max(parts, axis=0)
    maps, dilation = [], 1
    for i, count in enumerate(layers):
        stride, before = 2 if i else 1, dilation
        if i and dilated[i - 1]:
            stride, dilation = 1, 2 * dilation
        for j in range(count):
            pair = (dilation if j else before, dilation)
            x = plain_block(x, state, f"layer{i + 1}.{j}", kind, 1 if j else stride, pair, groups)
        maps.append(x)
    return maps


@pytest.mark.parametrize(
    ("builder", "count"),
    [
        (resnet18, 11_689_512), (resnet34, 21_797_672), (resnet50, 25_557_032),
        (resnet101, 44_549_160),
    ],
)  # fmt: skip
def test_published_sizes(builder, count):
    with nn.init.skip_init():
        model = builder()
    assert sum(p.numel() for p in model.parameters()) == count


def test_cost_of_table_1():
    """1.8 G multiply-adds of ResNet-18; a stride in the 3 x 3 convolution makes ResNet-50's 4.1."""
    with nn.init.skip_init():
        found = [Summary(build(), mt.zeros(1, 3, 224, 224)).flops for build in (resnet18, resnet50)]
    assert [round(flops / 2e9, 1) for flops in found] == [1.8, 4.1]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("dilated", [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("small_stem", [False, True])
def test_feature_maps_of_the_reference(block, dilated, small_stem, rng, device):
    groups = 3 if block is Bottleneck else 1
    wide = {"groups": 3, "width_per_group": 32} if groups > 1 else {}
    layers = (2, 1, 2)
    model = small(
        block, layers, device, replace_stride_with_dilation=dilated, small_stem=small_stem, **wide
    ).eval()
    images = rng.normal(size=(2, 2, 23, 17))
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    expected = plain_maps(images, state, block, layers, dilated, small_stem, groups)
    with mt.no_grad():
        maps = model.feature_maps(mt.tensor(images, device=device))
        logits = model(mt.tensor(images, device=device))
    for found, other in zip(maps, expected, strict=True):
        assert found.shape == other.shape
        np.testing.assert_allclose(found.numpy(), other, rtol=1e-9, atol=1e-9)
    pooled = expected[-1].mean((2, 3))
    np.testing.assert_allclose(
        logits.numpy(), pooled @ state["fc.weight"].T + state["fc.bias"], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(("block", "training"), [(BasicBlock, True), (Bottleneck, False)])
def test_gradients(block, training, make, device):
    sizes = {"channels": (2, 1), "stem_channels": 3, "num_classes": 2}
    model = small(block, (1, 1), device, small_stem=True, **sizes).train(training)
    assert gradcheck_module(model, make(2, 2, 5, 3))


def test_frozen_norms_equal_norms_in_eval_mode(make, device):
    frozen = small(Bottleneck, device=device, norm_layer=nn.FrozenBatchNorm2d)
    normal = small(Bottleneck, device=device)
    frozen.load_state_dict(normal.state_dict())  # num_batches_tracked is left out
    names = {name for name, _ in frozen.named_parameters()}
    assert not any("bn" in name or "downsample.1" in name for name in names)
    images = make(2, 2, 21, 19)
    np.testing.assert_allclose(
        frozen.train()(images).numpy(), normal.eval()(images).numpy(), rtol=1e-10, atol=1e-12
    )


def test_names_of_torchvision():
    with nn.init.skip_init():
        state = resnet50().state_dict()
    assert len(state) == 320
    assert state["layer2.0.downsample.0.weight"].shape == (512, 256, 1, 1)
    assert state["layer2.0.downsample.1.running_var"].shape == (512,)
    assert state["layer3.5.conv2.weight"].shape == (256, 256, 3, 3)
    assert state["layer4.2.bn3.num_batches_tracked"].shape == ()
    assert [key for key in state if "." not in key.replace(".", "", 1)][:2] == [
        "conv1.weight", "bn1.weight",
    ]  # fmt: skip
    assert state["fc.weight"].shape == (1000, 2048)


def test_a_block_that_starts_as_the_identity(make, device):
    model = ResNet(BasicBlock, (2,), 0, channels=(4,), stem_channels=4, zero_init_residual=True)
    x = make(2, 4, 5, 3).relu()
    np.testing.assert_array_equal(model.double().to(device).layer1(x).numpy(), x.numpy())


def test_drop_path_rates_increase():
    model = small(BasicBlock, (2, 1, 2), drop_path=0.4)
    rates = [m.drop_prob for m in model.modules() if isinstance(m, nn.DropPath)]
    np.testing.assert_allclose(rates, [0.0, 0.1, 0.2, 0.3, 0.4])


def test_what_is_refused():
    with pytest.raises(ArgumentError, match="BasicBlock must have groups=1"):
        small(BasicBlock, groups=2)
    with pytest.raises(ArgumentError, match="do not match layers"):
        ResNet(BasicBlock, (1, 1), channels=(3, 5, 7))
    with pytest.raises(ArgumentError, match="do not match layers"):
        small(BasicBlock, replace_stride_with_dilation=(True, True))
    with pytest.raises(ArgumentError, match="layers must be"):
        small(BasicBlock, (10**9, 1))
