"""Vector norms: vector_norm, norm and normalize."""

import builtins
import math

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError
from ..named_errors import names_arguments
from .arithmetic import abs
from .cast import cast
from .comparison import ne
from .max_min import amax, amin, refuse_empty
from .plumbing.operands import number
from .plumbing.tensor_arguments import as_operand
from .power import PowerOfNumber
from .rounding import Sign, Zero
from .sum_mean import reduced_axes, require_floating, spread, sum
from .where import Where, clamp, drop_where

__all__ = ["norm", "normalize"]


class EuclideanNorm(Function):
    """Euclidean norm (2-norm) over some axes.

    Forward:  y = sqrt(sum(x^2))
    Backward: grad_x = grad_y * x / y
    Derivation: y^2 = sum x_i^2 gives dy/dx_i = x_i / y, and 0 at the kink y = 0.
    Saved: the input and the output.
    """

    @staticmethod
    def forward(ctx, x, *, axis, keepdims):
        ctx.axis = axis
        y = array_module(x).sqrt((x * x).sum(axis=axis, keepdims=keepdims))
        ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        ratio = drop_where(y == 0, grad_y / Where.call(y == 0, 1.0, y))
        return x * spread(ratio, x.shape, ctx.axis)


class PNorm(Function):
    """The p-norm over some axes, for p other than 0, 1, 2 and infinity.

    Forward:  y = sum(abs(x)^p)^(1 / p)
    Backward: grad_x = grad_y * sign(x) * abs(x)^(p - 1) / y^(p - 1)
    Derivation: y^p = sum |x_i|^p gives dy/dx_i = sign(x_i) |x_i|^(p-1) / y^(p-1), and 0 where
    x_i = 0 or y = 0.
    Saved: the input and the output.
    """

    @staticmethod
    def forward(ctx, x, *, p, axis, keepdims):
        ctx.p, ctx.axis = p, axis
        xp = array_module(x)
        powers = PowerOfNumber.call(xp.abs(x), exponent=p)
        y = xp.power(powers.sum(axis=axis, keepdims=keepdims), 1 / p)
        ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        p = ctx.p
        whole = PowerOfNumber.call(Where.call(y == 0, 1.0, y), exponent=p - 1)
        ratio = spread(drop_where(y == 0, grad_y / whole), x.shape, ctx.axis)
        sign = Sign.call(x)
        size = Where.call(x == 0, 1.0, x * sign)  # 0^(p-1) may be infinite
        return ratio * sign * PowerOfNumber.call(size, exponent=p - 1)


def floating_operand(input, name, dtype):
    """Return an operand, cast to `dtype` if given; raise DTypeError if it is not floating-point."""
    input = as_operand(input, name)
    input = input if dtype is None else cast(input, dtype)
    require_floating(input, name)
    return input


@names_arguments
def vector_norm(input, ord=2, dim=None, keepdim=False, *, dtype=None):
    """Vector norm over the axes `dim`: `sum(abs(input)^ord)^(1 / ord)`.

    Parameters
    ----------
    input : Tensor
        Floating-point tensor.
    ord : number
        Order of the norm: 2 is the Euclidean norm, 1 the sum of absolute values, infinity the
        largest absolute value, -infinity the smallest, and 0 the number of nonzero elements.
    dim : int or sequence of int, optional
        Axes to reduce, all by default.
    keepdim : bool
        Whether to keep the reduced axes with size 1.
    dtype : dtype, optional
        Dtype to which `input` is converted first.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.linalg.vector_norm(mt.tensor([3.0, -4.0]))
    tensor(5.)
    >>> mt.linalg.vector_norm(mt.tensor([3.0, -4.0]), ord=1)
    tensor(7.)
    """
    name = "linalg.vector_norm"
    input = floating_operand(input, name, dtype)
    ord = number(ord, name, "ord")
    axis = reduced_axes(dim, input.ndim, name)
    keepdims = builtins.bool(keepdim)
    if ord < 0:
        refuse_empty(name, input, axis)
    if ord == 2:
        return EuclideanNorm.apply(input, axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(abs(input), dim, keepdim)
    if ord == 0:
        return sum(Zero.apply(input) + ne(input, 0), dim, keepdim)
    if math.isinf(ord):
        return (amax if ord > 0 else amin)(abs(input), () if dim is None else dim, keepdim)
    return PNorm.apply(input, p=ord, axis=axis, keepdims=keepdims)


@names_arguments
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """Norm over the axes `dim`; see `linalg.vector_norm`.

    Parameters
    ----------
    input : Tensor
    p : number or "fro"
        Order of the norm; "fro" is the same as 2, the Euclidean norm.
    dim : int or sequence of int, optional
        Axes to reduce, all by default.
    keepdim : bool
        Whether to keep the reduced axes with size 1.
    dtype : dtype, optional
        Dtype to which `input` is converted first.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.norm(mt.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    if p == "nuc":
        raise ArgumentError(
            "norm(input, p): the nuclear norm is not supported",
            got="p='nuc'",
            hint="use linalg.norm(input, 'nuc')",
        )
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@names_arguments
def normalize(input, p=2.0, dim=1, eps=1e-12):
    """Normalize vectors to length 1: `input` divided by its norm over `dim`.

    Parameters
    ----------
    input : Tensor
    p : float, default 2
        Order of the norm.
    dim : int or sequence of int, default 1
    eps : float, default 1e-12
        Lower bound of the norm, so that a zero vector stays zero.

    Returns
    -------
    Tensor of the same shape as `input`

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> normalize(mt.tensor([[3.0, -4.0], [0.0, 0.0]]))
    tensor([[ 0.6, -0.8],
            [ 0. ,  0. ]])
    """
    return input / clamp(norm(input, p, dim, keepdim=True), min=eps)
