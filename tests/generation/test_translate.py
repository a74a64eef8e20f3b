"""Greedy translation: each token is the most likely one after the previous tokens."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.generation.translate import translate
from minitorch_attn.models import Transformer


def small(device, rng):
    mt.manual_seed(5)
    model = Transformer(
        11, embed_dim=6, num_heads=2, ff_dim=7, num_encoder_layers=1, num_decoder_layers=2,
        dropout=0.5, pad_id=0, max_len=13,
    )  # fmt: skip
    model = model.double().to(device)
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.uniform(-1, 1, parameter.shape), device=device)
    return model


def one_by_one(model, source, start, steps):
    """The same without batch, padding or cache, and without an end."""
    written = [start]
    while len(written) <= steps:
        logits = model(source, mt.tensor([written], device=source.device)).numpy()
        written.append(int(logits[0, -1].argmax()))
    return written[1:]


def test_rows_are_written_as_if_alone(device, rng):
    model = small(device, rng).eval()
    lengths, rows = [7, 3, 5, 4, 6, 2], []
    source = np.zeros((len(lengths), 7), "int64")
    for i, length in enumerate(lengths):
        source[i, :length] = rng.integers(1, 11, size=length)
        rows.append(one_by_one(model, mt.tensor(source[i : i + 1, :length], device=device), 1, 9))
    end = rows[0][4]  # so that it occurs, somewhere
    rows = [row[: row.index(end) + 1] if end in row else row for row in rows]
    model.train()
    found = translate(model, mt.tensor(source, device=device), 1, end, max_new_tokens=9).numpy()
    assert model.training
    assert len({len(row) for row in rows}) > 1  # some end before others
    assert found.shape == (6, max(map(len, rows)))
    for row, expected in zip(found, rows, strict=True):
        assert row[: len(expected)].tolist() == expected
        assert (row[len(expected) :] == end).all()


def test_nothing_to_write(device, rng):
    with pytest.raises(ArgumentError, match="max_new_tokens must be at least 1"):
        translate(small(device, rng), mt.tensor([[3]], device=device), 1, 2, max_new_tokens=0)


def all_targets(model, source, start, end, steps):
    """(log probability, tokens) of every target of at most `steps` tokens."""
    found, open_targets = [], [(0.0, [start])]
    for _ in range(steps):
        longer = []
        for total, tokens in open_targets:
            logits = model(source, mt.tensor([tokens], device=source.device)).numpy()[0, -1]
            logs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            longer += [(total + logs[i], [*tokens, i]) for i in range(len(logs))]
        found += [pair for pair in longer if pair[1][-1] == end]
        open_targets = [pair for pair in longer if pair[1][-1] != end]
    return found + open_targets


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_the_best_of_all_targets(device, rng, penalty):
    """11 tokens, at most 2 of them: 11 beams keep every beginning."""
    model = small(device, rng).eval()
    sources = [[3, 9, 4, 4], [7, 5], [10, 8, 6], [4]]
    padded = [row + [0] * (4 - len(row)) for row in sources]
    found = translate(
        model, mt.tensor(padded, device=device), 1, 2, max_new_tokens=2, num_beams=11,
        length_penalty=penalty,
    ).numpy()  # fmt: skip
    likeliest = translate(model, mt.tensor(padded, device=device), 1, 2, max_new_tokens=2).numpy()
    differ = 0
    for row, source, plain in zip(found, sources, likeliest, strict=True):
        targets = all_targets(model, mt.tensor([source], device=device), 1, 2, 2)
        best = max(targets, key=lambda pair: pair[0] / (len(pair[1]) - 1) ** penalty)[1][1:]
        assert row.tolist() == best + [2] * (len(row) - len(best))
        differ += row.tolist() != plain.tolist()
    assert differ or penalty  # without a penalty for length greedy search is not the best
