"""Fewer elements: sums, means and products over axes, and whether any or all are true."""

import builtins

from ..autograd.function import Function
from ..backend import array_module, as_array
from ..errors import DTypeError
from ..tensor import wrap
from .axes import axes_of, axis_of
from .broadcast import BroadcastTo
from .cast import cast
from .given import as_operand
from .scan import Cumprod, Shift

__all__ = ["all", "any", "mean", "prod", "sum"]


class Sum(Function):
    """y = sum of x over some axes.

    Derivative: dy/dx_i = 1, so each element receives the gradient of the sum it went into.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, axis, keepdims):
        ctx.axis = axis
        return x.sum(axis=axis, keepdims=keepdims)

    @staticmethod
    def backward(ctx, grad_y):
        return spread(grad_y, ctx.shapes[0], ctx.axis)


class Mean(Function):
    """y = sum of x over some axes / n, with n the number of elements that went into each sum.

    Derivative: dy/dx_i = 1 / n.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, axis, keepdims):
        ctx.axis = axis
        count = count_over(x.shape, axis)
        ctx.weight = 1 / count if count else 0.0
        if x.dtype.itemsize > 2:
            total = x.sum(axis=axis, keepdims=keepdims)
            return total / count if count else total * float("nan")
        total = x.sum(axis=axis, keepdims=keepdims, dtype="float32")  # float16 ends at 65504
        return (total / count if count else total * float("nan")).astype(x.dtype)

    @staticmethod
    def backward(ctx, grad_y):
        return spread(grad_y * ctx.weight, ctx.shapes[0], ctx.axis)


class Prod(Function):
    """y = product of x along one axis.

    Derivative: dy/dx_i = the product of all others, that is of those before i times of those
    after it. y / x_i would be the same, but not where x_i = 0.
    Saved: the input x.
    """

    @staticmethod
    def forward(ctx, x, *, axis, keepdims):
        ctx.save(x)
        ctx.axis = axis
        return x.prod(axis=axis, keepdims=keepdims)

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        axis = ctx.axis
        up_to, from_on = Cumprod.call(x, axis=axis), Cumprod.call(x, axis=axis, reverse=True)
        before = Shift.call(up_to, axis=axis, by=1, fill=1)
        after = Shift.call(from_on, axis=axis, by=-1, fill=1)
        return spread(grad_y, x.shape, (axis,)) * (before * after)


def spread(grad, shape, axis):
    """A gradient of reduced shape, repeated over the axes that were reduced.

    Parameters
    ----------
    grad : array or Tensor
        The reduced axes are missing, or of size 1.
    shape : tuple of int
        Before the reduction.
    axis : tuple of int or None
    """
    if axis is None:
        axis = range(len(shape))
    kept = tuple([1 if i in axis else n for i, n in enumerate(shape)])
    return BroadcastTo.call(grad.reshape(kept), shape=shape)


def count_over(shape, axis):
    """How many elements one result of a reduction is made of."""
    count = 1
    for i in range(len(shape)) if axis is None else axis:
        count *= shape[i]
    return count


def reduced_axes(dim, ndim, name):
    """The axes of a reduction as a tuple; None for all of them, which PyTorch also writes ().

    Parameters
    ----------
    dim : int, sequence of int, or None
    ndim : int
    name : str
        The public function, for error messages.
    """
    if dim is None or (type(dim) in (tuple, list) and not dim):
        return None
    axes = axes_of(dim, ndim, name)
    return axes if ndim else None


def sum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum over the axes `dim`.

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int, optional
        All axes by default.
    keepdim : bool
        Keep the axes, with size 1.
    dtype : dtype, optional
        Convert first. Booleans and integers are summed as int64 by default.

    Returns
    -------
    Tensor

    Raises
    ------
    IndexRangeError
        If `dim` is not an axis of `input`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sum(mt.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    input = as_operand(input, "sum")
    if dtype is not None:
        input = cast(input, dtype)
    elif input.array.dtype.kind != "f":
        input = cast(input, "int64")
    if dim is not None:
        dim = reduced_axes(dim, input.ndim, "sum")
    return in_dtype(Sum.apply(input, axis=dim, keepdims=builtins.bool(keepdim)), dtype)


def in_dtype(result, dtype):
    """`result` in the dtype that was asked for: sums of small integers come as int64."""
    return result if dtype is None else cast(result, dtype)


def mean(input, dim=None, keepdim=False, *, dtype=None):
    """The mean over the axes `dim`; NaN of no elements.

    Parameters
    ----------
    input : Tensor
        Of a floating-point dtype.
    dim : int or sequence of int, optional
        All axes by default.
    keepdim : bool
        Keep the axes, with size 1.
    dtype : dtype, optional
        Convert first.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        If the elements are integers.
    IndexRangeError
        If `dim` is not an axis of `input`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.mean(mt.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([1.5, 3.5])
    """
    input = as_operand(input, "mean")
    if dtype is not None:
        input = cast(input, dtype)
    require_floating(input, "mean")
    if dim is not None:
        dim = reduced_axes(dim, input.ndim, "mean")
    return Mean.apply(input, axis=dim, keepdims=builtins.bool(keepdim))


def require_floating(input, name):
    """Raise DTypeError for integers, whose mean would be none."""
    if input.array.dtype.kind != "f":
        raise DTypeError(
            f"{name}(input): the elements have to be floating-point numbers.",
            got=f"{input.dtype}",
            hint="input.float(), or dtype=",
        )


def prod(input, dim=None, keepdim=False, *, dtype=None):
    """The product along the axis `dim`, of all elements by default.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
    keepdim : bool
        Keep the axis, with size 1.
    dtype : dtype, optional
        Convert first. Booleans and integers are multiplied as int64 by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.prod(mt.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([ 2., 12.])
    """
    input = as_operand(input, "prod")
    if dtype is not None:
        input = cast(input, dtype)
    elif input.array.dtype.kind != "f":
        input = cast(input, "int64")
    if dim is None or not input.ndim:
        if dim is not None:
            axis_of(dim, 0, "prod")
        whole = in_dtype(Prod.apply(input.reshape(-1), axis=0, keepdims=False), dtype)
        return whole.reshape((1,) * input.ndim) if keepdim else whole
    axis = axis_of(dim, input.ndim, "prod")
    return in_dtype(Prod.apply(input, axis=axis, keepdims=builtins.bool(keepdim)), dtype)


def any(input, dim=None, keepdim=False):
    """Whether any element along the axes `dim` is true, that is not 0.

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int, optional
        All axes by default; () reduces none.
    keepdim : bool
        Keep the axes, with size 1.

    Returns
    -------
    Tensor of bool, or of uint8 if `input` is

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.any(mt.tensor([[True, False], [False, False]]), dim=1)
    tensor([ True, False])
    """
    return _truth("any", input, dim, keepdim)


def all(input, dim=None, keepdim=False):
    """Whether all elements along the axes `dim` are true, that is not 0.

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int, optional
        All axes by default; () reduces none.
    keepdim : bool
        Keep the axes, with size 1.

    Returns
    -------
    Tensor of bool, or of uint8 if `input` is

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.all(mt.tensor([[True, False], [True, True]]), dim=1)
    tensor([False,  True])
    """
    return _truth("all", input, dim, keepdim)


def _truth(name, input, dim, keepdim):
    x = as_operand(input, name).array
    axis = () if dim == () else reduced_axes(dim, x.ndim, name)
    answer = as_array(getattr(array_module(x), name)(x, axis=axis, keepdims=builtins.bool(keepdim)))
    return wrap(answer.astype("uint8") if x.dtype == "uint8" else answer)  # PyTorch's exception
