"""Collectives on 1 to 4 ranks, each against a NumPy computation of what all ranks hold."""

import numpy as np
import pytest
from distributed.ranks import run_ranks

import minitorch_attn as mt

dist = mt.distributed


def values(rank, shape, seed=0):
    """What rank `rank` holds: every rank can compute it for all ranks."""
    return np.random.default_rng([seed, rank]).standard_normal(shape)


def check_reductions():
    dist.init_process_group("mpi")
    rank, n = dist.get_rank(), dist.get_world_size()
    op = dist.ReduceOp
    numpy_ops = {op.SUM: np.sum, op.AVG: np.mean, op.MAX: np.max, op.MIN: np.min,
                 op.PRODUCT: np.prod}  # fmt: skip
    for shape in ((7, 5), (), (0, 3), (1,), (2,)):
        everyone = np.stack([values(r, shape) for r in range(n)])
        for kind, reduce in numpy_ops.items():
            x = mt.tensor(values(rank, shape))
            assert dist.all_reduce(x, kind) is None
            np.testing.assert_allclose(x.numpy(), reduce(everyone, axis=0), rtol=1e-13)
            for dst in range(n):
                x = mt.tensor(values(rank, shape))
                dist.reduce(x, dst, kind)
                expected = reduce(everyone, axis=0) if rank == dst else values(rank, shape)
                np.testing.assert_allclose(x.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_reductions(n):
    run_ranks(n, check_reductions)


def check_dtypes():
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    for dtype in ("float64", "float32", "int64", "int32", "int8", "uint8"):
        x = mt.tensor(np.arange(5, dtype=dtype) + np.array(rank, dtype=dtype))
        dist.all_reduce(x)
        assert x.dtype == dtype
        assert x.tolist() == [i * n + n * (n - 1) // 2 for i in range(5)]
    half = np.float16([0.1, 1000.0, 3e-5])
    x = mt.tensor(half * (rank + 1))
    dist.all_reduce(x)
    exact = sum((half * np.float16(r + 1)).astype("float32") for r in range(n))
    assert x.dtype == "float16" and (x.numpy() == exact.astype("float16")).all()
    x = mt.tensor(half)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert (x.numpy() == half).all()
    everyone = np.array([[True, r > 0, r == n - 1, False] for r in range(n)])
    for op, expected in (("SUM", everyone.any(0)), ("MAX", everyone.any(0)),
                         ("PRODUCT", everyone.all(0)), ("MIN", everyone.all(0))):  # fmt: skip
        x = mt.tensor(everyone[rank])
        dist.all_reduce(x, dist.ReduceOp[op])
        assert x.dtype == "bool" and (x.numpy() == expected).all(), op
        assert (x.numpy().view("uint8") == expected).all(), op  # True is the byte 1, not 2 or 3
        x = mt.tensor(everyone[rank][::-1].copy()[::-1])  # strided
        dist.all_reduce(x, dist.ReduceOp[op])
        assert (x.numpy() == expected).all(), op
    for dtype in ("float16", "bool", "int8"):  # moved as bytes, whatever they mean
        x = mt.tensor(np.array([rank + 1, 0, 1]).astype(dtype))
        dist.broadcast(x, n - 1)
        assert (x.numpy() == np.array([n, 0, 1]).astype(dtype)).all()


@pytest.mark.parametrize("n", [1, 3])
def test_dtypes(n):
    run_ranks(n, check_dtypes)


def check_movement():
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    for shape in ((3, 5), (), (0, 2), (1,), (2, 1)):
        everyone = [values(r, shape, seed=1) for r in range(n)]
        mine = everyone[rank]
        for root in range(n):
            x = mt.tensor(mine)
            dist.broadcast(x, root)
            np.testing.assert_array_equal(x.numpy(), everyone[root])
            x, parts = mt.zeros(*shape, dtype=mt.float64), None
            if rank == root:
                parts = [mt.tensor(values(r, shape, seed=2 + root)) for r in range(n)]
            dist.scatter(x, parts, src=root)
            np.testing.assert_array_equal(x.numpy(), values(rank, shape, seed=2 + root))
            out = blanks(n, shape) if rank == root else None
            dist.gather(mt.tensor(mine), out, dst=root)
            if rank == root:
                same(out, everyone)
        out = blanks(n, shape)
        dist.all_gather(out, mt.tensor(mine))
        same(out, everyone)
        out = mt.zeros(n, *shape, dtype=mt.float64)
        dist.all_gather_into_tensor(out, mt.tensor(mine))
        np.testing.assert_array_equal(out.numpy(), np.stack(everyone))
        mixed = [[values(10 * r + s, shape, seed=3) for s in range(n)] for r in range(n)]
        out = blanks(n, shape)
        dist.all_to_all(out, [mt.tensor(part) for part in mixed[rank]])
        same(out, [mixed[r][rank] for r in range(n)])
        x = mt.zeros(*shape, dtype=mt.float64)
        dist.reduce_scatter(x, [mt.tensor(part) for part in mixed[rank]])
        np.testing.assert_allclose(x.numpy(), sum(mixed[r][rank] for r in range(n)), rtol=1e-13)
        x = mt.zeros(*shape, dtype=mt.float64)
        dist.reduce_scatter_tensor(x, mt.tensor(np.stack(mixed[rank])), dist.ReduceOp.AVG)
        expected = sum(mixed[r][rank] for r in range(n)) / n
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-13)


def blanks(n, shape):
    return [mt.zeros(*shape, dtype=mt.float64) for _ in range(n)]


def same(tensors, arrays):
    for tensor, array in zip(tensors, arrays, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_movement(n):
    run_ranks(n, check_movement)


def check_uneven_and_strided():
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    # Rank r sends r + s + 1 rows to rank s.
    sizes = [[r + s + 1 for s in range(n)] for r in range(n)]
    sent = [values(r, (sum(sizes[r]), 3), seed=5) for r in range(n)]
    out = mt.zeros(sum(sizes[r][rank] for r in range(n)), 3, dtype=mt.float64)
    received = [sizes[r][rank] for r in range(n)]
    dist.all_to_all_single(out, mt.tensor(sent[rank]), received, sizes[rank])
    starts = [sum(sizes[r][:rank]) for r in range(n)]
    pieces = [sent[r][start : start + sizes[r][rank]] for r, start in enumerate(starts)]
    np.testing.assert_array_equal(out.numpy(), np.concatenate(pieces))
    even = mt.zeros(2 * n, 3, dtype=mt.float64)
    dist.all_to_all_single(even, mt.tensor(np.repeat(np.arange(n), 2)[:, None] + np.zeros(3)))
    assert (even.numpy() == rank).all()

    everyone = [values(r, (5, 4), seed=6) for r in range(n)]
    for view in (lambda x: x.T, lambda x: x[:, ::2], lambda x: x[3], lambda x: x[::-1][:2]):
        base = mt.tensor(everyone[rank])
        x = mt.tensor(0.0)
        x.array = view(base.array)
        dist.all_reduce(x)
        np.testing.assert_allclose(x.numpy(), sum(view(e) for e in everyone), rtol=1e-13)
        np.testing.assert_allclose(view(base.numpy()), sum(view(e) for e in everyone), rtol=1e-13)
        base = mt.tensor(everyone[rank])
        x.array = view(base.array)
        dist.broadcast(x, n - 1)
        np.testing.assert_array_equal(view(base.numpy()), view(everyone[-1]))
        outside = np.ones((5, 4), bool)
        view(outside)[...] = False
        np.testing.assert_array_equal(base.numpy()[outside], everyone[rank][outside])
        gathered = mt.zeros(2, 4, n, dtype=mt.float64)
        dist.all_gather_into_tensor(gathered, mt.tensor(everyone[rank][:2]).T)
        flat = np.stack([e[:2].T for e in everyone]).reshape(2, 4, n)
        np.testing.assert_array_equal(gathered.numpy(), flat)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_uneven_and_strided(n):
    run_ranks(n, check_uneven_and_strided)


def check_async():
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    everyone = [values(r, (1000,), seed=8) for r in range(n)]
    tensors = [mt.tensor(everyone[rank] * i) for i in range(5)]
    works = [dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True) for x in tensors]
    for i, (x, work) in reversed(list(enumerate(zip(tensors, works, strict=True)))):
        assert work.wait() is True and work.is_completed()
        work.wait()  # again: it must not divide again
        np.testing.assert_allclose(x.numpy(), sum(everyone) * i / n, rtol=1e-12, atol=1e-15)
    whole = mt.zeros(n, 1000, dtype=mt.float64)
    work = dist.all_gather_into_tensor(whole, mt.tensor(everyone[rank]), async_op=True)
    while not work.is_completed():
        pass
    np.testing.assert_array_equal(whole.numpy(), np.stack(everyone))
    strided = mt.zeros(1000, 2, dtype=mt.float64)[:, 0]
    strided.copy_(mt.tensor(everyone[rank]))
    dist.all_reduce(strided, async_op=True).wait()
    np.testing.assert_allclose(strided.numpy(), sum(everyone), rtol=1e-12, atol=1e-15)
    out = blanks(n, (1000,))
    calls = [
        lambda: dist.broadcast(mt.tensor(everyone[rank]), n - 1, async_op=True),
        lambda: dist.reduce(mt.tensor(everyone[rank]), 0, async_op=True),
        lambda: dist.all_gather(out, mt.tensor(everyone[rank]), async_op=True),
        lambda: dist.all_to_all_single(whole, mt.tensor(np.stack(everyone)), async_op=True),
        lambda: dist.barrier(async_op=True),
    ]
    for call in calls:  # dropped without wait(): their buffers must stay alive
        call()
    dist.barrier()
    dist.destroy_process_group()
    same(out, everyone)
    np.testing.assert_array_equal(whole.numpy(), np.stack([everyone[rank]] * n))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_async(n):
    run_ranks(n, check_async)
