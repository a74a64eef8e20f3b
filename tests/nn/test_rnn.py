"""RNN, LSTM, GRU and their cells: against loops over single tokens, and shared properties."""

import numpy as np
import pytest
from recurrence import gru_step, lstm_step, read, rnn_step

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module, gradgradcheck
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

STEPS = {"RNN": rnn_step, "LSTM": lstm_step, "GRU": gru_step}
KINDS = sorted(STEPS)
LENGTHS = [3, 5, 2]


def ready(module, device):
    """In float64 on the device under test, with the same values on every call."""
    module = module.double().to(device)
    rng = np.random.default_rng(3)
    for p in module.parameters():
        with mt.no_grad():
            p.copy_(mt.tensor(rng.uniform(-0.8, 0.8, p.shape), device=device))
    return module


def host(tensor):
    return tensor.detach().numpy()


def states_of(kind, make, layers, batch, hidden, proj=0):
    h = make(layers, batch, proj or hidden)
    return (h, make(layers, batch, hidden)) if kind == "LSTM" else h


def as_pair(kind, state):
    return list(state) if kind == "LSTM" else [state]


def loop(module, kind, sequence, states):
    """Output and last states of one sequence, (token, input) and (layer * direction, hidden)."""
    weights = {name: host(p) for name, p in module.named_parameters()}
    directions = 2 if module.bidirectional else 1
    last = []
    for layer in range(module.num_layers):
        outputs = []
        for reverse in range(directions):
            end = f"_l{layer}" + "_reverse" * reverse
            short = dict(weight="w", bias="b")
            mine = {
                f"{short[n.split('_')[0]]}_{n.split('_')[1]}": w
                for n, w in weights.items()
                if n.split("_", 2)[2] == end[1:]
            }
            if kind == "RNN":
                mine["nonlinearity"] = module.nonlinearity

            def step(x, *s, mine=mine):
                return STEPS[kind](x, *s, **mine)

            initial = [s[layer * directions + reverse] for s in states]
            output, final = read(step, sequence, initial, bool(reverse))
            outputs.append(np.stack(output))
            last.append(final)
        sequence = np.concatenate(outputs, -1)
    return sequence, [np.stack(each) for each in zip(*last, strict=True)]


CONFIGS = [
    ("RNN", {}),
    ("RNN", dict(nonlinearity="relu", num_layers=2, bias=False)),
    ("RNN", dict(bidirectional=True, batch_first=True)),
    ("LSTM", {}),
    ("LSTM", dict(num_layers=2, bidirectional=True)),
    ("LSTM", dict(proj_size=2, num_layers=2, bidirectional=True, bias=False, batch_first=True)),
    ("GRU", dict(batch_first=True)),
    ("GRU", dict(num_layers=3, bidirectional=True)),
    ("GRU", dict(num_layers=2, bias=False)),
]


def names(value):
    return value if isinstance(value, str) else ",".join(value) or "plain"


@pytest.mark.parametrize(("kind", "config"), CONFIGS, ids=names)
@pytest.mark.parametrize("packed", [False, True])
def test_against_a_loop(make, device, kind, config, packed):
    module = ready(getattr(nn, kind)(2, 3, **config), device)
    first, layers = module.batch_first, module.num_layers * (1 + module.bidirectional)
    x = make(3, 5, 2) if first else make(5, 3, 2)
    hx = states_of(kind, make, layers, 3, 3, module.proj_size)
    lengths = LENGTHS if packed else [5, 5, 5]
    if packed:
        rows = pack_padded_sequence(x, lengths, first, enforce_sorted=False)
        output, last = module(rows, hx)
        output, _ = pad_packed_sequence(output, first)
    else:
        output, last = module(x, hx)
    output = output if first else output.swapaxes(0, 1)
    sequences = host(x) if first else host(x).swapaxes(0, 1)
    for b, n in enumerate(lengths):
        initial = [host(s)[:, b] for s in as_pair(kind, hx)]
        wanted, final = loop(module, kind, sequences[b, :n], initial)
        np.testing.assert_allclose(host(output)[b, :n], wanted, atol=1e-13)
        assert not host(output)[b, n:].any()
        for have, want in zip(as_pair(kind, last), final, strict=True):
            np.testing.assert_allclose(host(have)[:, b], want, atol=1e-13)


