"""benchmarks/distributed/cost_model.py: the equations, their limits, and what they add up."""

import pytest

from benchmarks.distributed.cost_model import SCHEMES, Machine, Work, limit, ring, seconds

WORK = Work(batch=12, context=48, width=20, layers=6, heads=4, parameters=7000, micro_batches=3)
MACHINE = Machine(example=0.5, message=1e-3, byte=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_worker_only_computes(scheme):
    assert seconds(scheme, MACHINE, WORK, 1) == pytest.approx(12 * 0.5)


@pytest.mark.parametrize("scheme", ["sequence", "tensor", "data"])
def test_without_messages_the_work_is_divided(scheme):
    free = Machine(example=0.5, message=0.0, byte=0.0)
    assert seconds(scheme, free, WORK, 3) == pytest.approx(2.0)


def test_a_ring_sends_two_times_n_minus_one_messages():
    assert ring(MACHINE, 600, 3) == pytest.approx(4 * (1e-3 + 200e-6))
    assert ring(MACHINE, 600, 1) == 0


def test_each_scheme_adds_its_messages():
    assert seconds("data", MACHINE, WORK, 3) == pytest.approx(2.0 + ring(MACHINE, 28000, 3))
    hops = 6 * (3 * 3 - 2) * (1e-3 + 2 * 4 * 12 * 16 * 20 * 1e-6)
    expected = 2.0 + hops + ring(MACHINE, 28000, 3)
    assert seconds("sequence", MACHINE, WORK, 3) == pytest.approx(expected)
    activations = 4 * 12 * 48 * 20
    expected = 3.0 + 24 * ring(MACHINE, activations, 2)
    assert seconds("tensor", MACHINE, WORK, 2) == pytest.approx(expected)
    expected = 3.0 * (3 + 1) / 3 + 6 * (1e-3 + activations / 3 * 1e-6)
    assert seconds("pipeline", MACHINE, WORK, 2) == pytest.approx(expected)


def test_an_uneven_batch_waits_for_the_largest_part():
    free = Machine(example=0.5, message=0.0, byte=0.0)
    assert seconds("data", free, WORK, 5) == pytest.approx(3 * 0.5)


def test_the_limits():
    assert [limit(scheme, WORK) for scheme in SCHEMES] == [12, 24, 4, 6]
