"""Lengths, forced and suppressed tokens affect exactly the tokens that they name."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import generation as g
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError

ROWS, TOKENS, VOCABULARY = 2, 5, 7


@pytest.fixture
def run(device, rng):
    """(scores before, scores after) a processor for a text of some length."""

    def apply(processor, length=TOKENS):
        ids = mt.tensor(rng.integers(0, VOCABULARY, (ROWS, length)), device=device)
        before = rng.normal(size=(ROWS, VOCABULARY))
        scores = mt.tensor(before, device=device)
        processor(ids, scores)
        with forbid_sync():
            result = processor(ids, scores)
        np.testing.assert_array_equal(scores.numpy(), before)
        return before, result.numpy()

    return apply


@pytest.mark.parametrize(
    ("make", "at", "not_at"),
    [
        (lambda: g.MinLengthLogitsProcessor(TOKENS, [1, 3]), TOKENS - 1, TOKENS),
        (lambda: g.MinNewTokensLengthLogitsProcessor(2, 3, [1, 3]), 4, 5),
        (lambda: g.SuppressTokensAtBeginLogitsProcessor([1, 3], 4), 4, 5),
        (lambda: g.SuppressTokensAtBeginLogitsProcessor([1, 3], 4), 4, 3),
        (lambda: g.SuppressTokensLogitsProcessor([1, 3]), 4, None),
    ],
)
def test_forbidden_tokens(run, make, at, not_at):
    before, after = run(make(), at)
    before[:, [1, 3]] = -np.inf
    np.testing.assert_array_equal(after, before)
    if not_at is not None:
        before, after = run(make(), not_at)
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("make", "at", "not_at"),
    [
        (lambda: g.ForcedBOSTokenLogitsProcessor(4), 1, 2),
        (lambda: g.ForcedEOSTokenLogitsProcessor(6, 4), 5, 4),
    ],
)
def test_forced_tokens(run, make, at, not_at):
    _, after = run(make(), at)
    expected = np.full((ROWS, VOCABULARY), -np.inf)
    expected[:, 4] = 0
    np.testing.assert_array_equal(after, expected)
    before, after = run(make(), not_at)
    np.testing.assert_array_equal(after, before)


def test_the_end_becomes_likelier(run):
    processor = g.ExponentialDecayLengthPenalty((2, 1.5), 6, input_ids_seq_length=1)
    for length, factor in ((3, 0), (4, 0.5), (5, 1.25)):
        before, after = run(processor, length)
        before[:, 6] += np.abs(before[:, 6]) * factor
        np.testing.assert_allclose(after, before)


def test_invalid_values_are_replaced(device):
    scores = mt.tensor([[np.nan, np.inf, -np.inf, 2.0]], device=device).double()
    largest = np.finfo(np.float64).max
    after = g.InfNanRemoveLogitsProcessor()(None, scores).numpy()
    np.testing.assert_array_equal(after, [[0.0, largest, -largest, 2.0]])


def test_allowed_tokens(device):
    """Only those; and any of them where nothing allowed is left."""
    asked = []

    def allowed(batch, row):
        asked.append((batch, row.tolist()))
        return [batch, 2]

    ids = np.array([[5], [6], [5], [6]])
    scores = np.arange(16.0).reshape(4, 4)
    scores[2:, [1, 2]] = -np.inf
    processor = g.PrefixConstrainedLogitsProcessor(allowed, num_beams=2)
    after = processor(mt.tensor(ids, device=device), mt.tensor(scores, device=device)).numpy()
    inf = np.inf
    np.testing.assert_array_equal(
        after,
        [[0, -inf, 2, -inf], [4, -inf, 6, -inf], [-inf, 0, 0, -inf], [-inf, 0, 0, -inf]],
    )
    assert asked == [(0, [5]), (0, [6]), (1, [5]), (1, [6])]
    with pytest.raises(ArgumentError, match="input 0"):
        g.PrefixConstrainedLogitsProcessor(lambda *_: [], 1)(mt.tensor(ids), mt.tensor(scores))


def test_wrong_settings():
    for make in (
        lambda: g.MinLengthLogitsProcessor(-1, 2),
        lambda: g.MinLengthLogitsProcessor(2, -2),
        lambda: g.ForcedEOSTokenLogitsProcessor(5, [1, -1]),
        lambda: g.ExponentialDecayLengthPenalty((1, -1.0), 2, 1),
        lambda: g.SuppressTokensLogitsProcessor([1.5]),
    ):
        with pytest.raises(ArgumentError):
            make()
