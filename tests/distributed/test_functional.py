"""Differentiable collectives: outputs and gradients on N ranks equal those of one process.

The one process computes the same function with ordinary ops, on what all ranks hold: x is a list
with one tensor per rank, and `in_one_process[name]` returns the list of the ranks' outputs.
"""

import numpy as np
import pytest
from distributed.ranks import run_ranks

import minitorch_attn as mt

dist = mt.distributed
F = dist.functional


def values(rank, shape, seed):
    return np.random.default_rng([seed, rank]).standard_normal(shape)


def _split(x, n, dim):
    return mt.chunk(x, n, dim)


def in_one_process(n, root):
    """Name -> (distributed function of this rank's x, function of the list of all x)."""
    return {
        "all_reduce": (F.all_reduce, lambda x: [sum(x)] * n),
        "average": (lambda x: F.all_reduce(x, dist.ReduceOp.AVG), lambda x: [sum(x) / n] * n),
        "broadcast": (
            lambda x: F.broadcast(x, root),
            lambda x: [x[root] + 0 * x[s] for s in range(n)],
        ),
        "reduce": (
            lambda x: F.reduce(x, root),
            lambda x: [sum(x) if r == root else 0 * x[r] for r in range(n)],
        ),
        "all_gather": (F.all_gather, lambda x: [mt.cat(x, 0)] * n),
        "all_gather 1": (lambda x: F.all_gather(x, 1), lambda x: [mt.cat(x, 1)] * n),
        "reduce_scatter": (F.reduce_scatter, lambda x: _split(sum(x), n, 0)),
        "reduce_scatter -1": (
            lambda x: F.reduce_scatter(x, -1),
            lambda x: _split(sum(x), n, -1),
        ),
        "all_to_all": (
            F.all_to_all,
            lambda x: [mt.cat([_split(x[r], n, 0)[s] for r in range(n)], 0) for s in range(n)],
        ),
        "all_to_all 1 0": (
            lambda x: F.all_to_all(x, 1, 0),
            lambda x: [mt.cat([_split(x[r], n, 1)[s] for r in range(n)], 0) for s in range(n)],
        ),
        "all_to_all 0 2": (
            lambda x: F.all_to_all(x, 0, 2),
            lambda x: [mt.cat([_split(x[r], n, 0)[s] for r in range(n)], 2) for s in range(n)],
        ),
        "twice": (
            lambda x: F.all_reduce(F.all_gather(x, 0).exp()).sin(),
            lambda x: [(n * mt.cat(x, 0).exp()).sin()] * n,
        ),
        "uneven use": (
            lambda x: F.all_reduce(x * x) * (1 + dist.get_rank()),
            lambda x: [sum([v * v for v in x]) * (1 + s) for s in range(n)],
        ),
    }


def check_against_one_process():
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    for root in {0, n - 1}:
        for seed, (name, (on_ranks, alone)) in enumerate(in_one_process(n, root).items()):
            shape = (2 * n, 3 * n, n)
            everyone = [leaf(values(r, shape, seed)) for r in range(n)]
            expected = alone(everyone)
            cotangents = [values(r, expected[r].shape, 100 + seed) for r in range(n)]
            terms = zip(expected, cotangents, strict=True)
            loss = sum((y * mt.tensor(g)).sum() for y, g in terms)
            loss.backward()
            x = leaf(values(rank, shape, seed))
            y = on_ranks(x)
            close(y, expected[rank], name)
            y.backward(mt.tensor(cotangents[rank]))
            close(x.grad, everyone[rank].grad, f"gradient of {name}")


def leaf(array):
    return mt.tensor(array, requires_grad=True)


