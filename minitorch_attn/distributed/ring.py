"""Ring all-reduce, reduce-scatter and all-gather, written out with `isend` and `irecv`.

Rank r sends only to rank r + 1 and receives only from rank r - 1. The tensor is cut into N parts,
one per rank. In a reduce-scatter, part p starts at rank p + 1 and travels once around the ring.
Every rank on the way adds its own values, so rank p finally receives the complete sum. In an
all-gather, the complete part p starts at rank p and travels around the ring again.

A reduce-scatter takes N - 1 steps, and so does an all-gather. In each step, every rank sends one
part. An all-reduce is a reduce-scatter followed by an all-gather, so each rank sends 2 (N - 1) / N
times the size of the tensor. This factor is always less than 2, and no algorithm sends less [1]_.

The collectives of MPI and NCCL are faster. The functions in this file are meant to be read,
and stepped through in a debugger.

References
----------
.. [1] Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
   workstations", Journal of Parallel and Distributed Computing 69, sections 3 and 4.
"""

from ..autograd.modes import no_grad
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..ops import empty_like
from .collectives import ReduceOp, member
from .parts import part_slices
from .point_to_point import irecv, isend
from .work import check_tensor

__all__ = ["ring_all_gather", "ring_all_reduce", "ring_reduce_scatter"]


@names_arguments
def ring_all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """Ring version of `all_reduce`: each of N ranks sends 2 (N - 1) messages to the next rank.

    Parameters
    ----------
    tensor : Tensor
        Input and output. Its size need not be divisible by the number of ranks.
    op : ReduceOp
        Reduction, by default `ReduceOp.SUM`.
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.distributed.ring_all_reduce(mt.ones(5))  # doctest: +SKIP
    """
    group = member(group, "ring_all_reduce")
    if group is None:
        return
    check_tensor(tensor, group, "ring_all_reduce")
    with no_grad():
        flat = tensor.detach().reshape(-1)
        parts = [flat[part] for part in part_slices(flat.numel(), group.size())]
        _reduce_around(parts, op, group)
        if op is ReduceOp.AVG:
            parts[group.rank()] /= group.size()
        _copy_around(parts, group)
        tensor.array[...] = flat.array.reshape(tensor.shape)  # if strided, flat is a copy
    tensor.changed_in_place()


@names_arguments
def ring_reduce_scatter(output, input, op=ReduceOp.SUM, group=None):
    """Ring version of `reduce_scatter_tensor`: each of N ranks sends N - 1 messages.

    Parameters
    ----------
    output : Tensor of shape (n, ...)
        Receives part r of the reduction on rank r.
    input : Tensor of shape (ranks * n, ...)
        This rank's term of the reduction, which is not changed.
    op : ReduceOp
        Reduction, by default `ReduceOp.SUM`.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    """
    group = member(group, "ring_reduce_scatter")
    if group is None:
        return
    check_tensor(output, group, "ring_reduce_scatter", "output")
    check_tensor(input, group, "ring_reduce_scatter", "input", written=False)
    _check_sizes(input, output, group, "ring_reduce_scatter")
    with no_grad():
        flat = input.detach().clone().reshape(-1)
        parts = [flat[part] for part in part_slices(flat.numel(), group.size())]
        _reduce_around(parts, op, group)
        if op is ReduceOp.AVG:
            parts[group.rank()] /= group.size()
        output.array[...] = parts[group.rank()].array.reshape(output.shape)
    output.changed_in_place()


@names_arguments
def ring_all_gather(output, input, group=None):
    """Ring version of `all_gather_into_tensor`: each of N ranks sends N - 1 messages.

    Parameters
    ----------
    output : Tensor of shape (ranks * n, ...)
    input : Tensor of shape (n, ...)
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    """
    group = member(group, "ring_all_gather")
    if group is None:
        return
    check_tensor(output, group, "ring_all_gather", "output")
    check_tensor(input, group, "ring_all_gather", "input", written=False)
    _check_sizes(output, input, group, "ring_all_gather")
    with no_grad():
        flat = output.detach().reshape(-1)
        parts = [flat[part] for part in part_slices(flat.numel(), group.size())]
        parts[group.rank()].array[...] = input.array.reshape(-1)
        _copy_around(parts, group)
        output.array[...] = flat.array.reshape(output.shape)
    output.changed_in_place()


def _reduce_around(parts, op, group):
    """Run a reduce-scatter of N - 1 steps, after which rank r has the complete part r."""
    ranks, rank = group.size(), group.rank()
    for step in range(ranks - 1):
        outgoing, incoming = parts[(rank - 1 - step) % ranks], parts[(rank - 2 - step) % ranks]
        received = empty_like(incoming)
        _exchange(outgoing, received, group)
        _combine(incoming, received, op)


def _copy_around(parts, group):
    """Run an all-gather of N - 1 steps, which copies part r from rank r to all ranks."""
    ranks, rank = group.size(), group.rank()
    for step in range(ranks - 1):
        _exchange(parts[(rank - step) % ranks], parts[(rank - 1 - step) % ranks], group)


def _exchange(outgoing, incoming, group):
    """Send a part to the next rank while receiving a part from the previous rank."""
    ranks, rank = group.size(), group.rank()
    sent = isend(outgoing, group=group, group_dst=(rank + 1) % ranks)
    received = irecv(incoming, group=group, group_src=(rank - 1) % ranks)
    sent.wait()
    received.wait()


def _combine(part, received, op):
    """Combine a part with the received part, in place."""
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        part += received
    elif op is ReduceOp.PRODUCT:
        part *= received
    else:
        larger = received.array > part.array
        take = larger if op is ReduceOp.MAX else ~larger
        part.array[take] = received.array[take]


def _check_sizes(whole, part, group, where):
    if whole.numel() != part.numel() * group.size():
        raise ShapeError(
            f"{where}: the sizes of input and output do not match the number of ranks",
            got=f"shapes {whole.shape} and {part.shape} for {group.size()} ranks",
            expected=f"{group.size()} times {part.numel()} elements in the first shape",
        )
