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
