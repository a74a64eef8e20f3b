"""Padding layers: add entries around sequences, images and volumes (see `ops/pad.py`)."""

from .. import ops
from ..errors import ArgumentError
from .module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """Base class of the padding layers. Subclasses set the number of padded axes and the mode.

    Parameters
    ----------
    padding : int or sequence of int
        Number of entries to add before and after each padded axis, beginning with the last axis:
        (left, right, top, bottom, front, back). A single number applies to all sides.
    """

    axes, mode, value = None, None, None

    def __init__(self, padding):
        super().__init__()
        padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(padding) != 2 * self.axes:
            raise ArgumentError(
                f"{type(self).__name__}: padding must be one number, or two for each axis",
                got=f"padding={padding}",
                expected=f"{2 * self.axes} numbers",
                hint="give (left, right) for the last axis, then (top, bottom) for the one before",
            )
        self.padding = padding

    def forward(self, input):
        # input: ([batch,] channel, ..., width)
        return ops.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self):
        return f"{self.padding}"


class ConstantPad1d(_Pad):
    """Pad sequences with a constant.

    Parameters
    ----------
    padding : int or (int, int)
        Number of entries to add before and after the sequence. A negative number removes entries.
    value : float
        Value of the new entries.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.ConstantPad1d((1, 2), 7.0)(mt.zeros(1, 2))
    tensor([[7., 0., 0., 7., 7.]])
    """

    axes, mode = 1, "constant"

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad2d(ConstantPad1d):
    """Pad images with a constant: (left, right, top, bottom), or the same amount on all sides."""

    axes = 2


class ConstantPad3d(ConstantPad1d):
    """Pad volumes with a constant.

    The padding is (left, right, top, bottom, front, back), or one amount for all sides.
    """

    axes = 3


class ZeroPad1d(_Pad):
    """Pad sequences with zeros: (left, right), or the same amount on both sides."""

    axes, mode = 1, "constant"


class ZeroPad2d(ZeroPad1d):
    """Pad images with zeros: (left, right, top, bottom), or the same amount on all sides.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.ZeroPad2d((1, 0, 0, 1))(mt.ones(1, 2, 2))
    tensor([[[0., 1., 1.],
             [0., 1., 1.],
             [0., 0., 0.]]])
    """

    axes = 2


class ZeroPad3d(ZeroPad1d):
    """Pad volumes with zeros: (left, right, top, bottom, front, back), or one amount for all."""

    axes = 3


class ReflectionPad1d(_Pad):
    """Pad sequences by reflection about the border entry."""

    axes, mode = 1, "reflect"


class ReflectionPad2d(ReflectionPad1d):
    """Pad images by reflection about the border entries."""

    axes = 2


class ReflectionPad3d(ReflectionPad1d):
    """Pad volumes by reflection about the border entries."""

    axes = 3


class ReplicationPad1d(_Pad):
    """Pad sequences with copies of the nearest border entry."""

    axes, mode = 1, "replicate"


class ReplicationPad2d(ReplicationPad1d):
    """Pad images with copies of the nearest border entry."""

    axes = 2


class ReplicationPad3d(ReplicationPad1d):
    """Pad volumes with copies of the nearest border entry."""

    axes = 3


class CircularPad1d(_Pad):
    """Pad sequences with the entries from the opposite end."""

    axes, mode = 1, "circular"


class CircularPad2d(CircularPad1d):
    """Pad images with the entries from the opposite end of each axis."""

    axes = 2


class CircularPad3d(CircularPad1d):
    """Pad volumes with the entries from the opposite end of each axis."""

    axes = 3