def close(one, other, name):
    np.testing.assert_allclose(
        one.detach().numpy(), other.detach().numpy(), rtol=1e-12, atol=1e-13, err_msg=name
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_against_one_process(n):
    run_ranks(n, check_against_one_process)


def part(array, rank, n, axis):
    return np.split(array, n, axis=axis)[rank].copy()


def check_split_layers():
    """Megatron's feed-forward layer, and a split and rejoined axis, against one process."""
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    x, w1, w2 = values(0, (5, 3), 1), values(0, (3, 2 * n), 2), values(0, (2 * n, 7), 3)
    scale, cotangent = values(0, (5, 7 * n), 4), mt.tensor(values(0, (5, 7 * n), 5))

    alone = [leaf(array) for array in (x, w1, w2, scale)]
    y = (alone[0] @ alone[1]).tanh() @ alone[2]
    (mt.cat([y] * n, 1) * alone[3] * cotangent).sum().backward()

    split = [leaf(x), leaf(part(w1, rank, n, 1)), leaf(part(w2, rank, n, 0))]
    hidden = (F.copy_to_ranks(split[0]) @ split[1]).tanh()
    z = F.reduce_from_ranks(hidden @ split[2])
    close(z, y, "feed-forward layer")
    own = leaf(part(scale, rank, n, 1))
    wide = F.scatter_to_ranks(mt.cat([z] * n, 1)) * own
    whole = F.gather_from_ranks(wide)
    close(whole, mt.cat([y] * n, 1) * alone[3], "gathered")
    (whole * cotangent).sum().backward()
    close(split[0].grad, alone[0].grad, "input")
    close(split[1].grad, mt.tensor(part(alone[1].grad.numpy(), rank, n, 1)), "columns")
    close(split[2].grad, mt.tensor(part(alone[2].grad.numpy(), rank, n, 0)), "rows")
    close(own.grad, mt.tensor(part(alone[3].grad.numpy(), rank, n, 1)), "scale")
    rows = F.gather_from_ranks(F.scatter_to_ranks(mt.tensor(values(0, (2 * n, 3), 6)), 0), 0)
    np.testing.assert_array_equal(rows.numpy(), values(0, (2 * n, 3), 6))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_split_layers(n):
    run_ranks(n, check_split_layers)


def check_second_derivatives_and_messages():
    dist.init_process_group()
    rank, n = dist.get_rank(), dist.get_world_size()
    everyone = [leaf(values(r, (2 * n, 3), 7)) for r in range(n)]
    directions = [mt.tensor(values(r, (2 * n, 3), 8)) for r in range(n)]

    def penalty(x, direction, gather, reduce):
        y = gather(x).sin()
        (grad,) = mt.autograd.grad((y * reduce(x * x).sum()).sum(), [x], create_graph=True)
        return (grad * direction).sum()

    total = sum(everyone[s] * everyone[s] for s in range(n)).sum()
    loss = n * (mt.cat(everyone, 0).sin().sum() * total)  # every rank has this loss
    grads = mt.autograd.grad(loss, everyone, create_graph=True)
    sum((g * d).sum() for g, d in zip(grads, directions, strict=True)).backward()
    x = leaf(values(rank, (2 * n, 3), 7))
    with dist.count_messages() as traffic:
        first = penalty(x, directions[rank], F.all_gather, F.all_reduce)
    # Forward: all_gather and all_reduce. Backward: their adjoints. No other messages.
    kinds = {kind: count.calls for kind, count in traffic.kinds.items()}
    assert kinds == {"all_gather": 1, "all_reduce": 2, "reduce_scatter": 1}, kinds
    first.backward()
    close(x.grad, everyone[rank].grad, "second derivative")
    with dist.count_messages() as traffic:
        y = F.reduce_from_ranks(F.copy_to_ranks(leaf(values(rank, (3,), 9))))
        assert traffic.calls == 1  # only the sum of g
        y.sum().backward()
        assert traffic.calls == 2  # only the sum of f


@pytest.mark.parametrize("n", [1, 3])
def test_second_derivatives_and_messages(n):
    run_ranks(n, check_second_derivatives_and_messages)
