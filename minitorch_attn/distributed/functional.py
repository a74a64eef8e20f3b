r"""Functional collectives: collectives with a backward pass.

A collective is a linear map A, and its backward pass is the adjoint of this map. Let rank r hold
x_r, and let rank s receive y_s = sum over r of A_sr x_r, where A_sr is a block of the matrix A.
Rank s computes a loss L_s from y_s, and the loss of the run is the sum L = L_0 + L_1 + ... of all
these losses. Then
    dL/dx_r = sum over s of A_sr^T dL/dy_s.
The backward pass is therefore a collective too, and every rank must take part in it. Row s of A
says what rank s receives. Column r says where the values of rank r go, and the backward pass uses
this column. For example, a broadcast to N ranks has a column of N identities, and its adjoint is a
sum.

In a model whose layers are split among the ranks, all ranks compute the same loss from the same
values, and L would count this loss N times. For such models, use `copy_to_ranks`,
`reduce_from_ranks`, `scatter_to_ranks` and `gather_from_ranks`, which count the loss once [1]_.

A tensor must require grad either on all ranks or on none. A rank whose tensor does not require grad
does not run the backward pass, and the other ranks wait for it forever. On all ranks, the backward
pass runs the collectives in the reverse order of the forward pass.

References
----------
.. [1] Shoeybi et al. 2019, "Megatron-LM", arXiv:1909.08053v4, section 3 (the operators f and g).
"""

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..ops.plumbing.axes import axis_of
from ..ops.plumbing.tensor_arguments import as_operand
from ..tensor import wrap
from . import collectives
from .collectives import ReduceOp, root_of
from .process_group import resolve

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "broadcast", "copy_to_ranks", "gather_from_ranks",
    "reduce", "reduce_from_ranks", "reduce_scatter", "scatter_to_ranks",
]  # fmt: skip


class AllReduce(Function):
    """Sum over the ranks, on every rank.

    Forward:  y = x_0 + x_1 + ... on every rank
    Backward: grad_x = the sum of grad_y over the ranks, on every rank
    Derivation: y_s = sum_r A_sr x_r on rank s, with A_sr = 1 for all r and s. x_r is a term of y on
    every rank, so dL/dx_r is the sum of grad_y over all ranks. This sum is again an all-reduce.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, group):
        ctx.group = group
        y = wrap(x.copy())
        collectives.all_reduce(y, group=group)
        return y.array

    @staticmethod
    def backward(ctx, grad_y):
        return AllReduce.call(grad_y, group=ctx.group)


class Broadcast(Function):
    """Copy of one rank's tensor, on every rank.

    Forward:  y = x_src on every rank
    Backward: grad_x = the sum of all ranks' grad_y on rank src, and 0 on the other ranks
    Derivation: y_s = sum_r A_sr x_r on rank s, with A_sr = 1 if r = src, otherwise 0. x_src is
    copied into the outputs of all ranks, so dL/dx_src is the sum of the outputs' gradients. The
    tensors x of the other ranks do not affect any output.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, src, group):
        ctx.src, ctx.group = src, group
        y = wrap(x.copy())
        collectives.broadcast(y, group=group, group_src=src)
        return y.array

    @staticmethod
    def backward(ctx, grad_y):
        return Reduce.call(grad_y, dst=ctx.src, group=ctx.group)


class Reduce(Function):
    """Sum over the ranks, on one rank; the others receive 0.

    Forward:  y = x_0 + x_1 + ... on rank dst, and 0 on the others
    Backward: grad_x = the grad_y of rank dst, on every rank
    Derivation: y_s = sum_r A_sr x_r on rank s, with A_sr = 1 if s = dst, otherwise 0. Every x_r is
    a term of y_dst and of no other output, so dL/dx_r is the gradient of y_dst on every rank. The
    backward pass is a broadcast.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, dst, group):
        ctx.dst, ctx.group = dst, group
        y = wrap(x.copy())
        collectives.reduce(y, group=group, group_dst=dst)
        return y.array if group.rank() == dst else array_module(x).zeros_like(x)

    @staticmethod
    def backward(ctx, grad_y):
        return Broadcast.call(grad_y, src=ctx.dst, group=ctx.group)


class AllGather(Function):
    """The tensors of all ranks, concatenated along one axis, on every rank.

    Forward:  y = the concatenation of x_0, x_1, ... on every rank
    Backward: grad_x = this rank's part of the sum of grad_y over the ranks
    Derivation: x_r is copied into part r of y on every rank, so dL/dx_r is part r of grad_y, summed
    over all ranks. Each rank needs only its own part of the sum, which a reduce-scatter computes.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, dim, group):
        ctx.dim, ctx.group = dim, group
        return _gathered(x, dim, group)

    @staticmethod
    def backward(ctx, grad_y):
        return ReduceScatter.call(grad_y, dim=ctx.dim, group=ctx.group)


