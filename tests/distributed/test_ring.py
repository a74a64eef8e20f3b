"""The ring algorithms equal the engine's, and send as many bytes as `counting` says."""

import numpy as np
import pytest
from distributed.ranks import run_ranks

import minitorch_attn as mt

dist = mt.distributed


def values(rank, shape):
    return np.random.default_rng([4, rank]).standard_normal(shape)


def check_ring():
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    for shape in ((17,), (3, 5), (), (0,), (1,), (2,), (4, 2)):
        for op in dist.ReduceOp:
            x = mt.tensor(values(rank, shape))
            y = x.clone()
            with dist.count_messages() as by_ring:
                dist.ring_all_reduce(x, op)
            with dist.count_messages() as by_engine:
                dist.all_reduce(y, op)
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-12)
            sent, formula = by_ring["send"], by_engine["all_reduce"]
            assert sent.messages == formula.messages == 2 * (n - 1)
            assert sent.bytes == formula.bytes == by_ring.bytes, shape
            if x.numel() % n == 0:
                assert sent.bytes * n == 2 * (n - 1) * x.nbytes
    strided = mt.tensor(values(rank, (5, 4))).T
    y = strided.clone()
    dist.ring_all_reduce(strided)
    dist.all_reduce(y)
    np.testing.assert_allclose(strided.numpy(), y.numpy(), rtol=1e-12)
    integers = mt.tensor(np.arange(5) + rank)
    dist.ring_all_reduce(integers, dist.ReduceOp.MAX)
    assert integers.tolist() == [i + n - 1 for i in range(5)]

    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MIN):
        whole = mt.tensor(values(rank, (n, 3)))
        before = whole.clone()
        one, other = mt.zeros(3, dtype=mt.float64), mt.zeros(3, dtype=mt.float64)
        with dist.count_messages() as by_ring:
            dist.ring_reduce_scatter(one, whole, op)
        with dist.count_messages() as by_engine:
            dist.reduce_scatter_tensor(other, whole, op)
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
        assert (whole == before).all()
        assert by_ring.bytes == by_engine.bytes == (n - 1) * 24
    part, whole = mt.tensor(values(rank, (3,))), mt.zeros(n, 3, dtype=mt.float64)
    with dist.count_messages() as by_ring:
        dist.ring_all_gather(whole, part)
    np.testing.assert_array_equal(whole.numpy(), np.stack([values(r, (3,)) for r in range(n)]))
    with dist.count_messages() as by_engine:
        dist.all_gather_into_tensor(whole, part)
    assert by_ring.bytes == by_engine.bytes == (n - 1) * 24
    assert by_ring.messages == by_engine.messages == n - 1


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_ring(n):
    run_ranks(n, check_ring)


def check_counts():
    """Count every kind of call on this rank; return the bytes, messages and payload by kind."""
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    x, whole = mt.ones(6), mt.ones(n, 6)  # 24 bytes, and n times 24
    with dist.count_messages() as traffic:
        dist.broadcast(x, 1)
        dist.reduce(x, 1)
        dist.gather(x, list(whole) if rank == 1 else None, 1)
        dist.scatter(x, list(whole) if rank == 1 else None, 1)
        dist.all_to_all_single(whole.clone(), whole)
        with dist.count_messages() as inner:
            dist.all_reduce(x, async_op=True).wait()
            dist.functional.all_gather(x)
        dist.barrier()
        if rank == 0:
            dist.send(x, 2)
        if rank == 2:
            dist.recv(x, 0)
    dist.all_reduce(x)  # after the block: not counted
    assert sorted(inner.kinds) == ["all_gather", "all_reduce"] and inner.calls == 2
    assert traffic["all_reduce"] == inner["all_reduce"] and traffic["broadcast"].calls == 1
    assert traffic.bytes == sum(count.bytes for count in traffic.kinds.values())
    assert str(traffic).splitlines()[-1].split()[:2] == ["total", str(traffic.calls)]
    return {k: [c.bytes, c.messages, c.payload] for k, c in traffic.kinds.items()}


def test_counts_of_every_kind():
    found = run_ranks(3, check_counts)
    assert [f["broadcast"] for f in found] == [[0, 0, 24], [24, 1, 24], [24, 1, 24]]  # 1, 2, 0
    assert [f["reduce"] for f in found] == [[24, 1, 24], [0, 0, 24], [24, 1, 24]]
    assert [f["gather"] for f in found] == [[24, 1, 24], [0, 0, 24], [24, 1, 24]]
    assert [f["scatter"] for f in found] == [[0, 0, 24], [48, 2, 24], [0, 0, 24]]
    assert [f["all_to_all"] for f in found] == [[48, 2, 72]] * 3
    assert [f["all_reduce"] for f in found] == [[32, 4, 24]] * 3
    assert [f["all_gather"] for f in found] == [[48, 2, 24]] * 3
    assert [f.get("send") for f in found] == [[24, 1, 24], None, None]
    assert [f.get("recv") for f in found] == [None, None, [0, 0, 24]]


def test_parts_of_uneven_sizes():
    assert dist.part_sizes(11, 4) == [3, 3, 3, 2] and dist.part_sizes(2, 3) == [1, 1, 0]
    for count in (0, 1, 7, 12):
        for parts in (1, 2, 5):
            joined = [i for part in dist.part_slices(count, parts) for i in range(count)[part]]
            assert joined == list(range(count))
