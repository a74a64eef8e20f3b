"""Linear interpolation (lerp), and sums with a scaled product or quotient (addcmul, addcdiv)."""

from ..autograd.autocast import autocasts
from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Function
from ..backend import array_module
from ..errors import DTypeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .arithmetic import add, div, mul
from .cast import cast
from .plumbing.operands import MISFITS, explained, number
from .plumbing.promotion import result_type
from .plumbing.tensor_arguments import as_operand

__all__ = ["addcdiv", "addcmul", "lerp"]


class Lerp(Function):
    """Linear interpolation from a (at w = 0) to b (at w = 1).

    Forward:  y = a + w * (b - a)
    Backward: grad_a = sum_to(grad_y * (1 - w), a), grad_b = sum_to(grad_y * w, b),
        grad_w = sum_to(grad_y * (b - a), w)
    Derivation: dy/da = 1 - w, dy/db = w, dy/dw = b - a.
    All gradients are summed over the broadcast axes.
    Saved: the inputs.
    """

    @staticmethod
    def forward(ctx, a, b, w):
        ctx.save(a, b, w)
        step = b - a
        y = a + w * step
        # The sum starts from the nearer end, so that w = 1 gives exactly b.
        from_b = b - (1 - w) * step
        if hasattr(w, "shape"):
            return array_module(w).where(array_module(w).abs(w) < 0.5, y, from_b)
        return y if -0.5 < w < 0.5 else from_b

    @staticmethod
    def backward(ctx, grad_y):
        a, b, w = ctx.saved
        need_a, need_b, need_w = ctx.needs_grad
        shape_a, shape_b, shape_w = ctx.shapes
        return (
            sum_to_shape(grad_y * (1 - w), shape_a) if need_a else None,
            sum_to_shape(grad_y * w, shape_b) if need_b else None,
            sum_to_shape(grad_y * (b - a), shape_w) if need_w else None,
        )


@names_arguments
def lerp(input, end, weight):
    """Linear interpolation from `input` to `end`: `input + weight * (end - input)`.

    Parameters
    ----------
    input, end : Tensor
    weight : Tensor or number
        Fraction of the way: 0 gives `input`, 1 gives `end`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.lerp(mt.tensor([0.0, 10.0]), mt.tensor([4.0, 20.0]), 0.25)
    tensor([ 1. , 12.5])
    """
    tensors = [as_operand(input, "lerp"), as_operand(end, "lerp", "end")]
    if isinstance(weight, Tensor):
        tensors.append(weight)
    else:
        weight = number(weight, "lerp", "weight")
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise DTypeError(
            "lerp(input, end, weight): the dtypes do not match",
            got=" and ".join(str(tensor.dtype) for tensor in tensors),
            hint="convert end and weight with .to(input.dtype)",
        )
    try:
        return Lerp.apply(input, end, weight)
    except MISFITS as error:
        raise explained(error, "lerp", input=input, end=end, weight=weight) from None


@names_arguments
@autocasts
def addcmul(input, tensor1, tensor2, *, value=1):
    """Add a scaled product: `input + value * tensor1 * tensor2`.

    Parameters
    ----------
    input, tensor1, tensor2 : Tensor
    value : number, default 1

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.addcmul(mt.tensor([1.0]), mt.tensor([2.0]), mt.tensor([3.0]), value=0.5)
    tensor([4.])
    """
    input, tensor1, tensor2 = _brought_together("addcmul", input, tensor1, tensor2)
    return add(input, mul(tensor1, tensor2), alpha=value)


@names_arguments
@autocasts
def addcdiv(input, tensor1, tensor2, *, value=1):
    """Add a scaled quotient: `input + value * tensor1 / tensor2`.

    Parameters
    ----------
    input, tensor1, tensor2 : Tensor
    value : number, default 1

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.addcdiv(mt.tensor([1.0]), mt.tensor([6.0]), mt.tensor([3.0]))
    tensor([3.])
    """
    input, tensor1, tensor2 = _brought_together("addcdiv", input, tensor1, tensor2)
    if input.dtype.kind != "f":
        raise DTypeError(
            "addcdiv: integer tensors are not supported",
            got=f"{input.dtype}",
            hint="convert one of the tensors with .float()",
        )
    return add(input, div(tensor1, tensor2), alpha=value)


def _brought_together(name, input, tensor1, tensor2):
    """Convert three tensors to their common dtype."""
    tensors = [
        as_operand(tensor, name, argument)
        for tensor, argument in ((input, "input"), (tensor1, "tensor1"), (tensor2, "tensor2"))
    ]
    dtype = result_type(*tensors)
    return [cast(tensor, dtype) for tensor in tensors]
