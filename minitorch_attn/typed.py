"""Typed constructors, such as FloatTensor and LongTensor: `Tensor(...)` with a fixed dtype."""

from .errors import MiniTorchError
from .named_errors import under
from .tensor import Tensor

__all__ = [
    "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip


class _OfDtype(type):
    """Metaclass of typed constructors: `isinstance(x, LongTensor)` is True if x is int64."""

    def __call__(cls, *data, device=None):
        try:
            return Tensor(*data, dtype=cls.dtype, device=device)
        except MiniTorchError as error:
            raise under(cls.__name__, error) from None

    def __instancecheck__(cls, value):
        return isinstance(value, Tensor) and value.dtype == cls.dtype


class FloatTensor(metaclass=_OfDtype):
    """Make a tensor of float32 from a sequence or from sizes, as `Tensor` does.

    Each class in this file is called as `FloatTensor(*data, device=None)` and returns a Tensor.
    `isinstance(x, FloatTensor)` is True for every Tensor x of float32, on any device.

    Examples
    --------
    >>> FloatTensor([1, 2]), LongTensor([1, 2])
    (tensor([1., 2.]), tensor([1, 2]))
    >>> isinstance(LongTensor(2, 3), LongTensor), isinstance(FloatTensor(2, 3), LongTensor)
    (True, False)
    """

    dtype = "float32"


class DoubleTensor(metaclass=_OfDtype):
    """Make a tensor of float64; see FloatTensor."""

    dtype = "float64"


class HalfTensor(metaclass=_OfDtype):
    """Make a tensor of float16; see FloatTensor."""

    dtype = "float16"


class LongTensor(metaclass=_OfDtype):
    """Make a tensor of int64; see FloatTensor."""

    dtype = "int64"


class IntTensor(metaclass=_OfDtype):
    """Make a tensor of int32; see FloatTensor."""

    dtype = "int32"


class ShortTensor(metaclass=_OfDtype):
    """Make a tensor of int16; see FloatTensor."""

    dtype = "int16"


class CharTensor(metaclass=_OfDtype):
    """Make a tensor of int8; see FloatTensor."""

    dtype = "int8"


class ByteTensor(metaclass=_OfDtype):
    """Make a tensor of uint8; see FloatTensor."""

    dtype = "uint8"


class BoolTensor(metaclass=_OfDtype):
    """Make a tensor of bool; see FloatTensor."""

    dtype = "bool"
