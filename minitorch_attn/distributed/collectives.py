"""Collectives (all_reduce, broadcast, all_gather, ...): calls that all ranks of a group make.

They have the same names as in `torch.distributed`. They work in place on tensors, and the graph
does not record them; the versions with a backward pass are in `functional.py`. Every rank of the
group must make the same calls in the same order, with tensors of the same shape and dtype. The
tensors need not be contiguous: if a tensor is not, a copy is sent, and the result is copied back.
"""

from enum import Enum

from ..backend import array_module
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from . import counting
from .process_group import rank_in, resolve
from .work import Buffer, check_tensor, finished

__all__ = [
    "ReduceOp", "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "gather", "member", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "root_of", "scatter",
]  # fmt: skip


class ReduceOp(Enum):
    """Operations that combine the values of the ranks in a reduction.

    `AVG` divides the sum by the number of ranks, and needs a floating-point dtype. For booleans,
    SUM and MAX compute "or", and PRODUCT and MIN compute "and". MPI sums float16 values in float32
    and rounds the result to float16.
    """

    SUM = "SUM"
    AVG = "AVG"
    MAX = "MAX"
    MIN = "MIN"
    PRODUCT = "PRODUCT"


class _Reduction:
    """Reduction of a tensor: the dtype, the operation and, for an average, the divisor."""

    def __init__(self, group, tensor, op, where):
        if not isinstance(op, ReduceOp):
            raise ArgumentError(
                f"{where}: op is not a ReduceOp",
                got=f"{op!r:.60}",
                expected=", ".join(f"ReduceOp.{member.name}" for member in ReduceOp),
            )
        dtype = tensor.array.dtype
        if op is ReduceOp.AVG and dtype.kind != "f":
            raise DTypeError(
                f"{where}: ReduceOp.AVG needs a floating-point dtype",
                got=f"{dtype}",
                hint="convert first, with x.float(), or use ReduceOp.SUM",
            )
        self.dtype = group.engine.reduction_dtype(dtype, where)
        self.divisor = group.size() if op is ReduceOp.AVG else 1
        self.name = "SUM" if op is ReduceOp.AVG else op.name
        if dtype == "bool":
            self.name = {"SUM": "MAX", "PRODUCT": "MIN"}.get(self.name, self.name)

    def finish(self, buffer):
        """Copy the result from `buffer` to its tensor. For an average, divide the sum first."""
        if self.divisor > 1:
            buffer.array /= self.divisor
        buffer.write_back()


def member(group, where):
    """Return the group. On a rank that is not in it, warn and return None, as PyTorch does."""
    found = resolve(group, where)
    if found is None:
        import warnings

        warnings.warn(f"{where}: this rank is not in the given group", stacklevel=4)
    return found


def root_of(group, root, group_root, where, argument):
    """Return the root's rank in the group, by default 0.

    `root` is a rank of the run, `group_root` a rank in the group. At most one may be given.
    """
    if root is not None and group_root is not None:
        raise ArgumentError(f"{where}: {argument} and group_{argument} must not both be given")
    if group_root is not None:
        if not isinstance(group_root, int) or not 0 <= group_root < group.size():
            raise ArgumentError(
                f"{where}: group_{argument} is out of range",
                got=f"{group_root!r}",
                expected=f"a rank from 0 to {group.size() - 1}",
            )
        return group_root
    return 0 if root is None else rank_in(group, root, where, argument)


