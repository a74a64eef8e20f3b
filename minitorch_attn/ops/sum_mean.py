"""Reductions over axes: sum, mean, prod, any, all."""

from ..autograd.function import Function
from ..backend import array_module, as_array
from ..errors import DTypeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .broadcast import BroadcastTo
from .cast import cast
from .cumsum import Cumprod, Shift
from .plumbing.axes import axes_of, axis_of, flag_of
from .plumbing.tensor_arguments import as_operand

__all__ = ["all", "any", "mean", "prod", "sum"]


class Sum(Function):
    """Sum over some axes of x.

    Forward:  y = sum(x)
    Backward: grad_x = grad_y repeated to the shape of x
    Derivation: dy/dx_i = 1, so each element receives the gradient of the sum that contains it.
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
    """Mean over some axes; n is the number of elements averaged into each result.

    Forward:  y = sum(x) / n
    Backward: grad_x = grad_y / n repeated to the shape of x
    Derivation: dy/dx_i = 1 / n.
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
        total = x.sum(axis=axis, keepdims=keepdims, dtype="float32")  # the largest float16 is 65504
        return (total / count if count else total * float("nan")).astype(x.dtype)

    @staticmethod
    def backward(ctx, grad_y):
        return spread(grad_y * ctx.weight, ctx.shapes[0], ctx.axis)


class Prod(Function):
    """Product along one axis.

    Forward:  y = product(x)
    Backward: grad_x_i = grad_y * the product of all other x
    Derivation: dy/dx_i is the product of the elements before i times the product of the elements
    after i. This product equals y / x_i, but y / x_i is undefined where x_i = 0.
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
    """Repeat a gradient of reduced shape over the axes that were reduced.

    Parameters
    ----------
    grad : array or Tensor
        Gradient whose reduced axes are missing or have size 1.
    shape : tuple of int
        Shape before the reduction.
    axis : tuple of int or None
        Axes that were reduced; None for all.
    """
    if axis is None:
        axis = range(len(shape))
    kept = tuple([1 if i in axis else n for i, n in enumerate(shape)])
    return BroadcastTo.call(grad.reshape(kept), shape=shape)


def count_over(shape, axis):
    """Return how many elements a reduction over `axis` combines into each output element."""
    count = 1
    for i in range(len(shape)) if axis is None else axis:
        count *= shape[i]
    return count


def reduced_axes(dim, ndim, name):
    """Return the axes to reduce as a tuple, or None for all axes; `dim=()` also means all axes.

    Parameters
    ----------
    dim : int, sequence of int, or None
    ndim : int
    name : str
        Name of the public function, for error messages.
    """
    if dim is None or (type(dim) in (tuple, list) and not dim):
        return None
    axes = axes_of(dim, ndim, name)
    return axes if ndim else None


def sum(input, dim=None, keepdim=False, *, dtype=None):
    """Sum over the axes `dim`.

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int, optional
        Axes to reduce, all by default.
    keepdim : bool
        Whether to keep the reduced axes with size 1.
    dtype : dtype, optional
        Dtype to which `input` is converted first; by default int64 for booleans and integers.

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
    return in_dtype(Sum.apply(input, axis=dim, keepdims=flag_of(keepdim, "sum", "keepdim")), dtype)


def in_dtype(result, dtype):
    """Convert `result` to `dtype` if it is given.

    NumPy computes sums and products of narrow integers, such as int8, in a 64-bit dtype.
    """
    return result if dtype is None else cast(result, dtype)


def mean(input, dim=None, keepdim=False, *, dtype=None):
    """Mean over the axes `dim`; NaN if there are no elements.

    Parameters
    ----------
    input : Tensor
        Floating-point tensor.
    dim : int or sequence of int, optional
        Axes to reduce, all by default.
    keepdim : bool
        Whether to keep the reduced axes with size 1.
    dtype : dtype, optional
        Dtype to which `input` is converted first.

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
    return Mean.apply(input, axis=dim, keepdims=flag_of(keepdim, "mean", "keepdim"))


def require_floating(input, name):
    """Raise DTypeError unless `input` is floating-point.

    Means, variances and norms of integers are usually not integers.
    """
    if input.array.dtype.kind != "f":
        raise DTypeError(
            f"{name}(input): input must be a floating-point tensor",
            got=f"{input.dtype}",
            hint="call input.float() first",
        )


@names_arguments
def prod(input, dim=None, keepdim=False, *, dtype=None):
    """Product along the axis `dim`, or of all elements by default.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
    keepdim : bool
        Whether to keep the reduced axis with size 1.
    dtype : dtype, optional
        Dtype to which `input` is converted first; by default int64 for booleans and integers.

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
    return in_dtype(
        Prod.apply(input, axis=axis, keepdims=flag_of(keepdim, "prod", "keepdim")), dtype
    )


@names_arguments
def any(input, dim=None, keepdim=False):
    """True if any element along the axes `dim` is true (nonzero).

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int, optional
        Axes to reduce, all by default; () reduces no axis.
    keepdim : bool
        Whether to keep the reduced axes with size 1.

    Returns
    -------
    Tensor of bool, or of uint8 if `input` is a uint8 tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.any(mt.tensor([[True, False], [False, False]]), dim=1)
    tensor([ True, False])
    """
    return _truth("any", input, dim, keepdim)


@names_arguments
def all(input, dim=None, keepdim=False):
    """True if all elements along the axes `dim` are true (nonzero).

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int, optional
        Axes to reduce, all by default; () reduces no axis.
    keepdim : bool
        Whether to keep the reduced axes with size 1.

    Returns
    -------
    Tensor of bool, or of uint8 if `input` is a uint8 tensor

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
    answer = as_array(
        getattr(array_module(x), name)(x, axis=axis, keepdims=flag_of(keepdim, name, "keepdim"))
    )
    return wrap(answer.astype("uint8") if x.dtype == "uint8" else answer)  # as in PyTorch
