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
    """Create a float32 tensor from a sequence or from sizes, as `Tensor` does.

    Each class in this file is called as `FloatTensor(*data, device=None)` and returns a Tensor.
    `isinstance(x, FloatTensor)` is True for every float32 Tensor x, on any device.

    Examples
    --------
    >>> FloatTensor([1, 2]), LongTensor([1, 2])
    (tensor([1., 2.]), tensor([1, 2]))
    >>> isinstance(LongTensor(2, 3), LongTensor), isinstance(FloatTensor(2, 3), LongTensor)
    (True, False)
    """

    dtype = "float32"


class DoubleTensor(metaclass=_OfDtype):
    """Create a float64 tensor; see FloatTensor."""

    dtype = "float64"


class HalfTensor(metaclass=_OfDtype):
    """Create a float16 tensor; see FloatTensor."""

    dtype = "float16"


class LongTensor(metaclass=_OfDtype):
    """Create an int64 tensor; see FloatTensor."""

    dtype = "int64"


class IntTensor(metaclass=_OfDtype):
    """Create an int32 tensor; see FloatTensor."""

    dtype = "int32"


class ShortTensor(metaclass=_OfDtype):
    """Create an int16 tensor; see FloatTensor."""

    dtype = "int16"


class CharTensor(metaclass=_OfDtype):
    """Create an int8 tensor; see FloatTensor."""

    dtype = "int8"


class ByteTensor(metaclass=_OfDtype):
    """Create a uint8 tensor; see FloatTensor."""

    dtype = "uint8"


class BoolTensor(metaclass=_OfDtype):
    """Create a bool tensor; see FloatTensor."""

    dtype = "bool"
