"""conv_norm_relu: when the modules run as one operation, and when one by one."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import DTypeError, ShapeError
from minitorch_attn.nn.conv_norm_relu import conv_norm_relu

IN, OUT = 3, 5


def operations(function):
    with mt.autograd.op_log() as steps:
        function()
    return [step.op for step in steps]


def one_by_one(x, conv, norm, shortcut=None, drop_path=None):
    y = norm(conv(x))
    y = y if drop_path is None else drop_path(y)
    return mt.relu(y if shortcut is None else y + shortcut)


def filled(norm, rng):
    """The norm with drawn statistics, weight and bias."""
    with mt.no_grad():
        for name, low in (("running_mean", -1), ("running_var", 0.5), ("weight", -1), ("bias", -1)):
            tensor = getattr(norm, name)
            tensor.copy_(mt.tensor(rng.uniform(low, 2, tensor.shape), dtype=tensor.dtype))
    return norm


@pytest.fixture
def parts(rng, device):
    """Input, convolution, frozen norm and shortcut."""
    conv = nn.Conv2d(IN, OUT, 3, padding=1, bias=False, device=device)
    norm = filled(nn.FrozenBatchNorm2d(OUT, device=device), rng)
    x, shortcut = (mt.randn(2, n, 7, 4, device=device) for n in (IN, OUT))
    return x, conv, norm, shortcut


def check(parts, fused, drop_path=None):
    """Which operations run, and that the values are those of the modules."""
    ops = operations(lambda: conv_norm_relu(*parts, drop_path))
    assert (ops == ["ConvNormRelu"]) == fused
    assert fused or (ops[-1] == "Relu" and "Conv" in ops)
    if drop_path is None:
        got, expected = conv_norm_relu(*parts), one_by_one(*parts)
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_a_frozen_norm(parts):
    check(parts, True)
    check((*parts[:3], None), True)
    check(parts, True, nn.DropPath(0.0))
    check(parts, True, nn.DropPath(0.5).eval())


def test_a_batch_norm_in_evaluation(parts, rng, device):
    x, conv, _, shortcut = parts
    norm = filled(nn.BatchNorm2d(OUT, device=device), rng).eval()
    check((x, conv, norm, shortcut), False)  # its weight needs a gradient
    with mt.no_grad():
        check((x, conv, norm, shortcut), True)
    norm.requires_grad_(False)
    check((x, conv, norm, shortcut), True)
    check((x, conv, norm.train(), shortcut), False)
    check((x, conv, nn.BatchNorm2d(OUT, affine=False, device=device).eval(), shortcut), True)
    untracked = nn.BatchNorm2d(OUT, affine=False, track_running_stats=False, device=device).eval()
    check((x, conv, untracked, shortcut), False)


def test_the_gradient_of_a_batch_norm_in_evaluation(parts, rng, device):
    x, conv, _, shortcut = parts
    norm = filled(nn.BatchNorm2d(OUT, device=device), rng).eval()
    conv_norm_relu(x, conv, norm, shortcut).sum().backward()
    assert all(p.grad is not None for p in (*conv.parameters(), *norm.parameters()))


class Doubled(nn.Conv2d):
    """A convolution of one's own."""

    def forward(self, x):
        return super().forward(x) * 2


@pytest.mark.parametrize(
    "conv",
    [
        lambda: nn.Conv2d(IN, OUT, 3, padding=1),  # with a bias
        lambda: nn.Conv2d(IN, OUT, 3, padding=1, bias=False, padding_mode="reflect"),
        lambda: Doubled(IN, OUT, 3, padding=1, bias=False),
        lambda: nn.Sequential(nn.Conv2d(IN, OUT, 3, padding=1, bias=False)),
    ],
)
def test_other_convolutions_run_one_by_one(conv, parts, device):
    x, _, norm, shortcut = parts
    check((x, conv().to(device), norm, shortcut), False)


def test_other_norms_run_one_by_one(parts, device):
    x, conv, _, shortcut = parts
    check((x, conv, nn.GroupNorm(1, OUT, device=device), shortcut), False)
    check((x, conv, nn.Identity(), shortcut), False)


def test_drop_path_in_training(parts):
    check(parts, False, nn.DropPath(0.5))


@pytest.mark.parametrize("index", [1, 2])
def test_a_hook_is_called(index, parts):
    seen = []
    handle = parts[index].register_forward_hook(lambda m, args, y: seen.append(y.shape))
    check(parts, False)
    assert seen == [(2, OUT, 7, 4)] * 3
    handle.remove()
    check(parts, True)


def test_a_hook_of_drop_path_is_called(parts):
    drop_path, seen = nn.DropPath(0.0), []
    drop_path.register_forward_hook(lambda m, args, y: seen.append(y.shape))
    check(parts, False, drop_path)
    assert len(seen) == 1


def test_under_autocast(parts):
    with mt.autocast(parts[0].device.type):
        assert "ConvNormRelu" not in operations(lambda: conv_norm_relu(*parts))


def test_two_dtypes_run_one_by_one(parts):
    x, conv, norm, shortcut = parts
    check((x, conv, norm, shortcut.double()), False)
    with pytest.raises(DTypeError, match="batch_norm: weight and input"):
        conv_norm_relu(x, conv, norm.double(), shortcut)


def test_a_shortcut_that_broadcasts(parts):
    check((*parts[:3], parts[3][:1, :, :1]), True)


def test_errors_are_those_of_the_modules(parts, device):
    x, conv, norm, _ = parts
    with pytest.raises(ShapeError, match="FrozenBatchNorm2d: input has the wrong shape"):
        conv_norm_relu(x, conv, nn.FrozenBatchNorm2d(OUT + 1, device=device))
    with pytest.raises(ShapeError, match="conv2d"):
        conv_norm_relu(x[0, 0], conv, norm)
    with pytest.raises(ShapeError, match="FrozenBatchNorm2d"):
        conv_norm_relu(x[0], conv, norm)
    for wrong in (x[:, :2], mt.zeros(2, IN, 0, 0, device=device)):
        with pytest.raises(ShapeError, match=r"(?s)conv2d: .*in Conv2d\("):
            conv_norm_relu(wrong, conv, norm)