@pytest.mark.parametrize(("kind", "config"), CONFIGS, ids=names)
def test_gradients(make, device, kind, config):
    module = ready(getattr(nn, kind)(2, 3, **config), device)
    x = make(3, 5, 2) if module.batch_first else make(5, 3, 2)
    layers = module.num_layers * (1 + module.bidirectional)
    hx = as_pair(kind, states_of(kind, make, layers, 3, 3, module.proj_size))

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, x, *hx):
            output, last = self.inner(x, hx if kind == "LSTM" else hx[0])
            return (output, *as_pair(kind, last))

    assert gradcheck_module(Flat(), x, *hx, fast=module.num_layers > 1)  # random directions


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_packed_sequences(make, device, kind):
    module = ready(getattr(nn, kind)(2, 3, bidirectional=True), device)
    state = states_of(kind, make, 2, 3, 3)

    def run(x, *hx):
        rows = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        output, last = module(rows, hx if kind == "LSTM" else hx[0])
        return (pad_packed_sequence(output)[0], *as_pair(kind, last))

    x = make(7, 3, 2)
    assert mt.autograd.gradcheck(run, (x, *as_pair(kind, state)))
    sum(y.sum() for y in run(x, *as_pair(kind, state))).backward()
    for b, n in enumerate(LENGTHS):
        assert host(x.grad)[:n, b].all() and not host(x.grad)[n:, b].any()


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives(make, device, kind):
    module = ready(getattr(nn, kind)(2, 2, bidirectional=True), device)
    assert gradgradcheck(lambda x: module(x)[0], make(3, 2, 2))
    cell = ready(getattr(nn, kind + "Cell")(2, 3), device)
    state = (make(2, 3), make(2, 3)) if kind == "LSTM" else (make(2, 3),)
    assert gradgradcheck(lambda x, *s: cell(x, s if kind == "LSTM" else s[0]), (make(2, 2), *state))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_cells(make, device, kind, bias):
    cell = ready(getattr(nn, kind + "Cell")(2, 3, bias=bias), device)
    x, states = make(5, 2), [make(5, 3) for _ in range(1 + (kind == "LSTM"))]
    got = cell(x, tuple(states) if kind == "LSTM" else states[0])
    weights = [host(p) for p in cell.parameters()]
    for b in range(5):
        wanted = STEPS[kind](host(x)[b], *[host(s)[b] for s in states], *weights)
        for have, want in zip(as_pair(kind, got), wanted, strict=True):
            np.testing.assert_allclose(host(have)[b], want, atol=1e-13)
        one = tuple(s[b] for s in states)
        alone = cell(x[b], one if kind == "LSTM" else one[0])
        for have, want in zip(as_pair(kind, alone), wanted, strict=True):
            np.testing.assert_allclose(host(have), want, atol=1e-13)
    assert gradcheck_module(cell, x)
    assert list(cell.state_dict()) == ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * bias


def test_relu_cell(make, device):
    cell = ready(nn.RNNCell(2, 3, nonlinearity="relu"), device)
    x, h = make(5, 2), make(5, 3)
    wanted = rnn_step(host(x)[0], host(h)[0], *map(host, cell.parameters()), nonlinearity="relu")
    np.testing.assert_allclose(host(cell(x, h))[0], wanted[0], atol=1e-13)
    assert repr(cell) == "RNNCell(2, 3, nonlinearity=relu)"
    assert repr(nn.GRUCell(2, 3, bias=False)) == "GRUCell(2, 3, bias=False)"


