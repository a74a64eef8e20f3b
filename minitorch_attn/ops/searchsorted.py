"""Search for elements: searchsorted, bucketize, nonzero, argwhere, masked_select."""

from numbers import Number

from ..backend import array_module, as_array
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .broadcast import broadcast_tensors
from .cast import cast
from .creation import tensor_like
from .plumbing.operands import number
from .plumbing.promotion import result_type
from .plumbing.tensor_arguments import as_operand
from .reshape import at_least_1d

__all__ = ["argwhere", "bucketize", "masked_select", "nonzero", "searchsorted"]


@names_arguments
def masked_select(input, mask):
    """Select the elements where `mask` is True, as a vector; `input` and `mask` broadcast.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> masked_select(mt.tensor([1, 2, 3]), mt.tensor([True, False, True]))
    tensor([1, 3])
    """
    input = as_operand(input, "masked_select")
    mask = as_operand(mask, "masked_select", "mask")
    if mask.dtype.kind != "b":
        raise DTypeError(
            "masked_select: mask must be boolean",
            got=f"{mask.dtype}",
            hint="use a comparison such as x > 0, or mask.bool()",
        )
    input, mask = broadcast_tensors(input, mask)
    return at_least_1d(input)[at_least_1d(mask)]


@names_arguments
def nonzero(input, *, as_tuple=False):
    """Indices of the nonzero elements. On a GPU, the host waits for the result.

    Returns
    -------
    Tensor of shape (count, axes), or with `as_tuple` one Tensor of shape (count,) per axis

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> nonzero(mt.tensor([[0, 5], [6, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    array = as_operand(input, "nonzero").array
    xp = array_module(array)
    if array.ndim == 0:
        (found,) = array.reshape(1).nonzero()
        return (wrap(found),) if as_tuple else wrap(found.reshape(-1, 1)[:, :0])
    found = array.nonzero()
    return tuple([wrap(f) for f in found]) if as_tuple else wrap(xp.stack(found, axis=1))


@names_arguments
def argwhere(input):
    """Indices of the nonzero elements, one per row.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> argwhere(mt.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    return nonzero(input)


@names_arguments
def searchsorted(
    sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None
):  # fmt: skip
    """Find where to insert each element of `input` into a sorted vector.

    The position is after equal elements if `right` is True, otherwise before them.

    Parameters
    ----------
    sorted_sequence : Tensor of shape (n,)
    input : Tensor or number
        Elements to insert.
    out_int32 : bool
        Whether the result is int32 instead of int64.
    right : bool, default False
        Whether to insert after equal elements.
    side : {"left", "right"}, optional
        NumPy's name for this choice: "right" means `right=True`, "left" means `right=False`.
    sorter : Tensor of int64, shape (n,), optional
        Indices that sort `sorted_sequence`, if it is not sorted itself.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.searchsorted(mt.tensor([1, 3, 5]), mt.tensor([3, 4]))
    tensor([1, 2])
    """
    sorted_sequence = as_operand(sorted_sequence, "searchsorted", "sorted_sequence")
    if sorted_sequence.ndim != 1:
        raise ShapeError(
            "searchsorted: sorted_sequence must have 1 axis",
            got=f"{sorted_sequence.shape}",
            hint="call it once per row; for bucketize(), pass boundaries as the second argument",
        )
    if side not in (None, "left", "right") or (right and side == "left"):
        raise ArgumentError(
            "searchsorted: side must be 'left' or 'right', and must not contradict right",
            got=f"side={side!r}, right={right}",
        )
    if sorter is not None:
        sorted_sequence = sorted_sequence[as_operand(sorter, "searchsorted", "sorter")]
    xp = array_module(sorted_sequence.array)
    if isinstance(input, Number):
        input = number(input, "searchsorted", "input")
        sorted_sequence = cast(sorted_sequence, result_type(sorted_sequence, input))
        values = tensor_like(input, sorted_sequence)
    else:
        values = as_operand(input, "searchsorted")
    side = "right" if right else side or "left"
    found = xp.searchsorted(sorted_sequence.array, values.array, side=side)
    return wrap(as_array(found)).to("int32" if out_int32 else "int64")


@names_arguments
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """Find the bucket of each element x: the index i with `boundaries[i-1] < x <= boundaries[i]`.

    If `right` is True, the condition is `boundaries[i-1] <= x < boundaries[i]`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> bucketize(mt.tensor([1, 2, 9]), mt.tensor([1, 3, 5]))
    tensor([0, 1, 3])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
