"""Maximum and minimum over axes: max, min, amax, amin, argmax, argmin."""

import builtins
from collections import namedtuple

from ..autograd.function import Function
from ..backend import array_module, as_array
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, wrap
from .plumbing.axes import axis_of
from .plumbing.tensor_arguments import as_operand
from .sum_mean import reduced_axes, spread
from .where import maximum, minimum

__all__ = ["amax", "amin", "argmax", "argmin", "max", "min"]


class Extreme(Function):
    """Maximum or minimum over some axes; NaN if an element is NaN.

    Forward:  y = the largest of x, or the smallest
    Backward: grad_x = grad_y where x = y, else 0; ties share the gradient
    Derivation: the derivative is 1 for the element found. If k elements are equal to the maximum or
    minimum, each receives 1 / k of the gradient, a subgradient at the kink.
    Saved: the input and the output.
    """

    @staticmethod
    def forward(ctx, x, *, axis, keepdims, largest):
        ctx.axis = axis
        y = (x.max if largest else x.min)(axis=axis, keepdims=keepdims)
        ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        y, grad_y = spread(y, x.shape, ctx.axis), spread(grad_y, x.shape, ctx.axis)
        return grad_y * tie_share(x, y, ctx.axis)


def tie_share(x, y, axis):
    """Return an array with 1 / k at each of the k elements of x that equal y, and 0 elsewhere."""
    same = x == y
    if axis is None:
        same = same | (x != x)  # NaN does not equal itself
    return TieShare.call(same, axis=axis, dtype=x.dtype)