@pytest.mark.parametrize("kind", KINDS)
def test_absent_states_are_zeros(make, device, kind):
    module = ready(getattr(nn, kind)(2, 3, 2), device)
    cell = ready(getattr(nn, kind + "Cell")(2, 3), device)
    x = make(5, 3, 2)
    zeros = mt.zeros(2, 3, 3, dtype="float64", device=device)
    for run, given, zero in ((module, x, zeros), (cell, x[0], zeros[0])):
        got, wanted = run(given), run(given, (zero, zero) if kind == "LSTM" else zero)
        got, wanted = (list(y) if isinstance(y, tuple) else [y] for y in (got, wanted))
        np.testing.assert_array_equal(host(got[0]), host(wanted[0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_one_sequence_without_a_batch(make, device, kind, batch_first):
    module = ready(getattr(nn, kind)(2, 3, bidirectional=True, batch_first=batch_first), device)
    x, hx = make(5, 2), states_of(kind, make, 2, 1, 3)
    alone = tuple(s.squeeze(1) for s in hx) if kind == "LSTM" else hx.squeeze(1)
    output, last = module(x, alone)
    wanted, wanted_last = module(x.unsqueeze(0 if batch_first else 1), hx)
    assert output.shape == (5, 6) and as_pair(kind, last)[0].shape == (2, 3)
    np.testing.assert_array_equal(host(output).ravel(), host(wanted).ravel())
    for a, b in zip(as_pair(kind, last), as_pair(kind, wanted_last), strict=True):
        np.testing.assert_array_equal(host(a), host(b)[:, 0])
    assert module(x)[0].shape == (5, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_sorted_or_not_the_sequences_are_the_same(make, device, kind):
    module = ready(getattr(nn, kind)(2, 3), device)
    x, hx = make(5, 3, 2), states_of(kind, make, 1, 3, 3)
    order = [1, 0, 2]
    longest_first = x[:, order], [LENGTHS[i] for i in order]
    one, last = module(pack_padded_sequence(x, LENGTHS, enforce_sorted=False), hx)
    sorted_states = [s[:, order] for s in as_pair(kind, hx)]
    two, sorted_last = module(
        pack_padded_sequence(*longest_first),
        tuple(sorted_states) if kind == "LSTM" else sorted_states[0],
    )
    assert two.sorted_indices is None
    np.testing.assert_array_equal(host(one.data), host(two.data))
    for a, b in zip(as_pair(kind, last), as_pair(kind, sorted_last), strict=True):
        np.testing.assert_array_equal(host(a)[:, order], host(b))


def test_dropout_acts_between_layers_in_training_only(make, device):
    module = ready(nn.GRU(2, 3, 2, dropout=1.0), device)
    x = make(5, 3, 2)
    blind = nn.GRU(3, 3).double().to(device)
    names = ("weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l")
    blind.load_state_dict({n + "0": getattr(module, n + "1") for n in names})
    zeros = mt.zeros(5, 3, 3, dtype="float64", device=device)
    np.testing.assert_array_equal(host(module(x)[0]), host(blind(zeros)[0]))
    plain = ready(nn.GRU(2, 3, 2), device)
    np.testing.assert_array_equal(host(module.eval()(x)[0]), host(plain(x)[0]))
    half = ready(nn.GRU(2, 3, 2, dropout=0.5), device)
    assert gradcheck_module(half, x)
    with pytest.warns(UserWarning, match="num_layers is 1"):
        nn.GRU(2, 3, dropout=0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_stays_float32(make, device, kind):
    module = getattr(nn, kind)(2, 3, 2, bidirectional=True, dropout=0.5).to(device)
    x = make(5, 3, 2, dtype="float32")
    output, last = module(pack_padded_sequence(x, LENGTHS, enforce_sorted=False))
    output.data.sum().backward()
    tensors = [output.data, *as_pair(kind, last), x.grad, *(p.grad for p in module.parameters())]
    assert {t.dtype for t in tensors} == {np.dtype("float32")}


def test_parameters_start_within_the_bound_and_carry_the_names():
    lstm = nn.LSTM(2, 16, 2, bidirectional=True, proj_size=3)
    for p in [*lstm.parameters(), *nn.GRUCell(2, 16).parameters()]:
        assert np.abs(host(p)).max() <= 0.25 and np.unique(host(p)).size > 1
    assert list(lstm.state_dict())[:6] == [
        "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0",
        "weight_ih_l0_reverse",
    ]  # fmt: skip
    assert [len(group) for group in lstm.all_weights] == [5] * 4
    assert lstm.all_weights[3][4] is lstm.weight_hr_l1_reverse
    assert lstm.flatten_parameters() is None
    assert repr(lstm) == "LSTM(2, 16, proj_size=3, num_layers=2, bidirectional=True)"
    assert repr(nn.RNN(2, 3, 1, "relu", False, True)) == "RNN(2, 3, bias=False, batch_first=True)"
    assert nn.RNN(2, 3, nonlinearity="relu").mode == "RNN_RELU"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (dict(input_size=0), ArgumentError), (dict(hidden_size=-1), ArgumentError),
        (dict(num_layers=0), ArgumentError), (dict(input_size=2.0), DTypeError),
        (dict(bias=1), DTypeError), (dict(batch_first="yes"), DTypeError),
        (dict(dropout=1.5), ArgumentError), (dict(dropout=True), ArgumentError),
        (dict(proj_size=3), ArgumentError), (dict(proj_size=-1), ArgumentError),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(settings, error):
    with pytest.raises(error, match=f"LSTM: {next(iter(settings))}"):
        nn.LSTM(**{"input_size": 2, "hidden_size": 3, **settings})


def test_other_settings_that_make_no_sense():
    for make in (nn.RNN, nn.RNNCell):
        with pytest.raises(ArgumentError, match="'tanh' or 'relu'"):
            make(2, 3, nonlinearity="sigmoid")
    with pytest.raises(ArgumentError, match="must be a non-negative integer"):
        nn.GRUCell(-1, 3)
    with pytest.raises(ArgumentError, match="mode"):
        nn.RNNBase("LSTMM", 2, 3)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5, 3, 4), "wrong shape"), ((2,), "wrong shape"), ((1, 5, 3, 2), "wrong shape"),
     ((0, 3, 2), "at least one token"), ((0, 2), "at least one token")],
)  # fmt: skip
def test_wrong_inputs(device, shape, expected):
    with pytest.raises(ShapeError, match=expected):
        nn.GRU(2, 3).to(device)(mt.zeros(shape, device=device))


def test_more_wrong_inputs(device):
    gru, lstm = nn.GRU(2, 3, batch_first=True).to(device), nn.LSTM(2, 3).to(device)
    x, h = mt.zeros(5, 7, 2, device=device), mt.zeros(1, 5, 3, device=device)
    assert gru(x, h)[0].shape == (5, 7, 3)
    assert gru(x[:0])[1].shape == (1, 0, 3)
    with pytest.raises(ShapeError, match="at least one token"):
        gru(x[:, :0])
    with pytest.raises(ShapeError, match="layer \\* direction first in hx"):
        gru(x, h.swapaxes(0, 1))
    with pytest.raises(ShapeError, match=r"\(layer \* direction, hidden\)"):
        gru(x[0], h)
    with pytest.raises(DTypeError, match="different dtypes"):
        gru(x.double())
    with pytest.raises(DTypeError, match="dtype of input"):
        gru(x, h.double())
    with pytest.raises(DTypeError, match="not a tensor"):
        gru(x.tolist())
    with pytest.raises(DTypeError, match="must be a pair"):
        lstm(x, h)
    with pytest.raises(ShapeError, match=r"hx\[1\]"):
        lstm(x, (mt.zeros(1, 7, 3, device=device), h))
    with pytest.raises(ShapeError, match=r"\(row, 2\)"):
        gru(pack_padded_sequence(x[..., :1], [7] * 5, batch_first=True))


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_inputs_of_cells(device, kind):
    cell, pair = getattr(nn, kind + "Cell")(2, 3).to(device), kind == "LSTM"
    x, h = mt.zeros(5, 2, device=device), mt.zeros(5, 3, device=device)
    for wrong in (x[:, :1], x.unsqueeze(0), x[0, 0]):
        with pytest.raises(ShapeError, match="input has the wrong shape"):
            cell(wrong)
    for wrong in (h[:1], h[0], h[:, :2]):
        with pytest.raises(ShapeError, match=r"hx.* has the wrong shape"):
            cell(x, (h, wrong) if pair else wrong)
    with pytest.raises(DTypeError, match="input is not a tensor"):
        cell(x.tolist())
    with pytest.raises(DTypeError, match=r"hx.* (is not a|must be)"):
        cell(x, 3)
