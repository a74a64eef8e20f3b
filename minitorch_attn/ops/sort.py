"""Sorting: sort, argsort, topk and the median. NaN is ordered after all numbers."""

import builtins
from collections import namedtuple

from ..autograd.function import Function
from ..backend import array_module
from ..errors import DTypeError, IndexRangeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .max_min import pick, refuse_empty, tie_share
from .plumbing.axes import axis_of
from .plumbing.tensor_arguments import as_operand

__all__ = ["argsort", "median", "sort", "topk"]

_Sorted = namedtuple("sort", "values indices")
_Top = namedtuple("topk", "values indices")
_Median = namedtuple("median", "values indices")


class Median(Function):
    """Median of all elements, or the lower of two middle elements; NaN if any element is NaN.

    Forward:  y = the middle element of x in sorted order
    Backward: grad_x = grad_y where x = y, else 0; ties share the gradient
    Derivation: the derivative is 1 for the element found. Elements that are equal to it share the
    gradient equally.
    Saved: the input and the output.
    """

    @staticmethod
    def forward(ctx, x):
        flat = x.reshape(-1)
        if x.size:
            y = array_module(x).take_along_axis(flat, _middle(flat, 0), 0).reshape(())
        else:
            y = flat.sum() * float("nan")
        ctx.save(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, y = ctx.saved
        return grad_y * tie_share(x, y, None)


def _order(x, axis, descending):
    """Return the indices that sort an array along an axis; equal elements keep their order."""
    if not descending:
        return x.argsort(axis=axis, kind="stable")
    xp = array_module(x)
    # Reversing the axis before and after the sort keeps the order of equal elements.
    last = x.shape[axis] - 1
    return last - xp.flip(xp.flip(x, axis).argsort(axis=axis, kind="stable"), axis)


@names_arguments
def sort(input, dim=-1, descending=False, stable=False):
    """Sort the elements along an axis.

    Parameters
    ----------
    input : Tensor
    dim : int
    descending : bool
        Whether the largest element comes first.
    stable : bool
        Ignored; for compatibility with PyTorch. Equal elements always keep their order.

    Returns
    -------
    values, indices : Tensor
        Sorted elements, and their indices in `input`. The gradient of a sorted element flows
        back to its position in `input`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.sort(mt.tensor([3.0, 1.0, 2.0]), descending=True)
    sort(values=tensor([3., 2., 1.]), indices=tensor([0, 2, 1]))
    """
    input = as_operand(input, "sort")
    axis = axis_of(dim, input.ndim, "sort")
    if not input.ndim:
        return _Sorted(input.clone(), _zero_index(input))
    return _Sorted(*pick(input, _order(input.array, axis, descending), axis))


@names_arguments
def argsort(input, dim=-1, descending=False, stable=False):
    """Indices that sort the elements along an axis.

    Parameters
    ----------
    input : Tensor
    dim : int
    descending : bool
        Whether the largest element comes first.
    stable : bool
        Ignored; for compatibility with PyTorch. Equal elements always keep their order.

    Returns
    -------
    Tensor of int64

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.argsort(mt.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    input = as_operand(input, "argsort")
    axis = axis_of(dim, input.ndim, "argsort")
    return wrap(_order(input.array, axis, descending)) if input.ndim else _zero_index(input)


@names_arguments
def topk(input, k, dim=-1, largest=True, sorted=True):
    """The k largest elements along an axis or, with `largest=False`, the k smallest.

    Parameters
    ----------
    input : Tensor
    k : int
    dim : int
    largest : bool
    sorted : bool
        Ignored; for compatibility with PyTorch. The result is always sorted.

    Returns
    -------
    values, indices : Tensor

    Raises
    ------
    IndexRangeError
        If the axis has fewer than k elements.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.topk(mt.tensor([3.0, 1.0, 2.0]), 2)
    topk(values=tensor([3., 2.]), indices=tensor([0, 2]))
    """
    input = as_operand(input, "topk")
    axis = axis_of(dim, input.ndim, "topk")
    size = input.shape[axis] if input.ndim else 1
    if not isinstance(k, builtins.int):
        raise DTypeError("topk(input, k): k must be an integer", got=repr(k), hint="int(k)")
    if not 0 <= k <= size:
        raise IndexRangeError(
            "topk(input, k, dim): k is out of range",
            got=f"k={k} for {size} elements along axis {axis}",
            expected=f"from 0 to {size}",
            hint="pass min(k, input.shape[dim])",
        )
    if not input.ndim:
        return _Top(input.clone(), _zero_index(input))  # also for k = 0, as in PyTorch
    return _Top(*pick(input, _top(input.array, k, axis, largest), axis))


def _top(x, k, axis, largest):
    """Return the indices of the first k elements in sorted order; a small k avoids a full sort."""
    size = x.shape[axis]
    if k == 0 or k > size // 8:
        return _order(x, axis, largest)[_first(x.ndim, axis, k)]
    xp = array_module(x)
    part = xp.argpartition(x, size - k if largest else k - 1, axis=axis)
    found = xp.sort(part[_last(x.ndim, axis, k) if largest else _first(x.ndim, axis, k)], axis=axis)
    order = _order(xp.take_along_axis(x, found, axis), axis, largest)
    return xp.take_along_axis(found, order, axis)


def _first(ndim, axis, k):
    return (*(slice(None),) * axis, slice(0, k))


def _last(ndim, axis, k):
    return (*(slice(None),) * axis, slice(-k, None))


def _zero_index(input):
    """Return 0, the index of the only element of a 0-d tensor, as a Tensor."""
    return wrap(array_module(input.array).zeros((), dtype="int64"))


@names_arguments
def median(input, dim=None, keepdim=False):
    """Median of all elements or along an axis; of two middle elements, the lower one.

    Parameters
    ----------
    input : Tensor
    dim : int, optional
    keepdim : bool
        Whether to keep the reduced axis with size 1.

    Returns
    -------
    Tensor, or (values, indices) if an axis is given; NaN where any element is NaN

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.median(mt.tensor([4.0, 1.0, 2.0, 3.0]))
    tensor(2.)
    """
    input = as_operand(input, "median")
    if dim is None:
        return Median.apply(input)
    axis = axis_of(dim, input.ndim, "median")
    if not input.ndim:
        return _Median(input.clone(), _zero_index(input))
    refuse_empty("median", input, (axis,))
    return _Median(*pick(input, _middle(input.array, axis), axis, builtins.bool(keepdim)))


def _middle(x, axis):
    """Return the index of the median along an axis, or of the first NaN if there is one."""
    xp = array_module(x)
    half = (x.shape[axis] - 1) // 2
    index = _order(x, axis, False)[(*(slice(None),) * axis, slice(half, half + 1))]
    nan = xp.isnan(x)
    first_nan = xp.expand_dims(nan.argmax(axis=axis), axis)
    return xp.where(nan.any(axis=axis, keepdims=True), first_nan, index)
