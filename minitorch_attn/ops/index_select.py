"""Select, add, copy or fill slices of an axis: index_select, index_add, index_copy, index_fill."""

from ..backend import array_module
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .arithmetic import mul
from .cast import cast
from .indexing import AddAt, Assign, LookUp
from .plumbing.axes import axis_of
from .plumbing.range_check import check_range
from .plumbing.tensor_arguments import not_tensors
from .reshape import Reshape, at_least_1d
from .where import masked_fill

__all__ = ["index_add", "index_copy", "index_fill", "index_select"]


def _slices(input, dim, index, where):
    """Check the arguments. Return the axis, and the index as a 1-d tensor."""
    try:
        dim, rank = axis_of(dim, input.ndim, where), index.ndim
    except AttributeError as error:
        raise not_tensors(error, where, input=input, index=index) from None
    if rank > 1:
        raise ShapeError(
            f"{where}: index must have at most 1 axis", got=f"index {index.shape}", expected="(n,)"
        )
    check_range(index.array, input.shape[dim] if input.ndim else 1, where=where, name="index")
    return dim, at_least_1d(index)


@names_arguments
def index_select(input, dim, index):
    """Select the slices of `input` at the positions `index` along `dim`, as a copy.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> index_select(mt.tensor([[1, 2, 3], [4, 5, 6]]), 1, mt.tensor([2, 0]))
    tensor([[3, 1],
            [6, 4]])
    """
    dim, index = _slices(input, dim, index, "index_select")
    if input.ndim == 0 and index.shape != (1,):
        raise ShapeError(
            "index_select: index must have one element if input is 0-d", got=f"index {index.shape}"
        )
    result = LookUp.apply(at_least_1d(input), index, axes=(dim,))
    return result if input.ndim else Reshape.apply(result, shape=())


@names_arguments
def index_add(input, dim, index, source, *, alpha=1):
    """A copy of `input`, with `alpha * source` added to the slices at `index` along `dim`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> index_add(mt.zeros(3), 0, mt.tensor([1, 1]), mt.tensor([1.0, 2.0]), alpha=10)
    tensor([ 0., 30.,  0.])
    """
    dim, index = _slices(input, dim, index, "index_add")
    source = _slices_of(input, dim, index, source, "index_add")
    if alpha != 1:
        source = mul(source, alpha)
    result = AddAt.apply(at_least_1d(input), source, index, axes=(dim,))
    return result if input.ndim else Reshape.apply(result, shape=())


@names_arguments
def index_copy(input, dim, index, source):
    """A copy of `input`, with the slices at `index` along `dim` replaced by `source`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> index_copy(mt.zeros(3), 0, mt.tensor([2]), mt.tensor([5.0]))
    tensor([0., 0., 5.])
    """
    dim, index = _slices(input, dim, index, "index_copy")
    source = _slices_of(input, dim, index, source, "index_copy")
    result = Assign.apply(at_least_1d(input), source, index, basic=(...,), axes=(dim,))
    return result if input.ndim else Reshape.apply(result, shape=())


@names_arguments
def index_fill(input, dim, index, value):
    """A copy of `input`, with the slices at `index` along `dim` filled with `value`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> index_fill(mt.zeros(3), 0, mt.tensor([0, 2]), 7)
    tensor([7., 0., 7.])
    """
    dim, index = _slices(input, dim, index, "index_fill")
    size = input.shape[dim] if input.ndim else 1
    filled = array_module(input.array).zeros(size, dtype="bool")
    filled[index.array] = True
    shape = tuple([size if axis == dim else 1 for axis in range(input.ndim)])
    return masked_fill(input, wrap(filled.reshape(shape)), value)


def _slices_of(input, dim, index, source, where):
    """Check that `source` has the shape of the selected slices; cast it to the dtype of `input`."""
    count = index.shape[0]
    expected = (input.shape[:dim] + (count,) + input.shape[dim + 1 :]) if input.ndim else (count,)
    try:
        lone = source.ndim == 0 and input.ndim <= 1
    except AttributeError as error:
        raise not_tensors(error, where, source=source) from None
    if lone:
        source = Reshape.apply(source, shape=(1,))
    if source.shape != expected:
        raise ShapeError(
            f"{where}(input, dim, index, source): source does not match the slices of input",
            got=f"source {source.shape}",
            expected=f"{expected}",
            hint=f"use source.expand({expected}) if source has axes of size 1",
        )
    return cast(source, input.dtype)
