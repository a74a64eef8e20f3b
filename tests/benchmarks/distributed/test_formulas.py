"""benchmarks/distributed/formulas.py: the formulas of docs/distributed.md, by hand."""

import pytest

from benchmarks.distributed.formulas import MICRO_BATCHES, SCHEMES, Step, obstacle, sent

B, T, E, L, V = 8, 24, 20, 3, 7
STEP = Step(B, T, E, L, 4, V, parameters=(5, 300_000, 7, 11))
P = sum(STEP.parameters)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_rank_sends_nothing(scheme):
    assert sent(scheme, STEP, 1, 0) == (0, 0)


def of_all(scheme, ranks):
    """Sums of messages and bytes over the ranks."""
    return tuple(map(sum, zip(*[sent(scheme, STEP, ranks, r) for r in range(ranks)], strict=True)))


@pytest.mark.parametrize("N", [2, 3, 4])
def test_what_all_ranks_send(N):
    """A rank's part of an all-reduce has one number more or less; the sum over the ranks has not.

    There are two buckets: the last three parameters, with more than 1 MiB, and the first one.
    """
    ring = 2 * (N - 1)  # messages of each rank; and numbers of all ranks, per number
    assert of_all("data", N) == (2 * N * ring, 4 * ring * P)
    assert of_all("zero1", N) == (2 * N * ring + N * (N - 1), 4 * (ring + N - 1) * P)
    assert of_all("tensor", N) == (4 * L * N * ring, 4 * 4 * L * ring * B * T * E)
    hops = L * (3 * N - 2)
    keys_and_values = 4 * N * hops * 2 * B * (T // N) * E
    expected = (N * (hops + 2 * ring), keys_and_values + 4 * ring * (P + 1))
    assert of_all("sequence", N) == expected
    borders, M = N - 1, MICRO_BATCHES
    messages = borders * (2 * M + 1) + 2 + (N - 1)
    activations = 4 * borders * 2 * B * T * E
    assert of_all("pipeline", N) == (
        messages, activations + 8 * 9 * borders + 4 * 2 * V * E + 8 * (N - 1)
    )  # fmt: skip


def test_what_each_rank_sends():
    assert sent("tensor", STEP, 4, 2) == (4 * L * 6, 4 * 4 * L * 6 * B * T * E // 4)
    owner, *others = [sent("zero1", STEP, 3, rank)[1] for rank in (0, 1, 2)]
    assert max(owner, *others) - min(owner, *others) > 4 * 299_000  # the next one's is not passed
    middle, last = sent("pipeline", STEP, 3, 1), sent("pipeline", STEP, 3, 2)
    assert middle == (2 * MICRO_BATCHES + 1, 4 * 2 * B * T * E + 8 * 9)
    assert last == (MICRO_BATCHES + 2, 4 * B * T * E + 4 * V * E + 8)


def test_obstacles():
    assert obstacle("data", STEP, 3) == "8 sequences" and obstacle("data", STEP, 4) == ""
    assert obstacle("tensor", STEP, 3) == "4 heads" and obstacle("tensor", STEP, 2) == ""
    assert obstacle("sequence", STEP, 5) == "24 tokens" and obstacle("pipeline", STEP, 5) == ""
