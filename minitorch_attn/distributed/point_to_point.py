"""Point-to-point messages between two ranks: send, recv, isend, irecv, batch_isend_irecv.

`send` returns when the program may change the tensor again. In some cases, this is only after the
other rank has received the tensor. If two ranks both call `send` before `recv`, they can therefore
wait for each other forever. Use `isend` instead, or `batch_isend_irecv`, which starts all its
messages at once.
"""

from ..errors import ArgumentError
from ..named_errors import names_arguments
from . import counting
from .collectives import member, root_of
from .process_group import get_rank
from .work import Buffer, Work, check_tensor

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


@names_arguments
def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Send a tensor to another rank, and return when the program may change the tensor again.

    Parameters
    ----------
    tensor : Tensor
    dst : int
        Receiver's rank in the run.
    group : ProcessGroup, optional
        Group that contains both ranks; by default all ranks.
    tag : int, default 0
        Number that identifies the message; `recv` must use the same number. NCCL does not have
        tags.
    group_dst : int, optional
        Receiver's rank in the group; an alternative to `dst`.
    """
    _send("send", tensor, dst, group, tag, group_dst, False)


@names_arguments
def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Start sending a tensor, which must not change until `work.wait()` returns.

    Parameters
    ----------
    tensor : Tensor
    dst : int
        Receiver's rank in the run.
    group : ProcessGroup, optional
        Group that contains both ranks; by default all ranks.
    tag : int, default 0
        Number that identifies the message.
    group_dst : int, optional
        Receiver's rank in the group; an alternative to `dst`.

    Returns
    -------
    Work
    """
    return _send("isend", tensor, dst, group, tag, group_dst, True)


def _send(where, tensor, dst, group, tag, group_dst, later):
    group = member(group, where)
    if group is None:
        return None
    dst = _partner(group, dst, group_dst, where, "dst")
    check_tensor(tensor, group, where, written=False)
    buffer = Buffer(tensor)
    counting.record("send", group, tensor.array, dst)
    request = group.engine.send(buffer.array, dst, tag, later=later)
    return _work(group, request, lambda _kept=buffer: None) if later else None


@names_arguments
def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receive a tensor from another rank.

    Parameters
    ----------
    tensor : Tensor
        Output, with the shape and dtype of the tensor that is sent.
    src : int, optional
        Sender's rank in the run; by default any rank, which NCCL does not support.
    group : ProcessGroup, optional
        Group that contains both ranks; by default all ranks.
    tag : int, default 0
        Number that identifies the message.
    group_src : int, optional
        Sender's rank in the group; an alternative to `src`.

    Returns
    -------
    int
        Sender's rank in the run; -1 on a rank that is not in the group.

    Raises
    ------
    ShapeError
        If the message does not have the size of the tensor.
    """
    found = member(group, "recv")
    if found is None:
        return -1
    source, buffer = _receiver(found, tensor, src, group_src, "recv")
    source = found.engine.recv(buffer.array, source, tag)
    buffer.write_back()
    return found.ranks[source]


@names_arguments
def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Start receiving a tensor, which is valid after `work.wait()`.

    Parameters
    ----------
    tensor : Tensor
        Output.
    src : int, optional
        Sender's rank in the run; by default any rank, which NCCL does not support.
    group : ProcessGroup, optional
        Group that contains both ranks; by default all ranks.
    tag : int, default 0
        Number that identifies the message.
    group_src : int, optional
        Sender's rank in the group; an alternative to `src`.

    Returns
    -------
    Work
    """
    group = member(group, "irecv")
    if group is None:
        return None
    source, buffer = _receiver(group, tensor, src, group_src, "irecv")
    request = group.engine.recv(buffer.array, source, tag, later=True)
    return _work(group, request, buffer.write_back)


def _receiver(group, tensor, src, group_src, where):
    source = None
    if src is not None or group_src is not None:
        source = _partner(group, src, group_src, where, "src")
    check_tensor(tensor, group, where)
    counting.record("recv", group, tensor.array, source)
    return source, Buffer(tensor)


def _work(group, request, finish):
    work = Work([request], finish)
    group.keep(work)
    return work


def _partner(group, rank, group_rank, where, argument):
    """Return the partner's rank in the group. Raise an error if this process is the partner."""
    if rank is None and group_rank is None:
        raise ArgumentError(f"{where}: {argument} is missing", expected="a rank of the run")
    partner = root_of(group, rank, group_rank, where, argument)
    if partner == group.rank():
        raise ArgumentError(
            f"{where}: {argument} must not be this rank",
            got=f"{argument}={group.ranks[partner]} on rank {get_rank()}",
            hint="copy the tensor with clone()",
        )
    return partner


class P2POp:
    """One message of `batch_isend_irecv`.

    Parameters
    ----------
    op : function
        `isend` or `irecv`.
    tensor : Tensor
    peer : int
        Rank of the other process (receiver or sender) in the run.
    group : ProcessGroup, optional
        Group that contains both ranks; by default all ranks.
    tag : int, default 0
        Number that identifies the message.
    """

    def __init__(self, op, tensor, peer, group=None, tag=0):
        if op is not isend and op is not irecv:
            raise ArgumentError("P2POp: op must be isend or irecv", got=f"{op!r:.60}")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag


@names_arguments
def batch_isend_irecv(p2p_op_list):
    """Start several messages together, in the order of the list.

    Parameters
    ----------
    p2p_op_list : list of P2POp

    Returns
    -------
    list of Work
    """
    if not p2p_op_list or not all(isinstance(item, P2POp) for item in p2p_op_list):
        raise ArgumentError(
            "batch_isend_irecv: p2p_op_list must be a non-empty list of P2POp",
            got=f"{p2p_op_list!r:.60}",
        )
    group = member(p2p_op_list[0].group, "batch_isend_irecv")
    if group is None:
        return []
    with group.engine.together():
        return [o.op(o.tensor, o.peer, group=o.group, tag=o.tag) for o in p2p_op_list]
