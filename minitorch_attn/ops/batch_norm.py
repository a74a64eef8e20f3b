"""Batch normalization (batch_norm), and the related instance_norm and group_norm.

All three normalize to mean 0 and variance 1 over some axes of (batch, channel, *space), then scale
and shift each channel. They differ in the axes. `batch_norm` normalizes each channel over the batch
and space. `instance_norm` normalizes each channel of each image over space. `group_norm` normalizes
each group of channels of each image over the group and space.
"""

import math

from ..autograd.autocast import autocasts
from ..autograd.function import Function
from ..backend import array_module, check_same_device
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .plumbing.operands import at_least_zero
from .plumbing.tensor_arguments import not_tensors
from .reshape import Reshape

__all__ = ["batch_norm", "group_norm", "instance_norm"]


@computes("norm over any axes", reveals=("layer norm",))
class NormOver(Function):
    r"""Normalization to mean 0 and variance 1 over some axes, then a scale and a shift per channel.

    Forward:  y = (x - m) * r * weight + bias, m = mean(x), r = 1 / sqrt(var(x) + eps)
    Backward: h = grad_y * weight, grad_x = r * (h - mean(h) - x_hat * mean(h * x_hat)),
        grad_weight = sum(grad_y * x_hat), grad_bias = sum(grad_y)

    x has been reshaped to four axes: (.., .., channel, item), or (.., group, channel, item) if the
    channels are divided into groups. The mean and the (biased) variance are taken over `axes`.
    Weight and bias, if given, have one number per channel.

    Derivation: x_hat = (x - m) r is the normalized input and h = dL/dx_hat. A small step of x along
    the all-ones direction or along x_hat leaves x_hat unchanged (except through eps), so grad_x has
    no component along either. A small step dx that is orthogonal to both changes neither m nor r,
    so dx_hat = r dx. Therefore, grad_x is r h minus its components along all-ones and x_hat, which
    are r mean(h) and r x_hat mean(h x_hat). grad_weight and grad_bias are summed over all axes
    except the channel axes.
    Saved: x, weight and bias; m and r as intermediates.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, *, axes, eps, running):
        # x: (.., .., channel, item) or (.., group, channel, item); weight, bias: the channel axes
        count = math.prod([x.shape[axis] for axis in axes])
        ctx.count = max(count, 1)
        ctx.save(x, weight, bias)
        mean = x.sum(axis=axes, keepdims=True) / ctx.count
        y = x - mean
        variance = (y * y).sum(axis=axes, keepdims=True) / ctx.count
        if running is not None and count:
            _move(*running, mean, variance, count)
        rstd = 1.0 / array_module(x).sqrt(variance + eps)
        ctx.save_intermediate(mean, rstd)
        y *= rstd
        if weight is not None:
            y *= weight[..., None]
        if bias is not None:
            y += bias[..., None]
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, weight, bias = ctx.saved
        mean, rstd = ctx.intermediate
        need_x, need_weight, need_bias = ctx.needs_grad
        axes = ctx.settings["axes"]
        grad_x = grad_weight = grad_bias = None
        if need_bias:
            grad_bias = grad_y.sum(axis=_other_axes(bias))
        if need_x or need_weight:
            x_hat = (x - mean) * rstd
        if need_weight:
            grad_weight = (grad_y * x_hat).sum(axis=_other_axes(weight))
        if need_x:
            grad_x_hat = grad_y if weight is None else grad_y * weight[..., None]
            along_x_hat = (grad_x_hat * x_hat).sum(axis=axes, keepdims=True) / ctx.count
            along_ones = grad_x_hat.sum(axis=axes, keepdims=True) / ctx.count
            grad_x = grad_x_hat - along_ones
            x_hat *= along_x_hat
            grad_x -= x_hat
            grad_x *= rstd
        return grad_x, grad_weight, grad_bias

    @staticmethod
    def composed(ctx, x, weight, bias, *, axes, eps, running):
        """Compute the result step by step. Only `forward` updates the running statistics."""
        centered = x - x.mean(axes, keepdim=True)
        variance = (centered * centered).mean(axes, keepdim=True)
        y = centered * (variance + eps).rsqrt()
        y = y if weight is None else y * weight.unsqueeze(-1)
        return y if bias is None else y + bias.unsqueeze(-1)


class NormByRunning(Function):
    r"""Normalization by constant statistics, then a scale and a shift, per channel.

    Forward:  y = x * weight * r + (bias - m * weight), r = 1 / sqrt(var + eps), m = mean * r
    Backward: grad_x = grad_y * weight * r, grad_weight = sum(grad_y * (x * r - m)),
        grad_bias = sum(grad_y)

    Derivation: y = (x r - m) weight + bias with constants r and m, so y is linear in each of x,
    weight and bias. All entries of a channel share one weight and one bias, so the gradients of
    weight and bias are sums over all axes except the channel axis.
    Saved: weight, and also x if the weight needs a gradient; r and m are constants.

    Separate operations take 1.2 to 1.7 times as long as this class (forward and backward, on ResNet
    feature maps).
    """

    @staticmethod
    def forward(ctx, x, weight, bias, *, mean, var, eps):
        # x: (batch, channel, *space); weight, bias, mean, var: (channel,)
        shape = (-1, *(1 for _ in x.shape[2:]))
        r, scale, shift = scale_and_shift(mean, var, weight, bias, eps)
        ctx.save(x if ctx.needs_grad[1] else None, weight)
        ctx.constants(r.reshape(shape), (mean * r).reshape(shape))
        y = x * scale.reshape(shape)
        y += shift.reshape(shape)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, weight = ctx.saved
        r, m = ctx.constant
        need_x, need_weight, need_bias = ctx.needs_grad
        axes = (0, *range(2, grad_y.ndim))
        grad_x = grad_weight = grad_bias = None
        if need_x:
            grad_x = grad_y * (r if weight is None else weight.reshape(r.shape) * r)
        if need_weight:
            grad_weight = (grad_y * (x * r - m)).sum(axis=axes)
        if need_bias:
            grad_bias = grad_y.sum(axis=axes)
        return grad_x, grad_weight, grad_bias


def scale_and_shift(mean, var, weight, bias, eps):
    """Return 1 / sqrt(var + eps), and the scale and the shift of a norm by constant statistics.

    (x - mean) / sqrt(var + eps) * weight + bias = x * scale + shift. All are arrays (channel,).
    """
    r = 1.0 / array_module(var).sqrt(var + eps)
    scale = r if weight is None else r * weight
    shift = -mean * scale
    return r, scale, shift if bias is None else shift + bias


def _other_axes(parameter):
    """Return the axes over which the gradient of `parameter` is summed: all but the channel axes.

    The input has four axes. The axes of `parameter` are the channel axes.
    """
    return (*range(3 - parameter.ndim), 3)


def _move(running_mean, running_var, momentum, mean, variance, count):
    """Update the statistics in place: running = (1 - momentum) * running + momentum * new.

    `new` is the mean or the variance of the input; in `instance_norm`, it is averaged over the
    batch. The new variance is unbiased: the sum of `count` squared deviations is divided by
    count - 1.
    """
    unbiased = variance * (count / (count - 1) if count > 1 else math.nan)
    for running, new in ((running_mean, mean), (running_var, unbiased)):
        if running is not None:
            channels = new.reshape(-1, running.shape[0])  # (instance, channel)
            running *= 1 - momentum
            running += momentum * channels.mean(axis=0)


@names_arguments
@autocasts
def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
    eps=1e-5,
):  # fmt: skip
    """Batch normalization: mean 0 and variance 1 per channel, then an affine map.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, *space)
    running_mean, running_var : Tensor of shape (channel,), or None
        Running statistics. If `training` is False, they are required, and are used instead of the
        batch statistics. If `training` is True and they are given, they are updated in place; the
        running variance is updated with the unbiased variance of the batch.
    weight, bias : Tensor of shape (channel,), optional
        Scale and shift of each channel.
    training : bool, default False
        Whether to use the statistics of the batch instead of the running statistics.
    momentum : float, default 0.1
        Weight of the new statistics in the running statistics.
    eps : float, default 1e-5
        Small number added to the variance, so that the divisor is never 0.

    Returns
    -------
    Tensor of the same shape as `input`

    Notes
    -----
    The mean and variance are taken over the batch and space. The derivative is in `NormOver`. As in
    Ioffe and Szegedy 2015, arXiv:1502.03167v3, Algorithm 1, only the running variance is unbiased.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> batch_norm(mt.tensor([[1.0], [3.0]]), None, None, training=True, eps=0.0)
    tensor([[-1.],
            [ 1.]])
    """
    if isinstance(input, Tensor) and input.shape == (0,):
        return input.clone()  # as in PyTorch: nothing to normalize
    _check(
        "batch_norm", input, weight=weight, bias=bias, running_mean=running_mean,
        running_var=running_var,
    )  # fmt: skip
    eps = at_least_zero(eps, "batch_norm", "eps")
    if not training:
        return _by_running(input, running_mean, running_var, weight, bias, eps)
    batch, channels, *space = input.shape
    if batch * math.prod(space) == 1:
        raise _too_few("batch_norm", input, "more than one value per channel")
    x = Reshape.apply(input, shape=(1, batch, channels, math.prod(space)))
    y = _normed(x, weight, bias, (0, 1, 3), eps, running_mean, running_var, momentum)
    return Reshape.apply(y, shape=input.shape)


@names_arguments
@autocasts
def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
    momentum=0.1, eps=1e-5,
):  # fmt: skip
    """Instance normalization: mean 0 and variance 1 per image and channel, then an affine map.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, *space)
    running_mean, running_var : Tensor of shape (channel,), optional
        Running statistics as in `batch_norm`, updated with the mean of the images' statistics.
    weight, bias : Tensor of shape (channel,), optional
        Scale and shift of each channel.
    use_input_stats : bool, default True
        If True, normalize by the input's own statistics; if False, by the running statistics.
    momentum, eps : float
        See `batch_norm`.

    Notes
    -----
    The derivative is in `NormOver`. See Ulyanov et al. 2016, arXiv:1607.08022v3, Eq. 4.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> instance_norm(mt.tensor([[[1.0, 3.0], [5.0, 5.0]]]), eps=1e-9)
    tensor([[[-1.,  1.],
             [ 0.,  0.]]])
    """
    _check(
        "instance_norm", input, weight=weight, bias=bias, running_mean=running_mean,
        running_var=running_var,
    )  # fmt: skip
    if not use_input_stats:
        return _by_running(input, running_mean, running_var, weight, bias, eps)
    batch, channels, *space = input.shape
    if math.prod(space) == 1:
        raise _too_few("instance_norm", input, "more than one spatial element per channel")
    x = Reshape.apply(input, shape=(1, batch, channels, math.prod(space)))
    y = _normed(x, weight, bias, (3,), eps, running_mean, running_var, momentum)
    return Reshape.apply(y, shape=input.shape)


@names_arguments
@autocasts
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Group normalization: mean 0 and variance 1 per group of channels, then an affine map.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, *space)
    num_groups : int
        Number of groups of neighboring channels, all of the same size.
    weight, bias : Tensor of shape (channel,), optional
        Scale and shift of each channel.
    eps : float, default 1e-5
        Small number added to the variance.

    Returns
    -------
    Tensor of the same shape as `input`

    Notes
    -----
    The derivative is in `NormOver`. See Wu and He 2018, arXiv:1803.08494v3, Eqs. 1 to 3
    and 7.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> group_norm(mt.tensor([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0)
    tensor([[-1.,  1., -1.,  1.]])
    """
    _check("group_norm", input, weight=weight, bias=bias)
    batch, channels, *space = input.shape
    if num_groups < 1 or channels % num_groups:
        raise ShapeError(
            "group_norm: the number of channels is not divisible by num_groups",
            got=f"input {input.shape} with {channels} channels and num_groups={num_groups}",
            expected="a positive num_groups that divides the number of channels",
            hint="use num_groups=1 to normalize all channels together",
        )
    width = channels // num_groups
    if batch * width * math.prod(space) == 1:
        raise _too_few("group_norm", input, "more than one value per group")
    x = Reshape.apply(input, shape=(batch, num_groups, width, math.prod(space)))
    weight, bias = (
        None if p is None else Reshape.apply(p, shape=(num_groups, width)) for p in (weight, bias)
    )
    y = NormOver.apply(x, weight, bias, axes=(2, 3), eps=eps, running=None)
    return Reshape.apply(y, shape=input.shape)


