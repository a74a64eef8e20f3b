"""Unique elements and counts: unique, unique_consecutive, bincount."""

from ..backend import array_module, as_array
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .creation import zeros
from .indexing import LookUp
from .plumbing.axes import axis_of
from .plumbing.creation_arguments import count_of
from .plumbing.range_check import InvalidValue, check_values
from .plumbing.tensor_arguments import as_operand
from .reshape import ravel

__all__ = ["bincount", "unique", "unique_consecutive"]


@names_arguments
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Distinct elements of a tensor in ascending order. On a GPU, the host waits for the result.

    Parameters
    ----------
    input : Tensor
    sorted : bool
        Ignored; for compatibility with PyTorch. The result is always sorted.
    return_inverse : bool
        Whether to return, for each element, its index in the result.
    return_counts : bool
        Whether to return how often each element occurs.
    dim : int, optional
        Axis whose slices are compared as a whole; by default, individual elements are compared.

    Returns
    -------
    Tensor, or a tuple that also contains the inverse and the counts if they are requested
        Gradients flow back to the first of each set of equal elements.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.unique(mt.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    input = as_operand(input, "unique")
    rows, axis = _slices(input, dim, "unique")
    xp = array_module(rows)
    order = xp.arange(len(rows))
    for column in range(rows.shape[1])[::-1]:  # a stable sort by each column, the last one first
        order = order[rows[order, column].argsort(kind="stable")]
    run, starts = _runs(rows[order])
    inverse = xp.empty(len(rows), dtype="int64")
    inverse[order] = run
    return _parts(input, order[starts], axis, inverse, starts, return_inverse, return_counts)


@names_arguments
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The first element of each run of equal elements; arguments as for `unique`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.unique_consecutive(mt.tensor([3, 3, 1, 3]), return_counts=True)
    (tensor([3, 1, 3]), tensor([2, 1, 1]))
    """
    input = as_operand(input, "unique_consecutive")
    rows, axis = _slices(input, dim, "unique_consecutive")
    run, starts = _runs(rows)
    return _parts(input, starts, axis, run, starts, return_inverse, return_counts)


def _slices(input, dim, where):
    """Return the slices along `dim` as the rows of a matrix, and the axis as a non-negative number.

    If `dim` is None, each row is a single element, and the axis is None.
    """
    if dim is None:
        return input.array.reshape(-1, 1), None
    axis = axis_of(dim, input.ndim, where)
    if not input.ndim:
        raise ShapeError(
            f"{where}: a 0-d tensor does not have slices", got=f"dim={dim}", hint="use dim=None"
        )
    rows = array_module(input.array).moveaxis(input.array, axis, 0)
    if 0 in rows.shape[1:]:
        raise ShapeError(
            f"{where}: the slices of input have no elements to compare",
            got=f"input {input.shape} and dim={dim}",
            hint="use dim=None for an empty tensor",
        )
    return rows.reshape(rows.shape[0], -1), axis


def _runs(rows):
    """Find runs of equal rows. Return each row's run number, and the start index of each run."""
    xp = array_module(rows)
    begins = xp.ones(len(rows), dtype="bool")
    begins[1:] = (rows[1:] != rows[:-1]).any(axis=1)  # NaN differs from itself
    return xp.cumsum(begins, dtype="int64") - 1, as_array(begins.nonzero()[0])


def _parts(input, chosen, axis, inverse, starts, return_inverse, return_counts):
    whole = ravel(input) if axis is None else input
    parts = [LookUp.apply(whole, wrap(chosen), axes=(axis or 0,))]
    if return_inverse:
        parts.append(wrap(inverse if axis is not None else inverse.reshape(input.shape)))
    if return_counts:
        xp = array_module(starts)
        ends = xp.concatenate([starts[1:], xp.full((1,), len(inverse))]) if len(starts) else starts
        parts.append(wrap(ends - starts))
    return parts[0] if len(parts) == 1 else tuple(parts)


_NEGATIVE = InvalidValue(
    ArgumentError, "bincount: input must not hold negative numbers", "input - input.min()"
)


@names_arguments
def bincount(input, weights=None, minlength=0):
    """Count how often each of 0, 1, 2, ... occurs. On a GPU, the host waits for the result.

    Parameters
    ----------
    input : integer Tensor of shape (n,)
        Numbers to count, at least 0.
    weights : Tensor of shape (n,), optional
        Weight that each number adds to its count, instead of 1.
    minlength : int
        Smallest length of the result.

    Returns
    -------
    Tensor
        Counts, as int64 without weights. With weights, the dtype is that of the weights if they are
        floating-point, else float64.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.bincount(mt.tensor([3, 1, 3]))
    tensor([0, 1, 0, 2])
    """
    input = as_operand(input, "bincount")
    if input.ndim != 1:
        raise ShapeError(
            "bincount: input must have 1 axis", got=f"input {input.shape}", hint="input.flatten()"
        )
    if input.dtype.kind not in "iu":
        raise DTypeError(
            "bincount: input must hold integers", got=f"{input.dtype}", hint="input.long()"
        )
    check_values(input.array, input.array < 0, _NEGATIVE)
    length = count_of(minlength, "bincount", "minlength")
    if input.array.size:
        length = max(length, int(input.array.max()) + 1)
    dtype = "int64"
    if weights is not None:
        weights = as_operand(weights, "bincount", "weights")
        if weights.shape != input.shape:
            raise ShapeError(
                "bincount: input and weights must have the same shape",
                got=f"input {input.shape} and weights {weights.shape}",
            )
        dtype = weights.dtype if weights.dtype.kind == "f" else "float64"
    counts = zeros(length, dtype=dtype, device=input.device)
    source = counts.new_ones(input.shape) if weights is None else weights.to(dtype)
    return counts.index_add(0, input.long(), source)
