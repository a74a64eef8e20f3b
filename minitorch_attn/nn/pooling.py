"""Pooling layers: max, average and adaptive pooling of sequences, images and volumes."""

from .. import ops
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d",
    "MaxPool3d",
]  # fmt: skip


class _MaxPool(Module):
    pool = None

    def __init__(
        self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False,
        ceil_mode=False,
    ):  # fmt: skip
        super().__init__()
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input):
        return type(self).pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Max pooling over a sequence. For the parameters, see `MaxPool2d`."""

    pool = staticmethod(ops.max_pool1d)


class MaxPool2d(_MaxPool):
    """Max pooling over an image: the largest element of every window.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), optional
        Step from window to window. Default: `kernel_size`.
    padding : int or (int, int), default 0
        Padding on each side of the image.
    dilation : int or (int, int), default 1
        Step from element to element within a window.
    return_indices : bool
        Whether to return the index of each maximum.
    ceil_mode : bool
        Whether to add a last window that ends outside the image.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.MaxPool2d(2)(mt.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    pool = staticmethod(ops.max_pool2d)


class MaxPool3d(_MaxPool):
    """Max pooling over a volume. For the parameters, see `MaxPool2d`."""

    pool = staticmethod(ops.max_pool3d)


class AvgPool1d(Module):
    """Average pooling over a sequence; see `AvgPool2d`.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode, count_include_pad
        See `AvgPool2d`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.AvgPool1d(2)(mt.tensor([[1.0, 3.0, 2.0, 6.0]]))
    tensor([[2., 4.]])
    """

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
    ):
        super().__init__()
        self.kernel_size, self.padding = _one(kernel_size), _one(padding)
        self.stride = self.kernel_size if stride is None else _one(stride)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input):
        return ops.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _one(size):
    return (size,) if isinstance(size, int) else size


class _AvgPool(Module):
    pool = None

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
        divisor_override=None,
    ):  # fmt: skip
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return type(self).pool(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """Average pooling over an image: the mean of every window.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode
        See `MaxPool2d`.
    count_include_pad : bool
        Whether the mean includes the zeros of the padding.
    divisor_override : int, optional
        Divisor of the sum, instead of the number of elements.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.AvgPool2d(2)(mt.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5,  4.5],
             [10.5, 12.5]]])
    """

    pool = staticmethod(ops.avg_pool2d)


class AvgPool3d(_AvgPool):
    """Average pooling over a volume. For the parameters, see `AvgPool2d`."""

    pool = staticmethod(ops.avg_pool3d)


class _AdaptivePool(Module):
    pool = None

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return type(self).pool(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """Average pooling of a sequence to `output_size` elements."""

    pool = staticmethod(ops.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """Average pooling of an image to a given output size.

    Parameters
    ----------
    output_size : int or (int, int)
        Size of the output. None keeps the size of an axis.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.AdaptiveAvgPool2d(1)(mt.arange(16.0).reshape(1, 4, 4))
    tensor([[[7.5]]])
    """

    pool = staticmethod(ops.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptivePool):
    """Average pooling of a volume to a given output size."""

    pool = staticmethod(ops.adaptive_avg_pool3d)


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size, return_indices=False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input):
        return type(self).pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Max pooling of a sequence to `output_size` elements."""

    pool = staticmethod(ops.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Max pooling of an image to a given output size.

    Parameters
    ----------
    output_size : int or (int, int)
        Size of the output. None keeps the size of an axis.
    return_indices : bool
        Whether to return the index of each maximum.
    """

    pool = staticmethod(ops.adaptive_max_pool2d)
