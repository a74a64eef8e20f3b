"""Pooling as layers: they have no parameters."""

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
    """The largest element of every window of a sequence; the arguments are those of `MaxPool2d`."""

    pool = staticmethod(ops.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of every window.

    Parameters
    ----------
    kernel_size : int or (int, int)
    stride : int or (int, int), optional
        By default `kernel_size`.
    padding : int or (int, int), default 0
        How far windows begin outside of the image.
    dilation : int or (int, int), default 1
    return_indices : bool
        Also return where each element was found.
    ceil_mode : bool
        Also a last window that ends outside.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.MaxPool2d(2)(mt.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    pool = staticmethod(ops.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest element of every window of a volume; the arguments are those of `MaxPool2d`."""

    pool = staticmethod(ops.max_pool3d)


class AvgPool1d(Module):
    """The mean of every window of a sequence.

    Parameters
    ----------
    kernel_size : int
    stride : int, optional
        By default `kernel_size`.
    padding : int, default 0
    ceil_mode : bool
    count_include_pad : bool

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
    """The mean of every window.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode
        As in `MaxPool2d`.
    count_include_pad : bool
        Whether the zeros of the padding count as elements.
    divisor_override : int, optional
        Divide the sum by this number instead.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.AvgPool2d(2)(mt.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5,  4.5],
             [10.5, 12.5]]])
    """

    pool = staticmethod(ops.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of every window of a volume; the arguments are those of `AvgPool2d`."""

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
    """The means of `output_size` windows that share out a sequence."""

    pool = staticmethod(ops.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """The means of as many windows as are asked for.

    Parameters
    ----------
    output_size : int or (int, int)
        None in place of a number keeps the size of that axis.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.AdaptiveAvgPool2d(1)(mt.arange(16.0).reshape(1, 4, 4))
    tensor([[[7.5]]])
    """

    pool = staticmethod(ops.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptivePool):
    """The means of as many windows as are asked for, of a volume."""

    pool = staticmethod(ops.adaptive_avg_pool3d)


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size, return_indices=False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input):
        return type(self).pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of `output_size` windows that share out a sequence."""

    pool = staticmethod(ops.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of as many windows as are asked for.

    Parameters
    ----------
    output_size : int or (int, int)
        None in place of a number keeps the size of that axis.
    return_indices : bool
        Also return where each element was found.
    """

    pool = staticmethod(ops.adaptive_max_pool2d)