def _normed(x, weight, bias, axes, eps, running_mean, running_var, momentum):
    """Apply `NormOver`, and update the running statistics if they are given."""
    kept = [r for r in (running_mean, running_var) if r is not None]
    running = None
    if kept:
        arrays = [None if r is None else r.array for r in (running_mean, running_var)]
        check_same_device((x.array, *arrays), "the input and the running statistics")
        running = (*arrays, momentum)
    y = NormOver.apply(x, weight, bias, axes=axes, eps=eps, running=running)
    for statistic in kept:
        statistic.changed_in_place()
    return y


def _by_running(input, running_mean, running_var, weight, bias, eps):
    """Compute (x - mean) / sqrt(var + eps) * weight + bias with constant statistics."""
    if running_mean is None or running_var is None:
        raise ArgumentError(
            "batch_norm and instance_norm: the running statistics are missing",
            got=f"running_mean={running_mean!r:.20} and running_var={running_var!r:.20}",
            expected="two tensors with one number per channel",
            hint="set training=True (batch_norm) or use_input_stats=True (instance_norm)",
        )
    mean, var = running_mean.array, running_var.array
    check_same_device((input.array, mean, var), "the input and the running statistics")
    return NormByRunning.apply(input, weight, bias, mean=mean, var=var, eps=eps)


