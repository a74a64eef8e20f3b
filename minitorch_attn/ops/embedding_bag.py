"""Embedding bags: the sum, mean or maximum of the table rows of several ids."""

from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from .creation import arange, ones_like, tensor_like
from .embedding import embedding
from .max_min import max as max_over
from .plumbing.tensor_arguments import as_operand
from .where import clamp, where

__all__ = ["embedding_bag"]


@names_arguments
def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
    sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """Look up the rows of each bag of ids, and return their sum, mean or maximum.

    Parameters
    ----------
    input : integer Tensor of shape (bag, id), or (id,) with `offsets`
        Ids: one bag per row, or, with `offsets`, the ids of all bags concatenated.
    weight : Tensor of shape (rows, embed)
        The table.
    offsets : integer Tensor of shape (bag,), optional
        Index of each bag's first id in `input`. The first index is 0; a bag can be empty.
    max_norm, norm_type, scale_grad_by_freq, sparse
        Options of `embedding`.
    mode : {"mean", "sum", "max"}
        How the rows of a bag are combined.
    per_sample_weights : Tensor of the shape of `input`, optional
        Factor for each looked-up row; requires mode "sum".
    include_last_offset : bool, default False
        Whether `offsets` ends with an extra element: the total number of ids.
    padding_idx : int, optional
        Id to exclude from the sum, mean or maximum.

    Returns
    -------
    Tensor of shape (bag, embed)
        Zeros for an empty bag.

    Notes
    -----
    Unlike PyTorch's kernel, this function stores all the rows that it looks up. Bags of different
    lengths are padded to the length of the longest bag.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> table = mt.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> embedding_bag(mt.tensor([0, 1, 1]), table, mt.tensor([0, 2]))
    tensor([[2., 3.],
            [3., 4.]])
    """
    input = as_operand(input, "embedding_bag")
    weight = as_operand(weight, "embedding_bag", "weight")
    _check(input, offsets, mode, per_sample_weights)
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    counts = ones_like(input) > 0
    if padding_idx is not None:
        counts = input != padding_idx % weight.shape[0]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if offsets is not None:
        place, inside = _places(input, offsets, include_last_offset)
        rows, counts = rows[place], counts[place] & inside
    # rows: (bag, id, embed), counts: (bag, id)
    counts = counts.unsqueeze(-1)  # (bag, id, 1)
    if mode == "max" and rows.shape[1]:
        largest = max_over(where(counts, rows, float("-inf")), 1)[0]  # (bag, embed)
        return where(counts.any(1), largest, 0.0)
    total = where(counts, rows, 0.0).sum(1)  # (bag, embed)
    return total / clamp(counts.sum(1), 1).to(total.dtype) if mode == "mean" else total


def _places(input, offsets, include_last_offset):
    """Return the positions in `input` of each bag's ids, and a mask that is False at padding.

    Both have the shape (bags, number of ids in the longest bag).
    """
    starts = [int(start) for start in offsets.tolist()]
    bounds = (starts or [0]) if include_last_offset else [*starts, len(input)]
    lengths = [stop - start for start, stop in zip(bounds, bounds[1:], strict=False)]
    if (starts and starts[0]) or bounds[-1] > len(input) or any(n < 0 for n in lengths):
        raise ArgumentError(
            "embedding_bag: offsets must start with 0, not decrease, and not exceed len(input)",
            got=f"offsets={starts} and {len(input)} ids",
            hint="give the index of each bag's first id",
        )
    width = max([0, *lengths])
    edges = tensor_like(bounds, input)
    place = edges[:-1].unsqueeze(1) + arange(width, device=input.device)  # (bag, id)
    inside = place < edges[1:].unsqueeze(1)
    return clamp(place, max=max(len(input) - 1, 0)), inside


def _check(input, offsets, mode, per_sample_weights):
    if mode not in ("mean", "sum", "max"):
        raise ArgumentError(
            "embedding_bag: mode is not supported",
            got=repr(mode),
            expected="'mean', 'sum' or 'max'",
            hint="use 'mean', the default",
        )
    if input.ndim != (2 if offsets is None else 1):
        raise ShapeError(
            "embedding_bag: input must have 2 axes, or 1 axis with offsets",
            got=f"input {input.shape} and offsets "
            + ("None" if offsets is None else f"{offsets.shape}"),
            hint="pass input (bag, id) without offsets, or input (id,) with offsets (bag,)",
        )
    if per_sample_weights is None:
        return
    if mode != "sum" or per_sample_weights.shape != input.shape:
        raise ArgumentError(
            "embedding_bag: per_sample_weights must have the shape of input, "
            "and requires mode='sum'",
            got=f"shape {per_sample_weights.shape} for input {input.shape}, mode={mode!r}",
            hint="for a weighted mean, divide the sum by the sum of the weights",
        )
