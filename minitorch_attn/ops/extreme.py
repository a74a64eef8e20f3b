"""Largest and smallest elements, and where they are."""

import builtins
from collections import namedtuple

from ..autograd.function import Function
from ..backend import array_module, as_array
from ..errors import ShapeError
from ..tensor import Tensor, wrap
from .axes import axis_of
from .given import as_operand
from .reduce import reduced_axes, spread
from .selection import maximum, minimum

__all__ = ["amax", "amin", "argmax", "argmin", "max", "min"]


class Extreme(Function):
    """y = the largest of x over some axes, or the smallest; NaN if an element is NaN.

    Derivative: 1 for the element that was found. Where k elements are equal each receives 1 / k,
    the middle of the kink.
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
        return grad_y * TieShare.call(x, y, axis=ctx.axis)


class TieShare(Function):
    """w = 1 / k at each of the k elements of x that equal y, 0 elsewhere, over some axes.

    Derivative: 0; the shares change only where ties begin and end.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, y, *, axis):
        same = x == y
        if axis is None:
            same = same | (x != x)  # NaN is found where it is, and equals nothing
        share = same.astype(x.dtype)
        return share / share.sum(axis=axis, keepdims=True)

    @staticmethod
    def backward(ctx, grad_w):
        return None, None


class Pick(Function):
    """y_j = x_(i_j) along one axis: the elements that an array of distinct indices names.

    Derivative: the gradient goes to the elements that were picked, 0 to the others.
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
    """y_(i_j) = x_j along one axis, 0 at the indices that are not named: the transpose of Pick.

    Derivative: each x_j receives the gradient of its place.
    Saved: the indices, all distinct.
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
    """The elements of `input` at the raw array `index`, which keeps the axis, and the indices.

    Parameters
    ----------
    input : Tensor
    index : array of int64
        Distinct along `axis`.
    axis : int
    keepdim : bool
        False drops the axis, which then has size 1.

    Returns
    -------
    values, indices : Tensor
    """
    indices = wrap(index)
    values = Pick.apply(input, indices, axis=axis)
    if keepdim:
        return values, indices
    return values.squeeze(axis), indices.squeeze(axis)


def amax(input, dim=(), keepdim=False):
    """The largest element over the axes `dim`; equal ones share the gradient.

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int
        All axes by default.
    keepdim : bool
        Keep the axes, with size 1.

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


def amin(input, dim=(), keepdim=False):
    """The smallest element over the axes `dim`; equal ones share the gradient.

    Parameters
    ----------
    input : Tensor
    dim : int or sequence of int
        All axes by default.
    keepdim : bool
        Keep the axes, with size 1.

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
    """No element is the largest of none."""
    sizes = input.shape if axis is None else [input.shape[i] for i in axis]
    if 0 in sizes:
        raise ShapeError(
            f"{name}(input): there is no element to find.",
            got=f"input of shape {input.shape}",
            expected="a size of at least 1 along the reduced axes",
        )


_Max = namedtuple("max", "values indices")
_Min = namedtuple("min", "values indices")


def max(input, dim=None, keepdim=False):
    """The largest element of all, along an axis, or of two tensors.

    Parameters
    ----------
    input : Tensor
    dim : int or Tensor, optional
        An axis, or a second tensor: then as `maximum`.
    keepdim : bool
        Keep the axis, with size 1.

    Returns
    -------
    Tensor, or (values, indices) if an axis is given
        The index is that of the first of equal elements, which alone receives the gradient.
        Without an axis equal elements share it.

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


def min(input, dim=None, keepdim=False):
    """The smallest element of all, along an axis, or of two tensors.

    Parameters
    ----------
    input : Tensor
    dim : int or Tensor, optional
        An axis, or a second tensor: then as `minimum`.
    keepdim : bool
        Keep the axis, with size 1.

    Returns
    -------
    Tensor, or (values, indices) if an axis is given
        The index is that of the first of equal elements, which alone receives the gradient.
        Without an axis equal elements share it.

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


def argmax(input, dim=None, keepdim=False):
    """The index of the largest element, of the first one where several are equal.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
        By default the index is into the flattened tensor.
    keepdim : bool
        Keep the axis, with size 1.

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


def argmin(input, dim=None, keepdim=False):
    """The index of the smallest element, of the first one where several are equal.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
        By default the index is into the flattened tensor.
    keepdim : bool
        Keep the axis, with size 1.

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