def _too_few(where, input, expected):
    return ShapeError(
        f"{where}: the variance of a single value is undefined",
        got=f"input {input.shape}",
        expected=expected,
        hint="use a larger input, or module.eval() if it has running statistics",
    )


def _check(where, input, **parameters):
    """Reject inputs that are not floating-point, and parameters of the wrong size or dtype."""
    try:
        ndim, dtype = input.ndim, input.dtype
    except AttributeError as error:
        raise not_tensors(error, where, input=input) from None
    if ndim < 2:
        raise ShapeError(
            f"{where}: input must have at least 2 axes",
            got=f"input {input.shape}",
            expected="(batch, channel, *space)",
            hint="use input.unsqueeze(0) to add a batch axis",
        )
    if dtype.kind != "f":
        raise DTypeError(
            f"{where}: input must be a floating-point tensor",
            got=f"input {dtype}",
            hint=f"{where}(input.float(), ...)",
        )
    for name, parameter in parameters.items():
        if parameter is None:
            continue
        try:
            fits = parameter.shape == input.shape[1:2]
        except AttributeError as error:
            raise not_tensors(error, where, **{name: parameter}) from None
        if not fits:
            raise ShapeError(
                f"{where}: {name} must have one number per channel",
                got=f"{name} {parameter.shape} for input {input.shape}",
                expected=f"{input.shape[1:2]}",
                hint="check that axis 1 of input is the channel axis",
            )
        if parameter.dtype != dtype:
            raise DTypeError(
                f"{where}: {name} and input have different dtypes",
                got=f"{name} {parameter.dtype} and input {dtype}",
                hint=f"use input.to({name}.dtype), or module.to(dtype) for the whole module",
            )