class TieShare(Function):
    """Give the fraction 1 / k of the gradient to each of the k elements that are tied.

    Forward:  w = 1 / k at each of the k places where `same` is true, else 0
    Backward: none, because `same` is boolean
    Derivation: the fractions change only where a tie begins or ends; everywhere else they are
    constant.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, same, *, axis, dtype):
        share = same.astype(dtype)
        return share / share.sum(axis=axis, keepdims=True)

    @staticmethod
    def backward(ctx, grad_w):
        return None


class Pick(Function):
    """Pick the elements at distinct indices along one axis.

    Forward:  y_j = x_(index_j)
    Backward: grad_x = zeros with grad_y at the indices
    Derivation: the gradient of y goes to the picked elements; the others receive 0.
    Saved: the indices.
    """

    @staticmethod
    def forward(ctx, x, index, *, axis):
        ctx.axis = axis
        ctx.constants(index)
        return array_module(x).take_along_axis(x, index, axis)

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.constant
        size = ctx.shapes[0][ctx.axis]
        return Place.call(grad_y, index, axis=ctx.axis, size=size), None


class Place(Function):
    """Place elements at distinct indices along one axis, with 0 elsewhere; the adjoint of Pick.

    Forward:  y_(index_j) = x_j, else 0
    Backward: grad_x_j = grad_y_(index_j)
    Derivation: each x_j receives the gradient at its index.
    Saved: the indices.
    """

    @staticmethod
    def forward(ctx, x, index, *, axis, size):
        ctx.axis = axis
        ctx.constants(index)
        xp = array_module(x)
        y = xp.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), dtype=x.dtype)
        xp.put_along_axis(y, index, x, axis)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        (index,) = ctx.constant
        return Pick.call(grad_y, index, axis=ctx.axis), None


def pick(input, index, axis, keepdim=True):
    """Return the elements of `input` at the indices in `index`, and these indices as a Tensor.

    Parameters
    ----------
    input : Tensor
    index : array of int64
        Indices along `axis`, with as many axes as `input`. No index may occur twice along `axis`.
    axis : int
    keepdim : bool
        Whether to keep the axis. If False, the axis must have size 1 and is removed.

    Returns
    -------
    values, indices : Tensor
    """
    indices = wrap(index)
    values = Pick.apply(input, indices, axis=axis)
    if keepdim:
        return values, indices
    return values.squeeze(axis), indices.squeeze(axis)


@names_arguments
def amax(input, dim=(), keepdim=False):
    """Maximum over the axes `dim`; equal elements share the gradient.

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int
        Axes to reduce, all by default.
    keepdim : bool
        Whether to keep the reduced axes with size 1.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.amax(mt.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([5., 3.])
    """
    return _extreme("amax", input, dim, keepdim, True)


@names_arguments
def amin(input, dim=(), keepdim=False):
    """Minimum over the axes `dim`; equal elements share the gradient.

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int
        Axes to reduce, all by default.
    keepdim : bool
        Whether to keep the reduced axes with size 1.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.amin(mt.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([1., 2.])
    """
    return _extreme("amin", input, dim, keepdim, False)


def _extreme(name, input, dim, keepdim, largest):
    input = as_operand(input, name)
    axis = reduced_axes(dim, input.ndim, name)
    refuse_empty(name, input, axis)
    return Extreme.apply(input, axis=axis, keepdims=builtins.bool(keepdim), largest=largest)


def refuse_empty(name, input, axis):
    """Raise ShapeError if there are no elements to reduce."""
    sizes = input.shape if axis is None else [input.shape[i] for i in axis]
    if 0 in sizes:
        raise ShapeError(
            f"{name}(input): the reduced axes must not be empty",
            got=f"input of shape {input.shape}",
            hint=f"call {name} only if input.numel() > 0",
        )


_Max = namedtuple("max", "values indices")
_Min = namedtuple("min", "values indices")


@names_arguments
def max(input, dim=None, keepdim=False):
    """Maximum of all elements, along an axis, or of two tensors.

    Parameters
    ----------
    input : Tensor
    dim : int or Tensor, optional
        Axis to reduce, or a second tensor, as in `maximum`.
    keepdim : bool
        Whether to keep the reduced axis with size 1.

    Returns
    -------
    Tensor, or (values, indices) if an axis is given
        Along an axis, the first of several equal elements is chosen and receives the whole
        gradient. Without an axis, equal elements share the gradient.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[1.0, 5.0], [3.0, 2.0]])
    >>> mt.max(x)
    tensor(5.)
    >>> mt.max(x, dim=1)
    max(values=tensor([5., 3.]), indices=tensor([1, 0]))
    """
    if isinstance(dim, Tensor):
        return maximum(input, dim)
    if dim is None:
        return _extreme("max", input, None, False, True)
    return _Max(*_extreme_along("max", input, dim, keepdim))


@names_arguments
def min(input, dim=None, keepdim=False):
    """Minimum of all elements, along an axis, or of two tensors.

    Parameters
    ----------
    input : Tensor
    dim : int or Tensor, optional
        Axis to reduce, or a second tensor, as in `minimum`.
    keepdim : bool
        Whether to keep the reduced axis with size 1.

    Returns
    -------
    Tensor, or (values, indices) if an axis is given
        Along an axis, the first of several equal elements is chosen and receives the whole
        gradient. Without an axis, equal elements share the gradient.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[1.0, 5.0], [3.0, 2.0]])
    >>> mt.min(x, dim=0)
    min(values=tensor([1., 2.]), indices=tensor([0, 1]))
    """
    if isinstance(dim, Tensor):
        return minimum(input, dim)
    if dim is None:
        return _extreme("min", input, None, False, False)
    return _Min(*_extreme_along("min", input, dim, keepdim))


def _extreme_along(name, input, dim, keepdim):
    input = as_operand(input, name)
    axis = axis_of(dim, input.ndim, name)
    if input.ndim == 0:
        return input.clone(), argmax(input)
    refuse_empty(name, input, (axis,))
    x = input.array
    find = x.argmax if name == "max" else x.argmin
    index = array_module(x).expand_dims(find(axis=axis), axis)
    return pick(input, index, axis, keepdim)


@names_arguments
def argmax(input, dim=None, keepdim=False):
    """Index of the maximum; if the maximum occurs several times, the index of the first one.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
        Axis to search; by default the index refers to the flattened tensor.
    keepdim : bool
        Whether to keep the reduced axis with size 1.

    Returns
    -------
    Tensor of int64

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.argmax(mt.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([1, 0])
    """
    return _where_extreme("argmax", input, dim, keepdim)


@names_arguments
def argmin(input, dim=None, keepdim=False):
    """Index of the minimum; if the minimum occurs several times, the index of the first one.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
        Axis to search; by default the index refers to the flattened tensor.
    keepdim : bool
        Whether to keep the reduced axis with size 1.

    Returns
    -------
    Tensor of int64

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.argmin(mt.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([0, 1])
    """
    return _where_extreme("argmin", input, dim, keepdim)


def _where_extreme(name, input, dim, keepdim):
    input = as_operand(input, name)
    axis = None if dim is None else axis_of(dim, input.ndim, name)
    refuse_empty(name, input, None if axis is None or not input.ndim else (axis,))
    x = input.array
    if not input.ndim:
        axis = None
    find = x.argmax if name == "argmax" else x.argmin
    return wrap(as_array(find(axis=axis, keepdims=builtins.bool(keepdim))))
