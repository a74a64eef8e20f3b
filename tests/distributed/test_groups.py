"""Process groups: ranks, sub-groups, messages between two ranks, objects, and errors."""

import subprocess
import sys
import warnings

import pytest
from distributed.ranks import environment, needs_mpi, run_ranks

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DeviceError, DTypeError, GraphError, ShapeError

dist = mt.distributed
OUTSIDE = dist.GroupMember.NON_GROUP_MEMBER


def total(group):
    """Sum of rank + 1 over a group."""
    x = mt.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(x, group=group)
    return x.item()


def check_groups():
    dist.init_process_group("mpi")
    rank, n = dist.get_rank(), dist.get_world_size()
    assert n == 4 and dist.group.WORLD.size() == 4 and dist.get_backend() == "mpi"
    low, odd = dist.new_group([1, 0]), dist.new_group([1, 3])
    assert (low == OUTSIDE) is (rank > 1) and (odd == OUTSIDE) is (rank % 2 == 0)
    assert dist.get_rank(low) == (rank if rank < 2 else -1)
    assert dist.get_world_size(odd) == (2 if rank % 2 else -1)
    if rank < 2:
        assert total(low) == 3 and dist.get_process_group_ranks(low) == [0, 1]
    if rank % 2:
        assert total(odd) == 6
        assert dist.get_group_rank(odd, 3) == 1 and dist.get_global_rank(odd, 1) == 3
        x = mt.tensor([float(rank)])
        dist.broadcast(x, src=3, group=odd)  # a rank of the run
        assert x.item() == 3
        x = mt.tensor([float(rank)])
        dist.broadcast(x, group=odd, group_src=0)  # a rank of the group
        assert x.item() == 1
        with pytest.raises(ArgumentError, match="src is not a rank of the group"):
            dist.broadcast(x, src=0, group=odd)
        y = dist.functional.all_gather(mt.tensor([float(rank)]), group=odd)
        assert y.tolist() == [1, 3]
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert dist.all_reduce(mt.ones(2), group=odd) is None
        assert "not in the given group" in str(caught[0].message)
        assert caught[0].filename == __file__
        with pytest.raises(ArgumentError, match="this rank is not in the group"):
            dist.functional.all_reduce(mt.ones(2), group=odd)
    assert total(None) == 10
    if rank < 2:
        dist.destroy_process_group(low)
        with pytest.raises(ArgumentError, match="has been destroyed"):
            total(low)
    assert total(None) == 10
    everyone = dist.new_group()
    assert total(everyone) == 10
    dist.destroy_process_group()
    with pytest.raises(ArgumentError, match="has been destroyed|has not been initialized"):
        total(everyone)
    dist.init_process_group()  # again, in the same process
    assert total(None) == 10
    with pytest.raises(ArgumentError, match="has been destroyed"):
        total(everyone)


def test_groups():
    run_ranks(4, check_groups)


def check_messages():
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    mine, theirs = mt.full((3,), float(rank)), mt.zeros(3)
    if rank == 0:
        dist.send(mine, right)
        assert dist.recv(theirs, left) == left
    else:
        assert dist.recv(theirs, left) == left
        dist.send(mine, right)
    assert theirs.tolist() == [left] * 3
    one, two = mt.zeros(2), mt.zeros(2)
    works = [dist.isend(mt.ones(2), right, tag=1), dist.isend(mt.ones(2) * 2, right, tag=2),
             dist.irecv(two, left, tag=2), dist.irecv(one, left, tag=1)]  # fmt: skip
    assert all(work.wait() for work in works)
    assert one.tolist() == [1, 1] and two.tolist() == [2, 2]
    big, received = mt.full((200_000,), float(rank)), mt.zeros(400_000)[::2]
    ops = [dist.P2POp(dist.isend, big, right), dist.P2POp(dist.irecv, received, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert (received == left).all()
    if rank == 0:  # from any rank, in any order
        sources = [dist.recv(theirs) for _ in range(n - 1)]
        assert sorted(sources) == list(range(1, n))
    else:
        dist.send(mine, 0)
    # A message of another size is an error, and not silently cut or padded.
    if rank == 0:
        dist.send(mt.ones(2), 1)
        dist.send(mt.ones(4), 1)
    if rank == 1:
        with pytest.raises(ShapeError, match="does not have the size"):
            dist.recv(mt.ones(3), 0)
        with pytest.raises(ShapeError, match="tensors of different sizes"):
            dist.recv(mt.ones(3), 0)
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank, "text": "ä" * rank, "list": [1.5, None, True]})
    assert [o["rank"] for o in objects] == list(range(n)) and objects[2]["text"] == "ää"
    assert objects[1]["list"] == [1.5, None, True]
    objects = [rank, {"a": [rank]}]
    dist.broadcast_object_list(objects, src=n - 1)
    assert objects == [n - 1, {"a": [n - 1]}]
    with pytest.raises(DTypeError, match="JSON cannot express the object"):
        dist.all_gather_object([None] * n, object())
    with pytest.raises(ArgumentError, match="dst must not be this rank"):
        dist.send(mine, rank)


def test_messages_and_objects():
    run_ranks(3, check_messages, last=True)


