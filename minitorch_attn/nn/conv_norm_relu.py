"""Convolution, norm, shortcut and ReLU of a ResNet block, fused if possible."""

from contextlib import suppress

from .. import ops
from ..autograd.modes import state
from ..backend import device_of
from ..computes import computes
from ..errors import ShapeError
from ..ops.conv_norm_relu import conv_norm_relu as fused
from .batch_norm import BatchNorm2d, FrozenBatchNorm2d
from .conv import Conv2d
from .dropout import DropPath
from .hooks import is_plain, is_taken_apart

__all__ = ["conv_norm_relu"]


@computes("convolution")
def conv_norm_relu(x, conv, norm, shortcut=None, drop_path=None):
    """Return `relu(drop_path(norm(conv(x))) + shortcut)`, as one fused operation if possible.

    It is possible with a batch norm whose statistics, weight and bias are constants: a
    `FrozenBatchNorm2d`, or a `BatchNorm2d` in evaluation that does not need a gradient. The modules
    run one by one on a GPU, under autocast, inside `mt.trace`, or if one of them has a hook.

    Parameters
    ----------
    x : Tensor of shape (batch, in, height, width)
    conv, norm : Module
    shortcut : Tensor, optional
        Tensor that is added before the ReLU, usually of shape (batch, out, *place).
    drop_path : Module, optional

    Returns
    -------
    Tensor of shape (batch, out, *place)
    """
    if _can_fuse(x, conv, norm, shortcut, drop_path):
        with suppress(ShapeError):  # the modules below raise this error with their names
            return fused(
                x, conv.weight, norm.running_mean, norm.running_var, norm.weight, norm.bias,
                shortcut, conv.stride, conv.padding, conv.dilation, conv.groups, norm.eps,
            )  # fmt: skip
    y = norm(conv(x))
    y = y if drop_path is None else drop_path(y)
    return ops.relu(y if shortcut is None else y + shortcut)


def _can_fuse(x, conv, norm, shortcut, drop_path):
    return (
        not is_taken_apart()
        and state.autocast is None
        and is_plain(conv, Conv2d)
        and conv.bias is None
        and conv.padding_mode == "zeros"
        and _is_constant(norm)
        and (drop_path is None or _does_nothing(drop_path))
        and x.ndim == 4
        and conv.weight.shape[0] == norm.num_features
        and device_of(x.array).type != "cuda"
        and all(t is None or t.dtype == x.dtype for t in (conv.weight, norm.running_mean, shortcut))
    )


def _is_constant(norm):
    """Return True for a batch norm that is a constant scale and shift per channel."""
    if is_plain(norm, FrozenBatchNorm2d):
        return True
    if not is_plain(norm, BatchNorm2d) or norm.training or norm.running_mean is None:
        return False
    trained = [p for p in (norm.weight, norm.bias) if p is not None and p.requires_grad]
    return not (trained and state.grad_enabled)


def _does_nothing(drop_path):
    return is_plain(drop_path, DropPath) and not (drop_path.training and drop_path.drop_prob > 0)
