"""Repetition penalties and n-grams equal plain loops, and do not modify their inputs."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import generation as g
from minitorch_attn.backend.sync import forbid_sync
from minitorch_attn.errors import ArgumentError, IndexRangeError

ROWS, TOKENS, VOCABULARY = 3, 7, 5


@pytest.fixture
def ids():
    return np.array([[1, 0, 2, 3, 1, 0, 2], [4, 4, 4, 4, 4, 4, 4], [0, 1, 2, 0, 3, 2, 0]])


@pytest.fixture
def scores(rng):
    return rng.normal(size=(ROWS, VOCABULARY))


@pytest.fixture
def run(device, ids, scores):
    """Apply a processor; neither the ids nor the scores may change."""

    def apply(processor, ids=ids, scores=scores):
        tensors = [mt.tensor(x, device=device) for x in (ids, scores)]
        processor(*tensors)  # what is sent to the device once is sent now
        with forbid_sync():
            result = processor(*tensors)
        for tensor, before in zip(tensors, (ids, scores), strict=True):
            np.testing.assert_array_equal(tensor.numpy(), before)
        assert result.dtype == np.float64 and str(result.device.type) == device
        return result.numpy()

    return apply


def penalised(score, penalty):
    return score * penalty if score < 0 else score / penalty


@pytest.mark.parametrize("ignored", [None, 3, [0, 2, 6]])
def test_repetition_penalty(run, ids, scores, device, ignored):
    starts = ignored if isinstance(ignored, list) else [ignored or 0] * ROWS
    expected = scores.copy()
    for row in range(ROWS):
        for token in set(ids[row, starts[row] :]):
            expected[row, token] = penalised(scores[row, token], 1.7)
    if isinstance(ignored, list):
        ignored = mt.tensor(ignored, device=device)
    np.testing.assert_allclose(run(g.RepetitionPenaltyLogitsProcessor(1.7, ignored)), expected)


def test_encoder_repetition_penalty(run, scores, device):
    encoder_ids = np.array([[1, 1, 4]])  # of one input with three beams
    processor = g.EncoderRepetitionPenaltyLogitsProcessor(
        2.0, mt.tensor(encoder_ids, device=device)
    )
    expected = scores.copy()
    for row in range(ROWS):
        for token in (1, 4):
            expected[row, token] = penalised(scores[row, token], 0.5)
    np.testing.assert_allclose(run(processor), expected)


def followers(seen, written, n):
    """The tokens that would repeat a run of n tokens of `seen` at the end of `written`."""
    prefix = list(written[len(written) + 1 - n :])
    runs = [list(seen[i : i + n]) for i in range(len(seen) - n + 1)]
    return {run[-1] for run in runs if run[:-1] == prefix}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_repeated_runs(run, ids, scores, n):
    expected = scores.copy()
    for row in range(ROWS):
        expected[row, list(followers(ids[row], ids[row], n))] = -np.inf
    assert np.isinf(expected).any()
    np.testing.assert_array_equal(run(g.NoRepeatNGramLogitsProcessor(n)), expected)
    short = ids[:, : n - 1]
    np.testing.assert_array_equal(run(g.NoRepeatNGramLogitsProcessor(n), short), scores)


@pytest.mark.parametrize("n", [1, 2])
def test_no_runs_of_the_encoder(run, ids, scores, device, n):
    encoder_ids = np.array([[1, 3, 0, 2, 4, 0, 1]])
    processor = g.EncoderNoRepeatNGramLogitsProcessor(n, mt.tensor(encoder_ids, device=device))
    expected = scores.copy()
    for row in range(ROWS):
        expected[row, list(followers(encoder_ids[0], ids[row], n))] = -np.inf
    assert np.isinf(expected).any()
    np.testing.assert_array_equal(run(processor), expected)


def test_biased_runs(run, scores):
    ids = np.array([[3, 1, 2], [0, 0, 1], [4, 1, 2]])
    bias = {(3,): 2.0, (2, 4): -1.0, (1, 2, 4): 5.0, (0, 0, 1, 0): 9.0, (2, 0): 0.5}
    expected = scores.copy()
    expected[:, 3] += 2.0
    for row in (0, 2):
        expected[row, 4] += 4.0
        expected[row, 0] += 0.5
    expected[1, 0] += 9.0
    np.testing.assert_allclose(run(g.SequenceBiasLogitsProcessor(bias), ids), expected)
    listed = [[list(run), amount] for run, amount in bias.items()]
    np.testing.assert_allclose(run(g.SequenceBiasLogitsProcessor(listed), ids), expected)


def test_bad_words(run, scores):
    ids = np.array([[3, 1, 2], [0, 0, 1], [4, 1, 2]])
    expected = scores.copy()
    expected[:, 3] = -np.inf
    expected[1, 2] = -np.inf
    words = [[3], [0, 1, 2], [4]]
    np.testing.assert_array_equal(run(g.NoBadWordsLogitsProcessor(words, 4), ids), expected)


def test_a_list_goes_from_first_to_last(run, scores):
    both = g.LogitsProcessorList([lambda ids, s: s + 1, lambda ids, s: s * 2])
    np.testing.assert_allclose(run(both), (scores + 1) * 2)


def test_wrong_settings(device, ids, scores):
    for make in (
        lambda: g.RepetitionPenaltyLogitsProcessor(0.0),
        lambda: g.RepetitionPenaltyLogitsProcessor(1.2, -1),
        lambda: g.NoRepeatNGramLogitsProcessor(0),
        lambda: g.NoRepeatNGramLogitsProcessor(2.0),
        lambda: g.SequenceBiasLogitsProcessor({(): 1.0}),
        lambda: g.SequenceBiasLogitsProcessor({(-1,): 1.0}),
        lambda: g.NoBadWordsLogitsProcessor([]),
    ):
        with pytest.raises(ArgumentError):
            make()
    with pytest.raises(IndexRangeError, match="ids below 5"):
        g.SequenceBiasLogitsProcessor({(5,): 1.0})(*[mt.tensor(x) for x in (ids, scores)])