def check_errors():
    for call in (dist.get_rank, dist.get_world_size, lambda: dist.all_reduce(mt.ones(2)),
                 dist.barrier, dist.new_group, dist.destroy_process_group):  # fmt: skip
        with pytest.raises(ArgumentError, match="has not been initialized"):
            call()
    assert not dist.is_initialized() and dist.group.WORLD is None
    with pytest.raises(ArgumentError, match="the backend is unknown"):
        dist.init_process_group("gloo")
    with pytest.raises(DeviceError, match="CUDA is unavailable"):
        dist.init_process_group("nccl")
    with pytest.raises(ArgumentError, match="world_size does not match the run"):
        dist.init_process_group(world_size=7)
    with pytest.raises(ArgumentError, match="does not support init_method"):
        dist.init_process_group("mpi", "env://")
    dist.init_process_group(world_size=2)
    rank = dist.get_rank()
    with pytest.raises(ArgumentError, match="already exists"):
        dist.init_process_group()
    for ranks in ([], [0, 0], [2], [-1]):
        with pytest.raises(ArgumentError, match="ranks must be distinct"):
            dist.new_group(ranks)
    x, integers = mt.ones(2), mt.tensor([1, 2])
    cases = [
        (DTypeError, "tensor is not a tensor", lambda: dist.all_reduce([1.0])),
        (DTypeError, "AVG needs a floating", lambda: dist.all_reduce(integers, dist.ReduceOp.AVG)),
        (ArgumentError, "op is not a ReduceOp", lambda: dist.all_reduce(x, "sum")),
        (ArgumentError, "src is not a rank", lambda: dist.broadcast(x, 2)),
        (ArgumentError, "group_src is out of range", lambda: dist.broadcast(x, group_src=2)),
        (ArgumentError, "must not both", lambda: dist.broadcast(x, 0, group_src=0)),
        (DTypeError, "group is not a ProcessGroup", lambda: dist.all_reduce(x, group=[0, 1])),
        (ArgumentError, "one tensor for each rank", lambda: dist.all_gather([x], x)),
        (ArgumentError, "one tensor for each rank", lambda: dist.all_gather(x, x)),
        (ShapeError, r"list\[1\] has the wrong", lambda: dist.all_gather([x, mt.ones(3)], x)),
        (DTypeError, "different dtypes", lambda: dist.all_gather([integers, integers], x)),
        (ShapeError, "size of input times", lambda: dist.all_gather_into_tensor(mt.ones(3), x)),
        (ShapeError, "size of output times", lambda: dist.reduce_scatter_tensor(x, x)),
        (ShapeError, "not divisible", lambda: dist.all_to_all_single(mt.ones(3), mt.ones(3))),
        (ShapeError, "input_split_sizes does not",
         lambda: dist.all_to_all_single(x, x, input_split_sizes=[2, 1])),
        (ArgumentError, "on the root and nowhere", lambda: dist.gather(x, None, dst=rank)),
        (ArgumentError, "on the root and nowhere", lambda: dist.scatter(x, [x, x], src=1 - rank)),
        (ArgumentError, "dst is missing", lambda: dist.send(x)),
        (ArgumentError, "op must be isend", lambda: dist.P2POp(dist.send, x, 0)),
        (ArgumentError, "non-empty list", lambda: dist.batch_isend_irecv([])),
        (DeviceError, "on the CPU only", lambda: dist.all_reduce(mt.ones(2, device="strict"))),
        (ArgumentError, "not differentiable",
         lambda: dist.functional.all_reduce(x, dist.ReduceOp.MAX)),
        (ShapeError, "not divisible", lambda: dist.functional.reduce_scatter(mt.ones(3))),
        (ShapeError, "ring_all_gather", lambda: dist.ring_all_gather(x, x)),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
    with pytest.raises(AttributeError, match="no attribute 'all_reduced'"):
        dist.all_reduced  # noqa: B018
    # As in PyTorch, a leaf that requires grad may be changed, outside the graph.
    weight = mt.tensor([1.0, 2.0], requires_grad=True)
    dist.all_reduce(weight)
    assert weight.is_leaf and weight.tolist() == [2, 4] and weight.grad_fn is None
    y = weight * 2
    with pytest.raises(GraphError, match="result of an operation"):
        dist.all_reduce(y)
    with mt.no_grad():
        dist.all_reduce(y)
    assert y.tolist() == [8, 16]
    square = weight * weight
    dist.broadcast(weight, 0)
    if rank == 1:  # the backward pass needs the old values
        with pytest.raises(GraphError, match="changed in place"):
            square.sum().backward()
    dist.all_reduce(square.detach())
    assert total(None) == 3  # after all errors, the ranks still agree


def test_errors():
    run_ranks(2, check_errors)


@needs_mpi
def test_a_process_without_mpiexec_is_a_run_of_one_rank():
    code = (
        "import minitorch_attn as mt; d = mt.distributed; d.init_process_group()\n"
        "x = mt.ones(3, requires_grad=True)\n"
        "d.functional.all_reduce(x).sum().backward()\n"
        "y = mt.zeros(3); d.all_gather_into_tensor(y, x); d.barrier()\n"
        "print(d.get_rank(), d.get_world_size(), x.grad.tolist(), y.tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          env=environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 1 [1.0, 1.0, 1.0] [1.0, 1.0, 1.0]\n" and done.stderr == ""


def test_mpi_is_unavailable_without_mpi4py(monkeypatch):
    from minitorch_attn.distributed import mpi
    from minitorch_attn.errors import CommunicationError

    monkeypatch.setattr(mpi, "_known", {})
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert dist.is_mpi_available() is False
    with pytest.raises(CommunicationError, match="mpi4py is not installed") as error:
        dist.init_process_group("mpi")
    assert "minitorch-attn[mpi]" in error.value.hint


@needs_mpi
def test_mpi_is_available_with_it():
    assert dist.is_mpi_available() is True and dist.is_available() is True