@names_arguments
def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Replace a tensor on every rank with its sum (or another reduction) over the ranks.

    Parameters
    ----------
    tensor : Tensor
        Input and output.
    op : ReduceOp
        Reduction, by default `ReduceOp.SUM`.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once. The result is valid after `work.wait()`.

    Returns
    -------
    Work if `async_op`, otherwise None

    Raises
    ------
    DTypeError
        For `ReduceOp.AVG` of integers or booleans.
    GraphError
        If the tensor is the result of a recorded operation.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([1.0, 2.0])
    >>> mt.distributed.all_reduce(x)  # doctest: +SKIP
    """
    group = member(group, "all_reduce")
    if group is None:
        return None
    check_tensor(tensor, group, "all_reduce")
    reduction = _Reduction(group, tensor, op, "all_reduce")
    buffer = Buffer(tensor, reduction.dtype)
    counting.record("all_reduce", group, tensor.array)
    request = group.engine.all_reduce(buffer.array, reduction.name, later=async_op)
    return finished(group, request, lambda: reduction.finish(buffer), async_op)


@names_arguments
def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Replace a tensor on rank `dst` with its reduction over the ranks.

    Parameters
    ----------
    tensor : Tensor
        Input; on rank `dst` also the output. On the other ranks, the tensor does not change.
    dst : int, optional
        Receiver's rank in the run; by default the first rank of the group.
    op : ReduceOp
        Reduction, by default `ReduceOp.SUM`.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.
    group_dst : int, optional
        Receiver's rank in the group; an alternative to `dst`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    group = member(group, "reduce")
    if group is None:
        return None
    dst = root_of(group, dst, group_dst, "reduce", "dst")
    check_tensor(tensor, group, "reduce", written=group.rank() == dst)
    reduction = _Reduction(group, tensor, op, "reduce")
    buffer = Buffer(tensor, reduction.dtype)
    counting.record("reduce", group, tensor.array, dst)
    request = group.engine.reduce(buffer.array, dst, reduction.name, later=async_op)

    def finish():
        if group.rank() == dst:
            reduction.finish(buffer)

    return finished(group, request, finish, async_op)


@names_arguments
def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copy the tensor on rank `src` into the tensor of every rank.

    Parameters
    ----------
    tensor : Tensor
        Input on rank `src`, output on the others.
    src : int, optional
        Sender's rank in the run; by default the first rank of the group.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.
    group_src : int, optional
        Sender's rank in the group; an alternative to `src`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    group = member(group, "broadcast")
    if group is None:
        return None
    src = root_of(group, src, group_src, "broadcast", "src")
    check_tensor(tensor, group, "broadcast", written=group.rank() != src)
    buffer = Buffer(tensor)
    counting.record("broadcast", group, tensor.array, src)
    request = group.engine.broadcast(buffer.array, src, later=async_op)

    def finish():
        if group.rank() != src:
            buffer.write_back()

    return finished(group, request, finish, async_op)


@names_arguments
def all_gather_into_tensor(output, input, group=None, async_op=False):
    """Collect the tensors of all ranks in one tensor, along its first axis.

    Parameters
    ----------
    output : Tensor of shape (ranks * n, ...) or (ranks, n, ...)
        Receives the tensor on rank 0, then the tensor on rank 1, and so on.
    input : Tensor of shape (n, ...)
        This rank's tensor.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    where = "all_gather_into_tensor"
    group = member(group, where)
    if group is None:
        return None
    _check_parts(output, input, group, where, "output", "input", True)
    whole, part = Buffer(output), Buffer(input)
    counting.record("all_gather", group, input.array)
    request = group.engine.all_gather(whole.array, part.array, later=async_op)
    return finished(group, request, _keeping(part, whole.write_back), async_op)


@names_arguments
def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Collect the tensors of all ranks in a list of tensors.

    Parameters
    ----------
    tensor_list : list of Tensor
        Outputs; entry r receives the tensor on rank r.
    tensor : Tensor
        This rank's tensor.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    group = member(group, "all_gather")
    if group is None:
        return None
    check_tensor(tensor, group, "all_gather", written=False)
    _check_list(tensor_list, tensor, group, "all_gather", "tensor_list", True)
    part = Buffer(tensor)
    whole = _joint(tensor, group)
    counting.record("all_gather", group, tensor.array)
    request = group.engine.all_gather(whole, part.array, later=async_op)
    return finished(group, request, _keeping(part, lambda: _spread(whole, tensor_list)), async_op)


@names_arguments
def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce a tensor over N ranks; each rank receives one of N equal parts of the result.

    Parameters
    ----------
    output : Tensor of shape (n, ...)
        Receives part r of the reduction on rank r.
    input : Tensor of shape (ranks * n, ...) or (ranks, n, ...)
        This rank's term of the reduction.
    op : ReduceOp
        Reduction, by default `ReduceOp.SUM`.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    where = "reduce_scatter_tensor"
    group = member(group, where)
    if group is None:
        return None
    _check_parts(input, output, group, where, "input", "output", False)
    reduction = _Reduction(group, output, op, where)
    whole, part = Buffer(input, reduction.dtype), Buffer(output, reduction.dtype)
    counting.record("reduce_scatter", group, input.array)
    request = group.engine.reduce_scatter(part.array, whole.array, reduction.name, later=async_op)
    return finished(group, request, _keeping(whole, lambda: reduction.finish(part)), async_op)


@names_arguments
def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce each entry of a list of tensors over the ranks; rank r receives the reduced entry r.

    Parameters
    ----------
    output : Tensor
        Receives the reduction of entry r on rank r.
    input_list : list of Tensor
        One tensor for each rank, of the shape of `output`.
    op : ReduceOp
        Reduction, by default `ReduceOp.SUM`.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    group = member(group, "reduce_scatter")
    if group is None:
        return None
    check_tensor(output, group, "reduce_scatter", "output")
    _check_list(input_list, output, group, "reduce_scatter", "input_list", False)
    reduction = _Reduction(group, output, op, "reduce_scatter")
    whole = _stacked(input_list).astype(reduction.dtype, copy=False)
    part = Buffer(output, reduction.dtype)
    counting.record("reduce_scatter", group, whole)
    request = group.engine.reduce_scatter(part.array, whole, reduction.name, later=async_op)
    return finished(group, request, _keeping(whole, lambda: reduction.finish(part)), async_op)


