"""Batch normalization (also with frozen statistics), instance and group normalization."""

from .. import ops
from ..autograd.modes import no_grad
from ..errors import ArgumentError, ShapeError
from . import init
from .module import Module
from .parameter import Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "FrozenBatchNorm2d", "GroupNorm", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d",
]  # fmt: skip


class _ChannelNorm(Module):
    """Base class for normalization with parameters and running statistics per channel."""

    ranks = ()  # allowed numbers of axes of the input
    may_be_missing = ("num_batches_tracked",)  # old checkpoints do not contain it

    def __init__(
        self, num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        make = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            values = Parameter(ops.empty(num_features, **make)) if wanted else None
            self.register_parameter(name, values)
        tracked = track_running_stats
        self.register_buffer("running_mean", ops.zeros(num_features, **make) if tracked else None)
        self.register_buffer("running_var", ops.ones(num_features, **make) if tracked else None)
        count = ops.zeros((), dtype="int64", device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self):
        """Reset the running statistics to mean 0 and variance 1."""
        if self.track_running_stats:
            with no_grad():
                self.running_mean.fill_(0.0)
                self.running_var.fill_(1.0)
                self.num_batches_tracked.fill_(0)

    def reset_parameters(self):
        """Set the weight to ones and the bias to zeros, and reset the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check(self, input):
        name = type(self).__name__
        if input.ndim not in self.ranks:
            raise ShapeError(
                f"{name}: input has the wrong number of axes",
                got=f"input {input.shape}",
                expected=f"{' or '.join(map(str, self.ranks))} axes",
                hint="use the 1d, 2d or 3d layer for 1, 2 or 3 axes after batch and channel",
            )

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_ChannelNorm):
    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
        device=None, dtype=None, *, bias=True,
    ):  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input):
        # input: (batch, channel, *space)
        self._check(input)
        by_batch = self.training or self.running_mean is None
        moved = self.training and self.track_running_stats
        running = (self.running_mean, self.running_var)
        if by_batch and not moved:
            running = (None, None)  # the running statistics are neither used nor updated
        return ops.batch_norm(
            input, *running, self.weight, self.bias, by_batch,
            self._counted() if moved else 0.0, self.eps,
        )  # fmt: skip

    def _counted(self):
        """Add 1 to the number of batches. Return the batch's weight in the running statistics."""
        if self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.add_(1)
        if self.momentum is None:  # the average over all batches
            return 1.0 / float(self.num_batches_tracked)
        return self.momentum


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (batch, channel) or (batch, channel, length); see `BatchNorm2d`."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization: mean 0 and variance 1 per channel of a batch, then scale and shift.

    In training, the layer normalizes with the statistics of the batch and updates running averages
    of these statistics. In evaluation, it normalizes with the running averages.

    Parameters
    ----------
    num_features : int
        Number of channels.
    eps : float, default 1e-5
        Small number added to the variance.
    momentum : float or None, default 0.1
        Weight of a new batch in the running statistics. None gives all batches equal weight.
    affine : bool, default True
        Whether the layer has a weight and a bias.
    bias : bool, default True
        Whether the layer has a bias. Ignored if `affine` is False.
    track_running_stats : bool, default True
        Whether to keep running statistics. If False, evaluation also uses batch statistics.
    device, dtype : optional
        Device and dtype of the parameters.

    Attributes
    ----------
    weight, bias : Parameter of shape (num_features,), or None
        None if `affine` is False. The bias is also None if `bias` is False.
    running_mean, running_var : Tensor of shape (num_features,), or None
    num_batches_tracked : int64 Tensor of shape (), or None
        All three are None if `track_running_stats` is False.

    Notes
    -----
    Ioffe and Szegedy 2015, arXiv:1502.03167v3, Algorithms 1 and 2. The running variance is a
    running average of the unbiased variances of the batches.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.BatchNorm2d(1)
    >>> _ = layer(mt.tensor([1.0, 2.0, 3.0, 6.0]).reshape(1, 1, 2, 2))
    >>> layer.running_mean, layer.num_batches_tracked
    (tensor([0.3]), tensor(1))
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (batch, channel, depth, height, width); see `BatchNorm2d`."""

    ranks = (5,)


class FrozenBatchNorm2d(Module):
    """Batch normalization with constant statistics, weight and bias, even during training.

    The layer gives the same result as `BatchNorm2d` in eval mode. Its statistics, weight and bias
    are buffers, so they are not trained. Object detectors use this layer in pretrained backbones,
    because their batches are too small for accurate batch statistics.

    Parameters
    ----------
    num_features : int
        Number of channels.
    eps : float, default 1e-5
        Small number added to the variance.

    Attributes
    ----------
    weight, bias, running_mean, running_var : Tensor of shape (num_features,)

    Notes
    -----
    The names of the buffers and the outputs are the same as in `torchvision.ops.FrozenBatchNorm2d`.
    The state dict of a `BatchNorm2d` can be loaded; its `num_batches_tracked` is ignored.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.FrozenBatchNorm2d(1, eps=0.0)
    >>> _ = layer.running_mean.fill_(2.0), layer.running_var.fill_(4.0)
    >>> layer(mt.tensor([[[[2.0, 6.0]]]])), list(layer.parameters())
    (tensor([[[[0., 2.]]]]), [])
    """

    may_be_extra = ("num_batches_tracked",)  # in the state dict of a BatchNorm2d

    def __init__(self, num_features, eps=1e-5, device=None, dtype=None):
        super().__init__()
        self.num_features, self.eps = num_features, eps
        make = {"device": device, "dtype": dtype}
        self.register_buffer("weight", ops.ones(num_features, **make))
        self.register_buffer("bias", ops.zeros(num_features, **make))
        self.register_buffer("running_mean", ops.zeros(num_features, **make))
        self.register_buffer("running_var", ops.ones(num_features, **make))

    def forward(self, input):
        # input: (batch, channel, height, width)
        if input.ndim != 4 or input.shape[1] != self.num_features:
            raise ShapeError(
                "FrozenBatchNorm2d: input has the wrong shape",
                got=f"input {input.shape}",
                expected=f"(batch, {self.num_features}, height, width)",
            )
        return ops.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )

    def extra_repr(self):
        return f"{self.num_features}, eps={self.eps}"


class _InstanceNorm(_ChannelNorm):
    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False,
        device=None, dtype=None, *, bias=True,
    ):  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input):
        # input: (batch, channel, *space) or (channel, *space)
        self._check(input)
        alone = input.ndim == self.ranks[0]
        y = ops.instance_norm(
            input.unsqueeze(0) if alone else input, self.running_mean, self.running_var,
            self.weight, self.bias, self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip
        return y.squeeze(0) if alone else y


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (batch, channel, length); see `InstanceNorm2d`."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization: mean 0 and variance 1 for each channel of each image.

    Parameters
    ----------
    num_features : int
        Number of channels.
    eps, momentum, affine, bias, track_running_stats, device, dtype
        See `BatchNorm2d`. Here, affine and track_running_stats are False by default.

    Notes
    -----
    Ulyanov et al. 2016, arXiv:1607.08022v3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.InstanceNorm2d(3)(mt.zeros(2, 3, 5, 7)).shape
    (2, 3, 5, 7)
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (batch, channel, depth, height, width); see `InstanceNorm2d`."""

    ranks = (4, 5)


class GroupNorm(Module):
    """Group normalization: mean 0 and variance 1 per group of channels, then scale and shift.

    Parameters
    ----------
    num_groups, num_channels : int
        Number of groups and of channels; num_channels must be divisible by num_groups.
    eps : float, default 1e-5
        Small number added to the variance.
    affine : bool, default True
        Whether the layer has a weight and a bias per channel.
    bias : bool, default True
        Whether the layer has a bias. Ignored if `affine` is False.
    device, dtype : optional
        Device and dtype of the parameters.

    Notes
    -----
    Wu and He 2018, arXiv:1803.08494v3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.GroupNorm(2, 4)(mt.tensor([[1.0, 3.0, 5.0, 9.0]])).detach()
    tensor([[-1.,  1., -1.,  1.]])
    """

    def __init__(
        self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *,
        bias=True,
    ):  # fmt: skip
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(
                "GroupNorm: num_channels is not divisible by num_groups",
                got=f"num_groups={num_groups} and num_channels={num_channels}",
                hint="use num_groups=1 to normalize over all channels together",
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            values = ops.empty(num_channels, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, None if values is None else Parameter(values))
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input):
        # input: (batch, channel, *space)
        return ops.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