class ReduceScatter(Function):
    """Sum over the ranks, split along one axis so that each rank receives one part.

    Forward:  y = this rank's part of x_0 + x_1 + ...
    Backward: grad_x = the concatenation of the grad_y of all ranks, on every rank
    Derivation: part s of x_r is a term of y_s and of no other output, so part s of dL/dx_r is
    grad_y_s for every r. An all-gather collects these parts.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, dim, group):
        ctx.dim, ctx.group = dim, group
        xp, ranks = array_module(x), group.size()
        parts = xp.stack(xp.split(x, ranks, axis=dim))  # (ranks, ..., n, ...)
        y = wrap(xp.empty(parts.shape[1:], x.dtype))
        collectives.reduce_scatter_tensor(y, wrap(parts), group=group)
        return y.array

    @staticmethod
    def backward(ctx, grad_y):
        return AllGather.call(grad_y, dim=ctx.dim, group=ctx.group)


class AllToAll(Function):
    """Exchange of parts: each rank splits a tensor, sends the parts, and joins the received parts.

    Forward:  part r of y (along `join`) = this rank's part of x_r (along `split`)
    Backward: grad_x = the same exchange of grad_y, with `split` and `join` swapped
    Derivation: every element of x goes to one place in the y of one rank, so the exchange is a
    permutation. The adjoint of a permutation is its inverse: here, the same exchange with the two
    axes swapped.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, split, join, group):
        ctx.split, ctx.join, ctx.group = split, join, group
        xp, ranks = array_module(x), group.size()
        parts = xp.stack(xp.split(x, ranks, axis=split))
        received = wrap(xp.empty(parts.shape, x.dtype))
        collectives.all_to_all_single(received, wrap(parts), group=group)
        return xp.concatenate(list(received.array), axis=join)

    @staticmethod
    def backward(ctx, grad_y):
        return AllToAll.call(grad_y, split=ctx.join, join=ctx.split, group=ctx.group)


class CopyToRanks(Function):
    """Identity for a tensor that is equal on all ranks. The backward pass sums over the ranks.

    Forward:  y = x
    Backward: grad_x = the sum of grad_y over the ranks, on every rank
    Derivation: all ranks have the same x. In a single process, x would be one tensor that is used N
    times, as y_0, y_1, ..., and its gradient would be the sum of their gradients. Each rank knows
    only the gradient of its own y, so an all-reduce computes the sum. Megatron-LM calls this
    operator f.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, group):
        ctx.group = group
        return x.copy()

    @staticmethod
    def backward(ctx, grad_y):
        return ReduceFromRanks.call(grad_y, group=ctx.group)


class ReduceFromRanks(Function):
    """Sum of the ranks' partial results, on every rank. The backward pass is the identity.

    Forward:  y = x_0 + x_1 + ... on every rank
    Backward: grad_x = grad_y
    Derivation: in a single process, there would be one y, one loss and one grad_y. All ranks have
    the same grad_y, because they compute the same loss from the same y. Since dy/dx_r = 1, the
    gradient of x_r is grad_y, and no message is needed. Megatron-LM calls this operator g.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, group):
        ctx.group = group
        y = wrap(x.copy())
        collectives.all_reduce(y, group=group)
        return y.array

    @staticmethod
    def backward(ctx, grad_y):
        return CopyToRanks.call(grad_y, group=ctx.group)


class ScatterToRanks(Function):
    """This rank's part of a tensor that is equal on all ranks and is split along one axis.

    Forward:  y = this rank's part of x
    Backward: grad_x = the concatenation of the grad_y of all ranks, on every rank
    Derivation: in a single process, x would be split into parts, and its gradient would be the
    concatenation of the parts' gradients. Each rank knows the gradient of its own part, so an
    all-gather collects them.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, dim, group):
        ctx.dim, ctx.group = dim, group
        return array_module(x).split(x, group.size(), axis=dim)[group.rank()].copy()

    @staticmethod
    def backward(ctx, grad_y):
        return GatherFromRanks.call(grad_y, dim=ctx.dim, group=ctx.group)


class GatherFromRanks(Function):
    """The ranks' parts of one tensor, concatenated along one axis, on every rank.

    Forward:  y = the concatenation of x_0, x_1, ... on every rank
    Backward: grad_x = this rank's part of grad_y
    Derivation: in a single process, y would be the concatenation of the parts, and part r of grad_y
    would be the gradient of x_r. All ranks have the same grad_y, so each rank takes its own part,
    and no message is needed.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, x, *, dim, group):
        ctx.dim, ctx.group = dim, group
        return _gathered(x, dim, group)

    @staticmethod
    def backward(ctx, grad_y):
        return ScatterToRanks.call(grad_y, dim=ctx.dim, group=ctx.group)


