"""Sequence order, contiguous or zigzag: which tokens of a split sequence each rank holds."""

from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..ops import cat

__all__ = ["ORDERS", "join_sequence", "sequence_slices", "split_sequence"]

ORDERS = ("zigzag", "contiguous")


@names_arguments
def sequence_slices(tokens, rank, size, order="zigzag"):
    r"""Return the slices of the whole sequence that make up a rank's part, in the part's order.

    Parameters
    ----------
    tokens : int
        Length of the whole sequence. It must be divisible by `size` in contiguous order, and by
        2 * size in zigzag order. If `size` is 1, any length is allowed.
    rank, size : int
        The rank, and the number of ranks.
    order : {"zigzag", "contiguous"}
        Contiguous: rank r holds part r of N equal parts. Zigzag: rank r holds chunks r and
        2N - 1 - r of 2N equal chunks.

    Returns
    -------
    list of slice

    Notes
    -----
    With a causal mask, the queries of chunk a attend to the chunks 0 to a, which are a + 1 chunks.
    The scores of one chunk of queries and one chunk of keys form a square. In zigzag order, rank r
    holds the chunks r and 2N - 1 - r, so every rank computes the same number of squares,

        (r + 1) + (2N - 1 - r + 1) = 2N + 1.

    In contiguous order, there are only N chunks, and rank r holds chunk r, so it computes r + 1
    squares. The last rank therefore has N times as much work as the first.

    Examples
    --------
    >>> [sequence_slices(8, rank, 2) for rank in range(2)]
    [[slice(0, 2, None), slice(6, 8, None)], [slice(2, 4, None), slice(4, 6, None)]]
    >>> sequence_slices(8, 1, 2, "contiguous")
    [slice(4, 8, None)]
    """
    chunks = chunks_per_rank(order) * size
    if not 0 <= rank < size:
        raise ArgumentError(
            "sequence_slices: rank must be at least 0 and less than size",
            got=f"rank={rank}, size={size}",
        )
    if size == 1:
        return [slice(0, tokens)]
    if tokens % chunks:
        raise ShapeError(
            "sequence_slices: the sequence cannot be divided among the ranks",
            got=f"{tokens} tokens for {size} ranks in {order} order",
            expected=f"a length that is a multiple of {chunks}",
            hint=f"pad the sequence to {-(-tokens // chunks) * chunks} tokens, with the label -100 "
            "at the added positions",
        )
    length = tokens // chunks
    numbers = [rank] if order == "contiguous" else [rank, chunks - 1 - rank]
    return [slice(number * length, (number + 1) * length) for number in numbers]


def chunks_per_rank(order):
    """Return the number of contiguous chunks that each rank holds: 2 in zigzag order, else 1."""
    if order not in ORDERS:
        raise ArgumentError(
            "sequence_slices: unknown order", got=repr(order), expected=" or ".join(ORDERS)
        )
    return 2 if order == "zigzag" else 1


@names_arguments
def split_sequence(x, rank, size, dim=1, order="zigzag"):
    """Return a rank's part of a sequence. The operation is differentiable.

    Parameters
    ----------
    x : Tensor
        The whole sequence.
    rank, size, order : see `sequence_slices`
    dim : int, default 1
        The axis of the tokens.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> [split_sequence(mt.arange(8), rank, 2, dim=0).tolist() for rank in range(2)]
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    slices = sequence_slices(x.shape[dim], rank, size, order)
    parts = [x.narrow(dim, part.start, part.stop - part.start) for part in slices]
    return parts[0] if len(parts) == 1 else cat(parts, dim)


@names_arguments
def join_sequence(parts, dim=1, order="zigzag"):
    """Join the parts of all ranks into the whole sequence. The operation is differentiable.

    Parameters
    ----------
    parts : list of Tensor
        The part of every rank, as `split_sequence` returns it.
    dim : int, default 1
        The axis of the tokens.
    order : {"zigzag", "contiguous"}

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> join_sequence([mt.tensor([0, 1, 6, 7]), mt.tensor([2, 3, 4, 5])], dim=0).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    if chunks_per_rank(order) == 1 or len(parts) == 1:
        return cat(list(parts), dim)
    halves = [part.chunk(2, dim) if part.shape[dim] else (part, part) for part in parts]
    return cat([half[0] for half in halves] + [half[1] for half in reversed(halves)], dim)
