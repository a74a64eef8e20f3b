"""Other dtypes, other devices, other memory: the same numbers."""

from .. import backend
from ..autograd.function import Function
from ..backend import as_device, as_dtype, device_of, to_device
from ..errors import ArgumentError
from ..tensor import Tensor
from .given import as_operand, not_tensors

__all__ = ["alias", "cast", "clone", "to"]


class Cast(Function):
    """y = x in another dtype.

    Derivative: 1, in the dtype of x; none where y holds no fractions.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, dtype):
        ctx.dtype_before = x.dtype
        return x.astype(dtype)

    @staticmethod
    def backward(ctx, grad_y):
        return Cast.call(grad_y, dtype=ctx.dtype_before)


class Move(Function):
    """y = x on another device.

    Derivative: 1; the gradient travels back.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, device):
        ctx.device_before = device_of(x)
        return to_device(x, device)

    @staticmethod
    def backward(ctx, grad_y):
        return Move.call(grad_y, device=ctx.device_before)


class Clone(Function):
    """y = x in memory of its own.

    Derivative: 1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        return x.copy()

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y


class Alias(Function):
    """y = x, the same memory under another name.

    Derivative: 1.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x):
        return x[...]

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y


def cast(input, dtype):
    """`input` in another dtype; itself if it has it already.

    Parameters
    ----------
    input : Tensor
    dtype : dtype or its name

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cast(mt.tensor([1, 2]), "float64")
    tensor([1., 2.], dtype=float64)
    """
    dtype = as_dtype(dtype)
    try:
        same = input.dtype == dtype
    except AttributeError as error:
        raise not_tensors(error, "cast", input=input) from None
    return input if same else Cast.apply(input, dtype=dtype)


def clone(input):
    """A copy of `input` that is part of the graph."""
    input = as_operand(input, "clone")
    return Clone.apply(input)


def alias(input):
    """A view of all of `input`: the same values as a node of its own."""
    input = as_operand(input, "alias")
    return Alias.apply(input)


def to(input, *args, dtype=None, device=None, copy=False, non_blocking=False):
    """`input` in another dtype, on another device, or like another tensor.

    Parameters
    ----------
    input : Tensor
    *args
        A dtype, a device, both (device first), or a Tensor to be like.
    dtype : dtype, optional
    device : str or Device, optional
    copy : bool
        Copy even if nothing changes.
    non_blocking : bool
        Accepted for PyTorch's sake; copies here are always complete.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> to(mt.tensor([1.5]), mt.float64).dtype
    dtype('float64')
    """
    input = as_operand(input, "to")
    for argument in args:
        if isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif isinstance(argument, backend.Device) or _names_device(argument):
            device = argument
        elif argument is not None:
            dtype = argument
    result = input
    if device is not None:
        device = as_device(device)
        if device != input.device:
            result = Move.apply(result, device=device)
    if dtype is not None:
        result = cast(result, dtype)
    return clone(input) if copy and result is input else result


def _names_device(argument):
    if not isinstance(argument, str):
        return False
    kind = argument.partition(":")[0]
    if kind in ("cpu", "cuda", "strict"):
        return True
    try:
        as_dtype(argument)
    except TypeError:
        raise ArgumentError(
            "Tensor.to: neither a dtype nor a device.",
            got=repr(argument),
            expected="a dtype such as mt.float32, or 'cpu', 'cuda:0', 'strict'",
        ) from None
    return False