def _gathered(x, dim, group):
    """Return the arrays of all ranks, concatenated along an axis."""
    xp = array_module(x)
    whole = wrap(xp.empty((group.size(), *x.shape), x.dtype))
    collectives.all_gather_into_tensor(whole, wrap(x), group=group)
    return xp.concatenate(list(whole.array), axis=dim)


@names_arguments
def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """Return the sum or average of a tensor over the ranks. The graph records the operation.

    Parameters
    ----------
    tensor : Tensor
        This rank's contribution to the result.
    op : ReduceOp
        SUM or AVG.
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Returns
    -------
    Tensor of the same shape

    Notes
    -----
    The derivation is in `AllReduce`. The gradient is that of the sum of all ranks' losses. If all N
    ranks compute the same loss, this is N times the gradient of the loss, so use
    `reduce_from_ranks` instead.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.ones(3, requires_grad=True)
    >>> y = mt.distributed.functional.all_reduce(x)  # doctest: +SKIP
    """
    tensor, group = _taking_part(tensor, group, "all_reduce")
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ArgumentError(
            "functional.all_reduce: this op is not differentiable",
            got=f"{op}",
            expected="ReduceOp.SUM or ReduceOp.AVG",
            hint="use mt.distributed.all_reduce, which supports every op but has no backward pass",
        )
    y = AllReduce.apply(tensor, group=group)
    return y / group.size() if op is ReduceOp.AVG else y


@names_arguments
def broadcast(tensor, src=None, group=None, group_src=None):
    """Return a copy of rank `src`'s tensor on every rank. The graph records the operation.

    Parameters
    ----------
    tensor : Tensor
        The tensor to copy on rank `src`, and a tensor of the same shape on the other ranks, where
        its gradient is 0.
    src : int, optional
        Sender's rank in the run; by default the first rank of the group.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    group_src : int, optional
        Sender's rank in the group; an alternative to `src`.

    Returns
    -------
    Tensor of the same shape

    Notes
    -----
    The derivation is in `Broadcast`.
    """
    tensor, group = _taking_part(tensor, group, "broadcast")
    src = root_of(group, src, group_src, "functional.broadcast", "src")
    return Broadcast.apply(tensor, src=src, group=group)


@names_arguments
def reduce(tensor, dst=None, group=None, group_dst=None):
    """Return the sum of a tensor over the ranks on rank `dst`, and zeros on the other ranks.

    Parameters
    ----------
    tensor : Tensor
        This rank's contribution to the result.
    dst : int, optional
        Receiver's rank in the run; by default the first rank of the group.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    group_dst : int, optional
        Receiver's rank in the group; an alternative to `dst`.

    Returns
    -------
    Tensor of the same shape

    Notes
    -----
    The derivation is in `Reduce`. The other ranks must also run the backward pass, starting from
    their zeros.
    """
    tensor, group = _taking_part(tensor, group, "reduce")
    dst = root_of(group, dst, group_dst, "functional.reduce", "dst")
    return Reduce.apply(tensor, dst=dst, group=group)


@names_arguments
def all_gather(tensor, dim=0, group=None):
    """Concatenate the tensors of all ranks along the axis `dim`.

    Parameters
    ----------
    tensor : Tensor of shape (..., n, ...)
        This rank's part of the result.
    dim : int, default 0
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Returns
    -------
    Tensor of shape (..., ranks * n, ...)

    Notes
    -----
    The derivation is in `AllGather`. The gradient is that of the sum of all ranks' losses. If all N
    ranks compute the same loss, this is N times the gradient of the loss, so use
    `gather_from_ranks` instead.
    """
    tensor, group = _taking_part(tensor, group, "all_gather")
    return AllGather.apply(tensor, dim=axis_of(dim, tensor.ndim, "all_gather"), group=group)


@names_arguments
def reduce_scatter(tensor, dim=0, group=None):
    """Sum a tensor over the ranks, and return this rank's part of the sum along the axis `dim`.

    Parameters
    ----------
    tensor : Tensor of shape (..., ranks * n, ...)
        This rank's contribution to the result.
    dim : int, default 0
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Returns
    -------
    Tensor of shape (..., n, ...)

    Notes
    -----
    The derivation is in `ReduceScatter`.
    """
    tensor, group = _taking_part(tensor, group, "reduce_scatter")
    dim = _divisible(tensor, dim, group, "reduce_scatter")
    return ReduceScatter.apply(tensor, dim=dim, group=group)