@names_arguments
def all_to_all_single(
    output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False
):
    """Send part s of a tensor to rank s, and receive one part from every rank.

    Parameters
    ----------
    output : Tensor of shape (n_out, ...)
        Receives the parts from rank 0, rank 1, ... along the first axis.
    input : Tensor of shape (n_in, ...)
        Parts for rank 0, rank 1, ... along the first axis.
    output_split_sizes, input_split_sizes : list of int, optional
        Sizes of the parts along the first axis; by default equal parts.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    where = "all_to_all_single"
    group = member(group, where)
    if group is None:
        return None
    check_tensor(output, group, where, "output")
    check_tensor(input, group, where, "input", written=False)
    _check_dtypes(output, input, where)
    received = _split_elements(output, output_split_sizes, group, where, "output")
    sent = _split_elements(input, input_split_sizes, group, where, "input")
    into, out = Buffer(output), Buffer(input)
    counting.record("all_to_all", group, input.array, sizes=sent)
    request = group.engine.all_to_all(into.array, out.array, received, sent, later=async_op)
    return finished(group, request, _keeping(out, into.write_back), async_op)


@names_arguments
def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Send entry s of a list of tensors to rank s, and receive one tensor from every rank.

    Parameters
    ----------
    output_tensor_list : list of Tensor
        Entry s receives the tensor from rank s. The shapes may differ.
    input_tensor_list : list of Tensor
        Entry s is sent to rank s.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    group = member(group, "all_to_all")
    if group is None:
        return None
    outputs, inputs = output_tensor_list, input_tensor_list
    for name, tensors in (("output_tensor_list", outputs), ("input_tensor_list", inputs)):
        _check_length(tensors, group, "all_to_all", name)
        for i, tensor in enumerate(tensors):
            written = tensors is outputs
            check_tensor(tensor, group, "all_to_all", f"{name}[{i}]", written)
            _check_dtypes(tensor, inputs[0], "all_to_all")
    flat = [Buffer(tensor).array.reshape(-1) for tensor in inputs]
    xp = array_module(*flat)
    out = xp.concatenate(flat)
    sizes, sent = [x.array.size for x in outputs], [x.array.size for x in inputs]
    into = xp.empty(sum(sizes), out.dtype)
    counting.record("all_to_all", group, out, sizes=sent)
    request = group.engine.all_to_all(into, out, sizes, sent, later=async_op)
    return finished(group, request, _keeping(out, lambda: _spread(into, outputs)), async_op)


@names_arguments
def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Collect the tensors of all ranks in a list on rank `dst`.

    Parameters
    ----------
    tensor : Tensor
        This rank's tensor.
    gather_list : list of Tensor, optional
        One output for each rank. Only rank `dst` passes this list.
    dst : int, optional
        Receiver's rank in the run; by default the first rank of the group.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.
    group_dst : int, optional
        Receiver's rank in the group; an alternative to `dst`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    group = member(group, "gather")
    if group is None:
        return None
    dst = root_of(group, dst, group_dst, "gather", "dst")
    check_tensor(tensor, group, "gather", written=False)
    whole = None
    if _list_at_root(gather_list, group, dst, "gather", "gather_list"):
        _check_list(gather_list, tensor, group, "gather", "gather_list", True)
        whole = _joint(tensor, group)
    part = Buffer(tensor)
    counting.record("gather", group, tensor.array, dst)
    request = group.engine.gather(whole, part.array, dst, later=async_op)
    finish = _keeping(part, lambda: None if whole is None else _spread(whole, gather_list))
    return finished(group, request, finish, async_op)


@names_arguments
def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Send entry r of a list of tensors on rank `src` to rank r.

    Parameters
    ----------
    tensor : Tensor
        Output; receives entry r on rank r.
    scatter_list : list of Tensor, optional
        One input for each rank. Only rank `src` passes this list.
    src : int, optional
        Sender's rank in the run; by default the first rank of the group.
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.
    group_src : int, optional
        Sender's rank in the group; an alternative to `src`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    group = member(group, "scatter")
    if group is None:
        return None
    src = root_of(group, src, group_src, "scatter", "src")
    check_tensor(tensor, group, "scatter")
    whole = None
    if _list_at_root(scatter_list, group, src, "scatter", "scatter_list"):
        _check_list(scatter_list, tensor, group, "scatter", "scatter_list", False)
        whole = _stacked(scatter_list)
    part = Buffer(tensor)
    counting.record("scatter", group, tensor.array, src)
    request = group.engine.scatter(part.array, whole, src, later=async_op)
    return finished(group, request, _keeping(whole, part.write_back), async_op)


@names_arguments
def barrier(group=None, async_op=False):
    """Wait until every rank of the group has called `barrier`.

    Parameters
    ----------
    group : ProcessGroup, optional
        Ranks that take part; by default all.
    async_op : bool
        Whether to return a Work at once; see `all_reduce`.

    Returns
    -------
    Work if `async_op`, otherwise None
    """
    group = member(group, "barrier")
    if group is None:
        return None
    request = group.engine.barrier(later=async_op)
    return finished(group, request, lambda: None, async_op)


def _keeping(buffer, finish):
    """Return a function that calls `finish`.

    As long as this function exists, the memory of `buffer` is not freed.
    """

    def call(_kept=buffer):
        finish()

    return call


def _joint(tensor, group):
    """Return an uninitialized array with space for the tensors of all ranks."""
    return array_module(tensor.array).empty((group.size(), *tensor.shape), tensor.array.dtype)


def _stacked(tensors):
    arrays = [tensor.array for tensor in tensors]
    return array_module(*arrays).stack(arrays)


def _spread(whole, tensors):
    """Copy consecutive pieces of an array into the tensors of a list."""
    flat, start = whole.reshape(-1), 0
    for tensor in tensors:
        size = tensor.array.size
        tensor.array[...] = flat[start : start + size].reshape(tensor.shape)
        tensor.changed_in_place()
        start += size


def _check_dtypes(one, other, where):
    if one.array.dtype != other.array.dtype:
        raise DTypeError(
            f"{where}: input and output have different dtypes",
            got=f"{one.array.dtype} and {other.array.dtype}",
        )


def _check_parts(whole, part, group, where, whole_name, part_name, whole_written):
    """Check that `whole` has N times the size of `part`, for an all-gather or reduce-scatter."""
    check_tensor(whole, group, where, whole_name, whole_written)
    check_tensor(part, group, where, part_name, not whole_written)
    _check_dtypes(whole, part, where)
    if whole.array.size != part.array.size * group.size():
        raise ShapeError(
            f"{where}: {whole_name} must have the size of {part_name} times the number of ranks",
            got=f"{whole_name} {whole.shape} and {part_name} {part.shape}",
            expected=f"{whole_name} with {group.size()} times {part.array.size} elements",
        )


def _check_length(tensors, group, where, argument):
    if not isinstance(tensors, (list, tuple)) or len(tensors) != group.size():
        is_list = isinstance(tensors, (list, tuple))
        raise ArgumentError(
            f"{where}: {argument} must be a list with one tensor for each rank of the group",
            got=f"{len(tensors)} entries" if is_list else f"a {type(tensors).__name__}",
            expected=f"{group.size()} tensors",
        )


def _check_list(tensors, like, group, where, argument, written):
    """Check a list of tensors, one per rank, each with the shape and dtype of `like`."""
    _check_length(tensors, group, where, argument)
    for i, tensor in enumerate(tensors):
        check_tensor(tensor, group, where, f"{argument}[{i}]", written)
        _check_dtypes(tensor, like, where)
        if tensor.shape != like.shape:
            raise ShapeError(
                f"{where}: {argument}[{i}] has the wrong shape",
                got=f"{tensor.shape}",
                expected=f"{like.shape}",
            )


def _list_at_root(tensors, group, root, where, argument):
    """Return True on the root. Raise an error unless the list is given on the root only."""
    if (tensors is not None) is not (group.rank() == root):
        raise ArgumentError(
            f"{where}: {argument} must be given on the root and nowhere else",
            got=f"{'a list' if tensors is not None else 'None'} on rank {group.rank()}",
            expected=f"a list on rank {root} of the group only",
        )
    return tensors is not None


def _split_elements(tensor, sizes, group, where, argument):
    """Return the total number of elements of each part of a tensor split along its first axis."""
    ranks, shape = group.size(), tensor.shape or (1,)
    if sizes is None:
        if shape[0] % ranks:
            raise ShapeError(
                f"{where}: the first axis of {argument} is not divisible by the number of ranks",
                got=f"{tensor.shape} for {ranks} ranks",
                hint=f"pass {argument}_split_sizes",
            )
        sizes = [shape[0] // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != shape[0] or min(sizes) < 0:
        raise ShapeError(
            f"{where}: {argument}_split_sizes does not match the tensor",
            got=f"{list(sizes)} for {tensor.shape} and {ranks} ranks",
            expected=f"{ranks} sizes whose sum is {shape[0]}",
        )
    row = tensor.array.size // shape[0] if shape[0] else 0
    return [size * row for size in sizes]
