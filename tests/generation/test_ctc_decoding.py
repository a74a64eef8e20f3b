"""CTC decoding: greedy against the best path, beam search against all label sequences."""

import itertools

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError


def drawn(*shape, seed=0):
    x = np.random.default_rng(seed).normal(0, 1.5, shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def collapse(path, blank):
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def every_sequence(rows, blank):
    """p of every label sequence: the sum over its alignments."""
    found = {}
    for path in itertools.product(range(rows.shape[1]), repeat=len(rows)):
        p = np.exp(sum(rows[t, k] for t, k in enumerate(path)))
        labels = collapse(path, blank)
        found[labels] = found.get(labels, 0.0) + p
    return found


def loop_beam(rows, blank, width):
    """Algorithm 1 of arXiv:1408.2873 without a language model, in probabilities."""
    beam = {(): (1.0, 0.0)}
    for row in np.exp(rows):
        new = {}
        for prefix, (p_b, p_nb) in beam.items():
            for k, p in enumerate(row):
                if k == blank:
                    parts = [(prefix, p * (p_b + p_nb), 0.0)]
                elif prefix and k == prefix[-1]:
                    parts = [((*prefix, k), 0.0, p * p_b), (prefix, 0.0, p * p_nb)]
                else:
                    parts = [((*prefix, k), 0.0, p * (p_b + p_nb))]
                for labels, b, nb in parts:
                    old = new.get(labels, (0.0, 0.0))
                    new[labels] = (old[0] + b, old[1] + nb)
        beam = dict(sorted(new.items(), key=lambda item: -sum(item[1]))[:width])
    best = max(beam, key=lambda labels: sum(beam[labels]))
    return best, np.log(sum(beam[best]))


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_of_all_sequences(device, blank, seed):
    host = drawn(6, 3, 3, seed=seed)
    lengths = (6, 1, 5)
    found = mt.ctc_decode(mt.tensor(host, device=device), lengths, blank, beam_width=500)
    for b, (labels, score) in enumerate(found):
        chances = every_sequence(host[: lengths[b], b], blank)
        best = max(chances, key=chances.get)
        assert tuple(labels.tolist()) == best and labels.dtype == "int64"
        assert labels.device.type == mt.device(device).type
        np.testing.assert_allclose(score, np.log(chances[best]), rtol=1e-12)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_a_narrow_beam_against_plain_loops(device, width, seed):
    host = drawn(11, 2, 4, seed=seed)
    found = mt.ctc_decode(mt.tensor(host, device=device), None, 1, width)
    for b, (labels, score) in enumerate(found):
        best, expected = loop_beam(host[:, b], 1, width)
        assert tuple(labels.tolist()) == best
        np.testing.assert_allclose(score, expected, rtol=1e-12)


@pytest.mark.parametrize("blank", [0, 2])
def test_greedy_is_the_best_path(device, blank):
    host = drawn(5, 4, 3)
    lengths = [5, 3, 0, 1]
    found = mt.ctc_decode(mt.tensor(host, device=device), mt.tensor(lengths, device=device), blank)
    for b, (labels, score) in enumerate(found):
        paths = itertools.product(range(3), repeat=lengths[b])
        chances = {path: sum(host[t, b, k] for t, k in enumerate(path)) for path in paths}
        best = max(chances, key=chances.get)
        assert tuple(labels.tolist()) == collapse(best, blank) and isinstance(score, float)
        np.testing.assert_allclose(score, chances[best], rtol=1e-14)


def test_greedy_takes_the_first_of_equals(device):
    path = [2, 2, 0, 2, 1, 1]
    rows = mt.tensor(np.eye(3)[path][:, None], device=device)
    assert mt.ctc_decode(rows)[0][0].tolist() == [2, 2, 1]
    assert mt.ctc_decode(mt.zeros(4, 1, 3, device=device), blank=2)[0][0].tolist() == [0]


def test_the_score_of_a_wide_beam_is_the_loss(device):
    x = mt.tensor(drawn(7, 2, 4), device=device)
    for b, (labels, score) in enumerate(mt.ctc_decode(x, beam_width=3000)):
        loss = mt.nn.functional.ctc_loss(x[:, b], labels, (7,), (len(labels),), reduction="sum")
        np.testing.assert_allclose(score, -loss.item(), rtol=1e-12)


def test_impossible_labels_are_not_decoded(device):
    with np.errstate(divide="ignore"):
        rows = np.log([[[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    for width in (None, 1, 50):
        [(labels, score)] = mt.ctc_decode(mt.tensor(rows, device=device), beam_width=width)
        assert labels.tolist() == [1, 1] and score == 0.0


@pytest.mark.parametrize("width", [None, 3])
def test_no_frames_and_no_sequences(device, width):
    [(labels, score)] = mt.ctc_decode(mt.zeros(0, 1, 3, device=device), beam_width=width)
    assert labels.shape == (0,) and labels.dtype == "int64" and score == 0.0
    assert mt.ctc_decode(mt.zeros(3, 0, 3, device=device), beam_width=width) == []


X = mt.zeros(5, 2, 4)


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (DTypeError, "floating-point", (X.long(),)),
        (DTypeError, "floating-point", ([1.0],)),
        (ShapeError, "3 axes", (X[0],)),
        (ShapeError, "at least one class", (X[..., :0],)),
        (ShapeError, "one length per sequence", (X, (5,))),
        (ShapeError, "one length per sequence", (X, mt.tensor(5))),
        (ArgumentError, "must not exceed", (X, (5, 6))),
        (ArgumentError, "input_lengths must be an integer", (X, (5, -1))),
        (ArgumentError, "input_lengths must be an integer", (X, (5, 2.0))),
        (ArgumentError, "blank must be a class", (X, None, 4)),
        (ArgumentError, "blank must be an integer", (X, None, -1)),
        (ArgumentError, "beam_width must be an integer", (X, None, 0, 0)),
    ],
)
def test_errors(error, match, arguments):
    with pytest.raises(error, match=match):
        mt.ctc_decode(*arguments)
