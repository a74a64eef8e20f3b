"""Greedy translation: each token is the likeliest after those before it."""

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
    with pytest.raises(ArgumentError, match="nothing to write"):
        translate(small(device, rng), mt.tensor([[3]], device=device), 1, 2, max_new_tokens=0)
