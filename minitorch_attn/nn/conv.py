"""Convolution layers: Conv1d to Conv3d and ConvTranspose1d to ConvTranspose3d."""

import math

from .. import ops
from ..errors import ArgumentError
from ..ops.plumbing.spatial import each_axis
from . import init
from .module import Module
from .parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

CONVOLVE = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}  # by number of spatial axes
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvBase(Module):
    """Base class of all convolutions, with their settings, parameters and initialization."""

    axes = 0
    transposed = False

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding,
        groups, bias, padding_mode, device, dtype,
    ):  # fmt: skip
        super().__init__()
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{name}: in_channels or out_channels is not divisible by groups",
                got=f"groups={groups} for {in_channels} and {out_channels} channels",
                hint="use groups=1, or groups=in_channels for a depthwise convolution",
            )
        if padding_mode not in _PADDING_MODES or (self.transposed and padding_mode != "zeros"):
            raise ArgumentError(
                f"{name}: padding_mode is not supported",
                got=repr(padding_mode),
                expected="'zeros'" if self.transposed else f"one of {', '.join(_PADDING_MODES)}",
                hint="call mt.pad(input, pad, mode, value) before the layer",
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = each_axis(kernel_size, self.axes, name, "kernel_size", 1)
        self.stride = each_axis(stride, self.axes, name, "stride", 1)
        self.dilation = each_axis(dilation, self.axes, name, "dilation", 1)
        self.output_padding = each_axis(output_padding, self.axes, name, "output_padding")
        self.padding, self.padding_mode = self._padding(padding), padding_mode
        ends = (in_channels, out_channels // groups)
        if not self.transposed:
            ends = (out_channels, in_channels // groups)
        make = {"device": device, "dtype": dtype}
        self.weight = Parameter(ops.empty(*ends, *self.kernel_size, **make))
        self.register_parameter(
            "bias", Parameter(ops.empty(out_channels, **make)) if bias else None
        )
        self.reset_parameters()

    def _padding(self, padding):
        name = type(self).__name__
        if not isinstance(padding, str):
            return each_axis(padding, self.axes, name, "padding")
        if padding not in ("valid", "same") or self.transposed:
            raise ArgumentError(
                f"{name}: padding is not supported",
                got=repr(padding),
                expected="integers" if self.transposed else "integers, 'valid' or 'same'",
                hint="use padding=kernel_size // 2 for an odd kernel_size to keep the image size",
            )
        if padding == "same" and max(self.stride) > 1:
            raise ArgumentError(
                f"{name}: stride must be 1 with padding='same'",
                got=f"stride={self.stride}",
                hint="use integers for padding, such as kernel_size // 2",
            )
        return padding

    def reset_parameters(self):
        """Sample new parameters uniformly from [-b, b], with b = 1 / sqrt(weight[0].numel())."""
        inputs = self.weight.shape[1] * math.prod(self.kernel_size)
        if inputs == 0 or self.weight.shape[0] == 0:
            return
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(inputs)
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        plain = {
            "padding": (0,) * self.axes,
            "dilation": (1,) * self.axes,
            "output_padding": (0,) * self.axes,
            "groups": 1,
        }
        for name, usual in plain.items():
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        text += "" if self.bias is not None else ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvBase):
    """Base class of convolutions over `axes` spatial axes."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        bias=True, padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input):
        # input: (batch, in, *size) -> (batch, out, *output_size), or both without batch
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = ops.pad(input, self._around(), mode=self.padding_mode), 0
        return CONVOLVE[self.axes](
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _around(self):
        """Return the padding as `pad` expects it: pairs of numbers, with the last axis first."""
        if self.padding == "valid":
            return (0, 0) * self.axes
        pairs = []
        for axis in reversed(range(self.axes)):
            if self.padding == "same":
                total = self.dilation[axis] * (self.kernel_size[axis] - 1)
                pairs += [total // 2, total - total // 2]
            else:
                pairs += [self.padding[axis]] * 2
        return tuple(pairs)


class Conv1d(_Conv):
    """Convolution over sequences. For the parameters, see `Conv2d`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Conv1d(3, 5, 4)(mt.zeros(2, 3, 11)).shape
    (2, 5, 8)
    """

    axes = 1


class Conv2d(_Conv):
    """Convolution over images: each output element is a weighted sum over a window of the input.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of input channels and number of output channels.
    kernel_size : int or (int, int)
    stride, dilation : int or (int, int), default 1
        Step between windows, and step between the elements within a window.
    padding : int, (int, int), "valid" or "same", default 0
        Padding on each side. "valid" means no padding. "same" keeps the size of the image.
    groups : int, default 1
        Number of groups. The output channels of a group use only the input channels of that group.
    bias : bool, default True
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        How to fill the padding: with zeros, or with values of the input.
    device, dtype : optional
        Device and dtype of the parameters.

    Attributes
    ----------
    weight : Parameter of shape (out_channels, in_channels / groups, *kernel_size)
    bias : Parameter of shape (out_channels,), or None if the layer has no bias
        Initially, both are uniform in [-b, b], where b = 1 / sqrt(weight[0].numel()).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> patches = mt.nn.Conv2d(3, 8, kernel_size=4, stride=4)
    >>> patches(mt.zeros(2, 3, 32, 32)).shape
    (2, 8, 8, 8)
    """

    axes = 2


class Conv3d(_Conv):
    """Convolution over volumes or videos. For the parameters, see `Conv2d`."""

    axes = 3


class _ConvTranspose(_ConvBase):
    """Base class of transposed convolutions over `axes` spatial axes."""

    transposed = True

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
        groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding,
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input, output_size=None):
        # input: (batch, in, *size) -> (batch, out, *output_size), or both without batch
        extra = self.output_padding
        if output_size is not None:
            extra = self._extra_for(input, tuple(output_size))
        spread = (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)[self.axes - 1]
        return spread(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra_for(self, input, output_size):
        """Return the output padding that gives an output of size `output_size`."""
        wanted = output_size[-self.axes :]
        numbers = zip(input.shape[-self.axes :], self.kernel_size, self.stride, self.padding,
                      self.dilation, strict=True)  # fmt: skip
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, k, s, p, d in numbers]
        extra = [w - n for w, n in zip(wanted, least, strict=False)]
        if len(output_size) not in (self.axes, input.ndim) or not all(
            0 <= e < s for e, s in zip(extra, self.stride, strict=True)
        ):
            most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
            raise ArgumentError(
                f"{type(self).__name__}: output_size is out of range",
                got=f"output_size={output_size} for input {input.shape}",
                expected=f"from {least} to {most}",
                hint="use x.shape[2:], where x is the input of the convolution to be reversed",
            )
        return extra


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over sequences. For the parameters, see `ConvTranspose2d`."""

    axes = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution: each input element adds a scaled kernel to a larger image.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size : int or (int, int)
    stride, padding, dilation : int or (int, int)
        Settings of the convolution that this layer transposes.
    output_padding : int or (int, int), default 0
        Number of elements added at the end of each output axis.
    groups : int, default 1
    bias : bool, default True
    device, dtype : optional
        Device and dtype of the parameters.

    Attributes
    ----------
    weight : Parameter of shape (in_channels, out_channels / groups, *kernel_size)
    bias : Parameter of shape (out_channels,), or None if the layer has no bias

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.ConvTranspose2d(3, 5, 3, stride=2)
    >>> x = mt.zeros(1, 3, 4, 4)
    >>> layer(x).shape, layer(x, output_size=(10, 10)).shape
    ((1, 5, 9, 9), (1, 5, 10, 10))
    """

    axes = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over volumes. For the parameters, see `ConvTranspose2d`."""

    axes = 3