@names_arguments
def all_to_all(tensor, split_dim=0, concat_dim=0, group=None):
    """Send part s along `split_dim` to rank s, and join the received parts along `concat_dim`.

    Parameters
    ----------
    tensor : Tensor
        This rank's tensor, whose part s is sent to rank s.
    split_dim, concat_dim : int, default 0
        Axis that is split into one part for each rank, and axis along which the parts are joined.
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Returns
    -------
    Tensor
        The joined parts. With N ranks, axis `split_dim` becomes N times shorter, and axis
        `concat_dim` becomes N times longer.

    Notes
    -----
    The derivation is in `AllToAll`.
    """
    tensor, group = _taking_part(tensor, group, "all_to_all")
    split = _divisible(tensor, split_dim, group, "all_to_all")
    join = axis_of(concat_dim, tensor.ndim, "all_to_all", "concat_dim")
    return AllToAll.apply(tensor, split=split, join=join, group=group)


@names_arguments
def copy_to_ranks(tensor, group=None):
    """Return the tensor unchanged; its gradient is summed over the ranks (Megatron-LM's f).

    Parameters
    ----------
    tensor : Tensor
        Tensor that must have the same values on all ranks.
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Returns
    -------
    Tensor of the same shape

    Notes
    -----
    The derivation is in `CopyToRanks`.
    """
    tensor, group = _taking_part(tensor, group, "copy_to_ranks")
    return CopyToRanks.apply(tensor, group=group)


@names_arguments
def reduce_from_ranks(tensor, group=None):
    """Sum a tensor over the ranks. The backward pass is the identity (Megatron-LM's g).

    Parameters
    ----------
    tensor : Tensor
        This rank's contribution to the result.
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Returns
    -------
    Tensor of the same shape
        The same values on all ranks. All ranks must compute the same loss from them.

    Notes
    -----
    The derivation is in `ReduceFromRanks`.
    """
    tensor, group = _taking_part(tensor, group, "reduce_from_ranks")
    return ReduceFromRanks.apply(tensor, group=group)


@names_arguments
def scatter_to_ranks(tensor, dim=-1, group=None):
    """Return this rank's part of a tensor along the axis `dim`.

    Parameters
    ----------
    tensor : Tensor of shape (..., ranks * n, ...)
        Tensor that must have the same values on all ranks.
    dim : int, default -1
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Returns
    -------
    Tensor of shape (..., n, ...)

    Notes
    -----
    The derivation is in `ScatterToRanks`.
    """
    tensor, group = _taking_part(tensor, group, "scatter_to_ranks")
    dim = _divisible(tensor, dim, group, "scatter_to_ranks")
    return ScatterToRanks.apply(tensor, dim=dim, group=group)


@names_arguments
def gather_from_ranks(tensor, dim=-1, group=None):
    """Concatenate the parts of all ranks along the axis `dim`.

    Parameters
    ----------
    tensor : Tensor of shape (..., n, ...)
        This rank's part of the result.
    dim : int, default -1
    group : ProcessGroup, optional
        Ranks that take part; by default all.

    Returns
    -------
    Tensor of shape (..., ranks * n, ...)
        The same values on all ranks. All ranks must compute the same loss from them.

    Notes
    -----
    The derivation is in `GatherFromRanks`.
    """
    tensor, group = _taking_part(tensor, group, "gather_from_ranks")
    dim = axis_of(dim, tensor.ndim, "gather_from_ranks")
    return GatherFromRanks.apply(tensor, dim=dim, group=group)


def _taking_part(tensor, group, name):
    """Return the checked tensor and group; raise an error if this rank is not in the group."""
    where = f"functional.{name}"
    found = resolve(group, where)
    if found is None:
        raise ArgumentError(
            f"{where}: this rank is not in the group", hint="call it only on the group's ranks"
        )
    tensor = as_operand(tensor, where, "tensor")
    found.engine.check(tensor.array, where)
    return tensor, found


def _divisible(tensor, dim, group, name):
    """Return the axis; raise an error if its size is not divisible by the number of ranks."""
    axis = axis_of(dim, tensor.ndim, name)
    if tensor.shape[axis] % group.size():
        raise ShapeError(
            f"functional.{name}: axis {axis} is not divisible by the number of ranks",
            got=f"{tensor.shape} for {group.size()} ranks",
        )
    return axis
