"""Upsampling and rearranging of images: Upsample, Unfold, Fold, PixelShuffle, PixelUnshuffle."""

from .. import ops
from .module import Module

__all__ = [
    "Fold", "PixelShuffle", "PixelUnshuffle", "Unfold", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip


class Upsample(Module):
    """Upsample an input to another size by interpolation. See `interpolate`.

    Parameters
    ----------
    size : int or sequence of int, optional
        Size of the output.
    scale_factor : float or sequence of float, optional
        Ratio of output size to input size, as an alternative to `size`.
    mode : str, default "nearest"
    align_corners, recompute_scale_factor : bool, optional

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Upsample(scale_factor=2)(mt.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    def __init__(
        self, size=None, scale_factor=None, mode="nearest", align_corners=None,
        recompute_scale_factor=None,
    ):  # fmt: skip
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.scale_factor = scale_factor
        if isinstance(scale_factor, (tuple, list)):
            self.scale_factor = tuple([float(f) for f in scale_factor])
        elif scale_factor:
            self.scale_factor = float(scale_factor)
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input):
        return ops.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self):
        how = "size" if self.scale_factor is None else "scale_factor"
        return f"{how}={getattr(self, how)}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest-neighbor upsampling of images: `Upsample` with mode="nearest"."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear upsampling of images: `Upsample` with mode="bilinear", align_corners=True."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Unfold(Module):
    """Unfold an image into columns, one for each patch; see `unfold`.

    Parameters
    ----------
    kernel_size, dilation, padding, stride : int or (int, int)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Unfold(2, stride=2)(mt.zeros(1, 3, 4, 4)).shape
    (1, 12, 4)
    """

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input):
        # input: (batch, channel, height, width) -> (batch, channel * kernel, patch)
        return ops.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Fold(Module):
    """Fold columns of patches into an image and add up overlapping patches; see `fold`.

    Parameters
    ----------
    output_size, kernel_size, dilation, padding, stride : int or (int, int)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Fold((4, 4), 2, stride=2)(mt.zeros(1, 12, 4)).shape
    (1, 3, 4, 4)
    """

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input):
        # input: (batch, channel * kernel, patch) -> (batch, channel, height, width)
        return ops.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self):
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class PixelShuffle(Module):
    """Rearrange groups of r * r channels into squares of r by r pixels; see `pixel_shuffle`.

    Parameters
    ----------
    upscale_factor : int
        Factor r for the height and width.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.PixelShuffle(2)(mt.zeros(1, 12, 3, 5)).shape
    (1, 3, 6, 10)
    """

    def __init__(self, upscale_factor):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return ops.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self):
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearrange squares of r by r pixels into r * r channels; see `pixel_unshuffle`.

    Parameters
    ----------
    downscale_factor : int
        Factor r for the height and width.
    """

    def __init__(self, downscale_factor):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return ops.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self):
        return f"downscale_factor={self.downscale_factor}"
