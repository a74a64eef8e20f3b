r"""Formulas for the messages and bytes that a rank sends in one training step of a GPT.

These are the formulas of docs/distributed.md, exact for each rank. A GPT has L blocks, embedding
size E, V token embeddings and P parameters of 4 bytes. The batch has B sequences of T tokens.

A ring all-reduce divides n numbers into N parts, one for each rank, and has two halves. In each
half, a rank sends N - 1 messages of one part each. In the first half (reduce-scatter), it sends all
parts except its own. In the second half (all-gather), it sends all parts except the next rank's.
Together, these are 2 (N - 1) n / N numbers if N divides n.

    data      an all-reduce for each bucket: P gradients in all
    zero1     the same, and N - 1 messages that pass on the updated parameters of all ranks except
              the next, which has computed its own
    tensor    4 L all-reduces of B T E
    sequence  L (3 N - 2) messages of 2 B (T / N) E, and two all-reduces, of P gradients and of
              the loss
    pipeline  to the next stage: M messages of (B / M) T E, and 9 numbers of 8 bytes that describe
              the dtype and shape; to the previous stage: M messages of (B / M) T E; between the
              first and the last stage: the gradient of the tied embedding (V E), each way;
              around the ring: the loss (8 bytes), which starts at the last rank, is passed on by
              the first rank and its successors, and ends at the last rank but one
"""

from dataclasses import dataclass

__all__ = ["SCHEMES", "Step", "obstacle", "sent"]

SCHEMES = ("data", "zero1", "tensor", "sequence", "pipeline")
MICRO_BATCHES = 4
_FIRST, _MOST = 2**20, 25 * 2**20  # bytes at which the first bucket, and each other bucket, is full


@dataclass(frozen=True)
class Step:
    """Sizes of a training step.

    Attributes
    ----------
    batch, context, width, layers, heads, vocabulary : int
    parameters : tuple of int
        Number of elements of each parameter, in the model's order.
    """

    batch: int
    context: int
    width: int
    layers: int
    heads: int
    vocabulary: int
    parameters: tuple


def obstacle(scheme, step, ranks):
    """Return what cannot be divided evenly among the ranks, such as "6 heads", or else "".

    Examples
    --------
    >>> step = Step(8, 256, 384, 6, 6, 65, (1,))
    >>> obstacle("tensor", step, 4), obstacle("tensor", step, 3)
    ('6 heads', '')
    """
    number, what = {
        "tensor": (step.heads, "heads"), "sequence": (step.context, "tokens"),
        "pipeline": (0, ""),
    }.get(scheme, (step.batch, "sequences"))  # fmt: skip
    return f"{number} {what}" if number % ranks else ""


def sent(scheme, step, ranks, rank):
    """Return how many messages and bytes a rank sends in a step.

    Parameters
    ----------
    scheme : str
        One of `SCHEMES`.
    step : Step
    ranks, rank : int

    Returns
    -------
    messages, bytes : int
    """
    if ranks == 1:
        return 0, 0
    tokens = step.batch * step.context * step.width
    if scheme == "pipeline":
        return _pipeline(step, tokens, ranks, rank)
    if scheme == "tensor":
        parts = [_ring(tokens, ranks, rank)] * (4 * step.layers)
    elif scheme == "sequence":
        hops = step.layers * (3 * ranks - 2)
        parts = [(hops, hops * 2 * (tokens // ranks))]
        parts += [_ring(sum(step.parameters), ranks, rank), _ring(1, ranks, rank)]
    else:
        parts = [_ring(size, ranks, rank) for size in _buckets(step.parameters)]
        if scheme == "zero1":
            shares = _shares(step.parameters, ranks)
            parts.append((ranks - 1, sum(shares) - shares[(rank + 1) % ranks]))
    messages, numbers = map(sum, zip(*parts, strict=True))
    return messages, 4 * numbers


def _ring(size, ranks, rank):
    """Return how many messages and numbers a rank sends in a ring all-reduce of `size` numbers."""
    own, following = (size // ranks + (r % ranks < size % ranks) for r in (rank, rank + 1))
    return 2 * (ranks - 1), 2 * size - own - following


def _buckets(parameters):
    """Return the sizes of the gradient buckets, starting with the last parameters."""
    sizes = [0]
    for size in reversed(parameters):
        sizes[-1] += size
        if 4 * sizes[-1] >= (_FIRST if len(sizes) == 1 else _MOST):
            sizes.append(0)
    return [size for size in sizes if size]


def _shares(parameters, ranks):
    """Return how many numbers each rank updates; the largest parameters are assigned first."""
    shares = [0] * ranks
    for size in sorted(parameters, reverse=True):
        shares[shares.index(min(shares))] += size
    return shares


def _pipeline(step, tokens, ranks, rank):
    first, last = rank == 0, rank == ranks - 1
    messages = numbers = 0
    for has_neighbor in (not last, not first):
        messages += has_neighbor * MICRO_BATCHES
        numbers += has_neighbor * tokens
    messages += (not last) + (first or last) + (rank != ranks - 2)
    tied = (first or last) * step.vocabulary * step.width
    return messages, 4 * (numbers + tied) + 8 * (9 * (not last) + (rank != ranks - 2))
