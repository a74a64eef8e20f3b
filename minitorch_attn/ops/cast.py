"""Convert or copy a tensor: cast, to, clone, alias."""

from .. import backend
from ..autograd.function import Function
from ..backend import as_device, as_dtype, device_of, to_device
from ..backend.errstate import overflow_is_fine
from ..errors import ArgumentError, DTypeError
from ..named_errors import names_arguments, under
from ..tensor import Tensor
from .plumbing.tensor_arguments import as_operand

__all__ = ["alias", "cast", "clone", "to"]


class Cast(Function):
    """Conversion to another dtype.

    Forward:  y = x in another dtype
    Backward: grad_x = grad_y in the dtype of x
    Derivation: dy/dx = 1. An integer or boolean y does not have a gradient.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, dtype):
        ctx.dtype_before = x.dtype
        if dtype.itemsize >= x.dtype.itemsize:
            return x.astype(dtype)
        with overflow_is_fine():
            return x.astype(dtype)

    @staticmethod
    def backward(ctx, grad_y):
        return Cast.call(grad_y, dtype=ctx.dtype_before)


class Move(Function):
    """Copy to another device.

    Forward:  y = x on another device
    Backward: grad_x = grad_y on the device of x
    Derivation: dy/dx = 1.
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
    """Copy of a tensor in new memory.

    Forward:  y = x in new memory
    Backward: grad_x = grad_y
    Derivation: dy/dx = 1.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x):
        return x.copy()

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y


class Alias(Function):
    """View of an entire tensor.

    Forward:  y = x, the same memory
    Backward: grad_x = grad_y
    Derivation: dy/dx = 1.
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
    """Convert `input` to another dtype; return `input` itself if it has that dtype already.

    Parameters
    ----------
    input : Tensor
    dtype : dtype or str
        Dtype of the result, or its name.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cast(mt.tensor([1, 2]), "float64")
    tensor([1., 2.], dtype=float64)
    """
    try:
        dtype = as_dtype(dtype)
    except DTypeError as error:
        raise under("cast", error) from None
    if not isinstance(input, Tensor):
        input = as_operand(input, "cast")
    return input if input.array.dtype == dtype else Cast.apply(input, dtype=dtype)


def clone(input):
    """Copy `input`; gradients flow back through the copy."""
    input = as_operand(input, "clone")
    return Clone.apply(input)


def alias(input):
    """Return a view of the whole `input`, with its own node in the graph."""
    input = as_operand(input, "alias")
    return Alias.apply(input)


@names_arguments
def to(input, *args, dtype=None, device=None, other=None, copy=False, non_blocking=False):
    """Convert `input` to a different dtype, a different device, or both.

    Parameters
    ----------
    input : Tensor
    *args
        A dtype, a device, both (device first), or a Tensor whose dtype and device are used.
    dtype : dtype, optional
        Dtype of the result.
    device : str or Device, optional
        Device of the result.
    other : Tensor, optional
        Keyword form of the Tensor argument: its dtype and device are used.
    copy : bool, default False
        If True, copy even if the dtype and the device stay the same.
    non_blocking : bool
        Ignored; for compatibility with PyTorch. Every copy is complete when `to` returns.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> to(mt.tensor([1.5]), mt.float64).dtype
    dtype('float64')
    """
    input = as_operand(input, "to")
    for argument in (*args, other):
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
            "Tensor.to: the argument is neither a dtype nor a device",
            got=repr(argument),
            expected="a dtype such as mt.float32, or 'cpu', 'cuda:0', 'strict'",
            hint="x.to(mt.float64), x.to('cuda:0') or x.to(other)",
        ) from None
    return False
