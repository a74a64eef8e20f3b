"""Recurrent sequence to sequence: padding, state between calls, gradients, translation."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.generation import translate
from minitorch_attn.models import RecurrentDecoder, RecurrentEncoder, RecurrentState, Seq2Seq
from minitorch_attn.nn import collect_attention

ATTENTION = {  # hidden size 3, encoder states of size 4
    "one vector": lambda: None,
    "additive": lambda: nn.AdditiveAttention(3, 4, 5),
    "general": lambda: nn.LuongAttention(3, 4),
    "location, monotonic": lambda: nn.LuongAttention(
        3, 4, score="location", local="monotonic", window=1, max_length=5),
    "predictive": lambda: nn.LuongAttention(3, 4, local="predictive", window=2),
    "general, fed": lambda: nn.LuongAttention(3, 4),
    "monotonic, fed": lambda: nn.LuongAttention(3, 4, local="monotonic", window=1),
}  # fmt: skip
KINDS = [(kind, cell) for kind in ATTENTION for cell in ("lstm", "gru")]
SOURCE = np.array([[3, 9, 4, 4, 1, 2], [7, 5, 0, 0, 0, 0], [10, 8, 6, 0, 0, 0], [4, 0, 0, 0, 0, 0]])
LENGTHS = [6, 2, 3, 1]


def build(device, kind="additive", cell="lstm", num_layers=2, reverse=False):
    rng = np.random.default_rng(3)
    encoder = RecurrentEncoder(11, 3, 2, num_layers, cell, bidirectional=True, reverse=reverse)
    feeding = kind.endswith("fed")
    decoder = RecurrentDecoder(7, 2, 3, ATTENTION[kind](), num_layers, cell, feeding)
    model = Seq2Seq(encoder, decoder, pad_id=0).double().to(device)
    for p in model.parameters():
        p.data = mt.tensor(rng.uniform(-1.3, 1.3, p.shape), device=device)
    return model


def on(device, ids):
    return mt.tensor(np.asarray(ids), device=device)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("kind", "cell"), KINDS)
def test_each_row_as_if_alone(device, kind, cell, reverse):
    model = build(device, kind, cell, reverse=reverse)
    target = np.array([[1, 2, 3], [1, 4, 6], [1, 1, 0], [1, 5, 5]])
    logits = model(on(device, SOURCE), on(device, target)).detach().numpy()
    lengths = nn.masks.padding(LENGTHS, device=device)
    again = model(on(device, SOURCE + 5 * (SOURCE == 0)), on(device, target), lengths)
    np.testing.assert_array_equal(again.detach().numpy(), logits)  # what the padding is, is unread
    model.pad_id = None
    for i, n in enumerate(LENGTHS):
        alone = model(on(device, SOURCE[i : i + 1, :n]), on(device, target[i : i + 1]))
        np.testing.assert_allclose(alone.detach().numpy()[0], logits[i], atol=1e-14)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_reversed_source(device, cell):
    model = build(device, cell=cell, reverse=True)
    encoder, source = model.encoder, on(device, SOURCE)
    memory, state = encoder(source, LENGTHS)
    encoder.reverse = False
    for i, n in enumerate(LENGTHS):
        backward, last = encoder(on(device, SOURCE[i : i + 1, :n][:, ::-1].copy()))
        found = memory[i, :n].detach().numpy()
        np.testing.assert_allclose(found, backward[0].detach().numpy()[::-1], atol=1e-14)
        assert not memory[i, n:].detach().numpy().any()
        for a, b in zip(state, last, strict=True):
            np.testing.assert_allclose(a[:, i].detach().numpy(), b[:, 0].detach().numpy())
    encoder.reverse = True
    full = encoder(source[:1])[0].detach().numpy()
    np.testing.assert_allclose(full[0], memory[0].detach().numpy(), atol=1e-14)


@pytest.mark.parametrize(("kind", "cell"), KINDS)
def test_one_word_at_a_time(device, kind, cell):
    model, source = build(device, kind, cell), on(device, SOURCE)
    target, mask = on(device, [[1, 2, 3, 4, 5]] * 4), model.padding_mask(source)
    whole = model(source, target).detach().numpy()
    memory, past = model.encode(source, mask), model.new_cache()
    for t in range(5):
        assert past.length == t
        logits = model.decode(target[:, t : t + 1], memory, mask, past).detach().numpy()
        np.testing.assert_allclose(logits[:, 0], whole[:, t], atol=1e-14)
    rows = on(device, [2, 0, 0])
    past.reorder(rows)
    chosen = {name: value.index_select(0, rows) for name, value in memory.items()}
    again = model.decode(target[:3, :1], chosen, model.padding_mask(source[rows]), past)
    assert again.shape == (3, 1, 7)
    more = np.concatenate([target.numpy(), [[1]] * 4], 1)
    last = model(source, on(device, more)).detach().numpy()[:, -1]
    np.testing.assert_allclose(again.detach().numpy()[:, 0], last[[2, 0, 0]], atol=1e-14)


@pytest.mark.parametrize("kind", ATTENTION)
def test_gradients(device, kind):
    for cell in ("lstm", "gru"):
        model = build(device, kind, cell, num_layers=1)
        assert gradcheck_module(model, on(device, SOURCE), on(device, [[1, 2, 3]] * 4), fast=True)


@pytest.mark.parametrize(("kind", "cell"), KINDS)
def test_greedy_translation(device, kind, cell):
    model = build(device, kind, cell).eval()
    rows = []
    for i, n in enumerate(LENGTHS):
        words, source = [1], on(device, SOURCE[i : i + 1, :n])
        while len(words) < 9:
            words.append(int(model(source, on(device, [words])).numpy()[0, -1].argmax()))
        rows.append(words[1:])
    end = rows[0][3]
    rows = [row[: row.index(end) + 1] if end in row else row for row in rows]
    found = translate(model, on(device, SOURCE), 1, end, max_new_tokens=8).numpy()
    for row, expected in zip(found, rows, strict=True):
        assert row.tolist() == expected + [end] * (len(row) - len(expected))


def best_target(model, source, start, end, steps, penalty):
    """The best of all targets of at most `steps` words."""
    closed, opened = [], [(0.0, [start])]
    for _ in range(steps):
        longer = []
        for total, words in opened:
            logits = model(source, mt.tensor([words], device=source.device)).numpy()[0, -1]
            logs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            longer += [(total + logs[i], [*words, i]) for i in range(len(logs))]
        closed += [pair for pair in longer if pair[1][-1] == end]
        opened = [pair for pair in longer if pair[1][-1] != end]
    return max(closed + opened, key=lambda pair: pair[0] / (len(pair[1]) - 1) ** penalty)[1][1:]


@pytest.mark.parametrize(("kind", "cell"), KINDS)
def test_a_wide_beam_finds_the_best_of_all_targets(device, kind, cell):
    """7 words, at most 3 of them: 49 beams keep every beginning."""
    model = build(device, kind, cell).eval()
    found = translate(
        model, on(device, SOURCE), 1, 2, max_new_tokens=3, num_beams=49, length_penalty=0.6
    ).numpy()
    for row, words, n in zip(found, SOURCE, LENGTHS, strict=True):
        best = best_target(model, on(device, words[None, :n]), 1, 2, 3, 0.6)
        assert row.tolist() == best + [2] * (len(row) - len(best))


def test_collected_weights(device):
    for kind, entries, queries in (("additive", 3, 1), ("general, fed", 3, 1), ("general", 1, 3)):
        model = build(device, kind)
        with collect_attention(model) as found:
            model(on(device, SOURCE), on(device, [[1, 2, 3]] * 4))
        assert [w.shape for _, w in found] == [(4, 1, queries, 6)] * entries
        weights = np.concatenate([w.detach().numpy() for _, w in found], 2)
        np.testing.assert_allclose(weights.sum(-1), 1.0)
        assert not weights[1, :, :, 2:].any() and not weights[3, :, :, 1:].any()


def test_states_are_copied_if_the_sizes_agree(device):
    """As in Sutskever et al.: the last state of the encoder is the first one of the decoder."""
    encoder, decoder = RecurrentEncoder(11, 3, 5, 2), RecurrentDecoder(7, 2, 5, num_layers=2)
    model = Seq2Seq(encoder, decoder).to(device)
    assert model.bridge is None and model.padding_mask(on(device, SOURCE)) is None
    encoded = model.encode(on(device, SOURCE))
    _, (h, c) = encoder(on(device, SOURCE))
    np.testing.assert_array_equal(encoded["h"].detach().numpy(), h.detach().numpy().swapaxes(0, 1))
    np.testing.assert_array_equal(encoded["c"].detach().numpy(), c.detach().numpy().swapaxes(0, 1))
    adapted = Seq2Seq(
        RecurrentEncoder(11, 3, 4, 2, "gru"), RecurrentDecoder(7, 2, 5, None, 2, "gru")
    )
    assert [f.weight.shape for f in adapted.bridge] == [(5, 4)]


def test_single_precision_and_a_bool_mask(device):
    model = build(device, "predictive")
    source, target = on(device, SOURCE), on(device, [[1, 2, 3]] * 4)
    wanted = model(source, target).detach().numpy()
    got = model.float()(source, target, (source != 0).reshape(4, 1, 1, 6))
    assert got.dtype == "float32"
    np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=2e-4, atol=2e-5)


def test_invalid_arguments(device):
    with pytest.raises(ArgumentError, match="'lstm' or 'gru'"):
        RecurrentEncoder(11, 3, 2, cell="rnn")
    with pytest.raises(ShapeError, match="query_dim of attention"):
        RecurrentDecoder(7, 2, 5, nn.LuongAttention(3, 4))
    for attention in (None, nn.AdditiveAttention(3, 4, 5)):
        with pytest.raises(ArgumentError, match="requires a LuongAttention"):
            RecurrentDecoder(7, 2, 3, attention, input_feeding=True)
    encoder = RecurrentEncoder(11, 3, 2)
    with pytest.raises(ArgumentError, match="same cell and number of layers"):
        Seq2Seq(encoder, RecurrentDecoder(7, 2, 2, cell="gru"))
    with pytest.raises(ShapeError, match="key_dim of the decoder's attention"):
        Seq2Seq(encoder, RecurrentDecoder(7, 2, 3, nn.LuongAttention(3, 4)))
    model = build(device)
    with pytest.raises(ArgumentError, match="padding before a word"):
        model(on(device, [[0, 3, 4]]), on(device, [[1, 2]]))


def test_an_empty_state():
    past = RecurrentState()
    past.reorder(mt.tensor([0]))
    assert past.state is None and past.length == 0


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_bridge_adapts_the_last_state_of_each_layer(device, cell, bidirectional):
    encoder = RecurrentEncoder(11, 3, 5, 2, cell, bidirectional)
    model = Seq2Seq(encoder, RecurrentDecoder(11, 3, 7, num_layers=2, cell=cell)).to(device)
    source = mt.tensor([[4, 5, 6], [7, 8, 9]], device=device)
    memory, state = model.encoder(source), model.encode(source)
    for layer, name, last in zip(model.bridge, "hc", memory[1], strict=False):
        sides = last.reshape(2, -1, 2, 5)  # (layer, direction, batch, hidden)
        for row in range(2):  # [forward; backward] of each layer
            both = mt.cat(list(sides[row]), -1)
            expected = mt.tanh(layer(both)).detach().numpy()
            np.testing.assert_allclose(state[name][:, row].detach().numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "attention", [None, nn.AdditiveAttention(7, 5, 3)], ids=["none", "additive"]
)
def test_a_decoder_continues_from_the_state_that_it_returns(device, attention):
    decoder = RecurrentDecoder(11, 3, 7, attention).to(device).eval()
    target = mt.tensor([[4, 5, 6, 7]], device=device)
    memory = mt.randn(1, 3, 5, device=device)
    start = (mt.zeros(1, 1, 7, device=device),) * 2
    whole, last = decoder(target, memory, start)
    first, state = decoder(target[:, :2], memory, start)
    second, state = decoder(target[:, 2:], memory, state)
    parts = mt.cat([first, second], 1).detach().numpy()
    np.testing.assert_allclose(parts, whole.detach().numpy(), rtol=1e-5, atol=1e-6)
    for one, two in zip(state, last, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), rtol=1e-5, atol=1e-6)
