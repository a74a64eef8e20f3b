"""Recurrent layers, cells and packing against PyTorch, in random configurations."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parity import tally

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.nn.utils import rnn as ours_rnn

torch = pytest.importorskip("torch")
theirs_rnn = torch.nn.utils.rnn
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:.*dropout.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning"),
]


@pytest.fixture
def drawn(draws):
    """Hypothesis's settings for a property."""
    default = draws == tally.DEFAULT_DRAWS
    return settings(
        deadline=None, max_examples=4 * draws, derandomize=default, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


class Pair:
    """The same values for both libraries, and their gradients in both."""

    def __init__(self, rng, device):
        self.rng, self.device, self.leaves, self.label = rng, device, [], None

    def leaf(self, *shape):
        value = self.rng.uniform(-1, 1, shape)
        a = mt.tensor(value, device=self.device, requires_grad=True)
        b = torch.tensor(value, requires_grad=True)
        self.leaves.append((a, b))
        return a, b

    def layer(self, name, *args, **kwargs):
        peer = getattr(torch.nn, name)(*args, **kwargs).double()
        ours = getattr(nn, name)(*args, **kwargs).double().to(self.device)
        assert repr(ours) == repr(peer)
        self.label = f"nn.{name}"
        with torch.no_grad():
            for p in peer.parameters():
                p.copy_(torch.from_numpy(self.rng.uniform(-0.9, 0.9, tuple(p.shape))))
        assert list(ours.state_dict()) == list(peer.state_dict())
        ours.load_state_dict({k: v.numpy() for k, v in peer.state_dict().items()})
        self.leaves += zip(ours.parameters(), peer.parameters(), strict=True)
        return ours, peer

    def compare(self, got, wanted, second=False):
        """Outputs, gradients of every leaf under a random cotangent, and second derivatives."""
        total, reference = 0.0, 0.0
        for a, b in zip(got, wanted, strict=True):
            close(a, b)
            cotangent = self.rng.normal(size=a.shape)
            total = total + (a * mt.tensor(cotangent, device=self.device)).sum()
            reference = reference + (b * torch.from_numpy(cotangent)).sum()
        if second:
            mine, peers = zip(*self.leaves, strict=True)
            grads = mt.autograd.grad(total, mine, create_graph=True)
            peer_grads = torch.autograd.grad(reference, peers, create_graph=True)
            total, reference = 0.0, 0.0
            for a, b in zip(grads, peer_grads, strict=True):
                cotangent = self.rng.normal(size=a.shape)
                total = total + (a * mt.tensor(cotangent, device=self.device)).sum()
                reference = reference + (b * torch.from_numpy(cotangent)).sum()
        total.backward()
        reference.backward()
        for a, b in self.leaves:
            close(a.grad, torch.zeros_like(b) if b.grad is None else b.grad)
        tally.compared[self.label] += 1
        tally.second[self.label] += second


def close(a, b):
    wanted = b.detach().numpy()
    got = np.zeros(wanted.shape) if a is None else a.detach().numpy()
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    scale = max(np.abs(wanted).max(initial=0), 1e-3)
    np.testing.assert_allclose(got / scale, wanted / scale, atol=1e-10)


configurations = st.fixed_dictionaries(
    dict(
        kind=st.sampled_from(["RNN", "LSTM", "GRU"]),
        input_size=st.integers(1, 5),
        hidden_size=st.integers(2, 6),
        num_layers=st.integers(1, 3),
        bias=st.booleans(),
        batch_first=st.booleans(),
        bidirectional=st.booleans(),
        dropout=st.sampled_from([0.0, 1.0, 0.5]),
        relu=st.booleans(),
        proj_size=st.sampled_from([0, 1]),
    )
)
inputs = st.fixed_dictionaries(
    dict(
        form=st.sampled_from(["padded", "packed", "packed", "sorted", "unbatched"]),
        lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
        extra=st.integers(0, 2),
        with_state=st.booleans(),
        strided=st.booleans(),
        seed=st.integers(0, 2**20),
    )
)


def flat(kind, output, last):
    return (output, *last) if kind == "LSTM" else (output, last)


def run(pair, layer, which, kind, config, x, states, given):
    """Output and last states of one library; `which` says whose functions to use."""
    packing = (ours_rnn, theirs_rnn)[which]
    lengths, first = given["lengths"], config["batch_first"]
    hx = None
    if given["with_state"]:
        hx = tuple(s[which] for s in states) if kind == "LSTM" else states[0][which]
    x = x[which]
    if given["strided"] and x.ndim == 3:
        x = (x.swapaxes(0, 1) * 1).swapaxes(0, 1)
    if given["form"] in ("padded", "unbatched"):
        return flat(kind, *layer(x, hx))
    total = max(lengths) + given["extra"]
    if given["form"] == "sorted":
        lengths = sorted(lengths, reverse=True)
    packed = packing.pack_padded_sequence(x, lengths, first, given["form"] == "sorted")
    output, last = layer(packed, hx)
    padded, counted = packing.pad_packed_sequence(output, first, total_length=total)
    assert counted.tolist() == lengths
    return (*flat(kind, padded, last), output.data)


@pytest.mark.parametrize("second", [False, True])
def test_layers(device, drawn, second):
    @drawn
    @given(config=configurations, given=inputs)
    def check(config, given):
        config, lengths = dict(config), given["lengths"]
        kind, relu, proj = (config.pop(k) for k in ("kind", "relu", "proj_size"))
        if kind == "RNN":
            config["nonlinearity"] = "relu" if relu else "tanh"
        elif kind == "LSTM":
            config["proj_size"] = proj
        pair = Pair(np.random.default_rng(given["seed"]), device)
        ours, peer = pair.layer(kind, **config)
        if config["dropout"] == 0.5:  # another mask in each library
            ours, peer = ours.eval(), peer.eval()
        total, batch = max(lengths) + given["extra"], len(lengths)
        lead = (batch, total) if config["batch_first"] else (total, batch)
        lead = (total,) if given["form"] == "unbatched" else lead
        x = pair.leaf(*lead, config["input_size"])
        layers = config["num_layers"] * (1 + config["bidirectional"])
        middle = () if given["form"] == "unbatched" else (batch,)
        sizes = [config["hidden_size"]]
        if kind == "LSTM":
            sizes = [proj or config["hidden_size"], *sizes]
        states = [pair.leaf(layers, *middle, n) for n in sizes] if given["with_state"] else ()
        results = [
            run(pair, layer, which, kind, config, x, states, given)
            for which, layer in enumerate((ours, peer))
        ]
        if not given["with_state"]:
            assert all(a.shape == tuple(b.shape) for a, b in zip(*results, strict=True))
        pair.compare(*results, second=second)

    check()


cells = st.fixed_dictionaries(
    dict(
        kind=st.sampled_from(["RNN", "LSTM", "GRU"]),
        sizes=st.tuples(st.integers(0, 5), st.integers(1, 6)),
        bias=st.booleans(),
        relu=st.booleans(),
        batch=st.one_of(st.none(), st.integers(0, 4)),
        with_state=st.booleans(),
        seed=st.integers(0, 2**20),
    )
)


@pytest.mark.parametrize("second", [False, True])
def test_cells(device, drawn, second):
    @drawn
    @given(given=cells)
    def check(given):
        kind, (size, hidden) = given["kind"], given["sizes"]
        pair = Pair(np.random.default_rng(given["seed"]), device)
        config = {"nonlinearity": "relu"} if kind == "RNN" and given["relu"] else {}
        layers = pair.layer(kind + "Cell", size, hidden, bias=given["bias"], **config)
        lead = () if given["batch"] is None else (given["batch"],)
        x, states = pair.leaf(*lead, size), None
        if given["with_state"]:
            states = [pair.leaf(*lead, hidden) for _ in range(1 + (kind == "LSTM"))]
        results = []
        for which, cell in enumerate(layers):
            hx = None if states is None else tuple(s[which] for s in states)
            y = cell(x[which], hx if hx is None or kind == "LSTM" else hx[0])
            results.append(y if isinstance(y, tuple) else (y,))
        pair.compare(*results, second=second)

    check()


bags = st.fixed_dictionaries(
    dict(
        lengths=st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any),
        rest=st.lists(st.integers(1, 3), max_size=2),
        batch_first=st.booleans(),
        value=st.sampled_from([0.0, 1.5, -2.0, float("inf")]),
        side=st.sampled_from(["right", "left"]),
        enforce_sorted=st.booleans(),
        seed=st.integers(0, 2**20),
    )
)


def packed_and_back(packing, sequences, given):
    """Everything that the functions of packing make of some sequences."""
    first, value = given["batch_first"], given["value"]
    lengths = [len(s) for s in sequences]
    batch = packing.pad_sequence(sequences, first, value, given["side"])
    yield from (batch, *packing.unpad_sequence(batch * 1, batch.new_tensor(lengths), first))
    packed = packing.pack_padded_sequence(batch, lengths, first, given["enforce_sorted"])
    yield packed.data
    yield packed.batch_sizes
    if not given["enforce_sorted"]:
        yield packed.unsorted_indices[packed.sorted_indices]
    yield from packing.pad_packed_sequence(packed, first, value, max(lengths) + 1)
    yield from packing.unpack_sequence(packed)
    yield packing.pack_sequence(sequences, given["enforce_sorted"]).data


def test_packing(device, drawn):
    @drawn
    @given(given=bags)
    def check(given):
        pair = Pair(np.random.default_rng(given["seed"]), device)
        pair.label = "nn.utils.rnn"
        sequences = [pair.leaf(n, *given["rest"]) for n in given["lengths"]]
        results, refused = [], []
        for which, packing in enumerate((ours_rnn, theirs_rnn)):
            made = []
            try:
                made += packed_and_back(packing, [s[which] for s in sequences], given)
            except (RuntimeError, ValueError):
                refused.append(which)
            results.append(made)
        assert len(refused) != 1
        tally.refused["nn.utils.rnn"] += bool(refused)
        if refused:
            return
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        floats = [(a, b) for a, b in zip(*results, strict=True) if b.is_floating_point()]
        if given["value"] != float("inf"):
            pair.compare(*zip(*floats, strict=True))

    check()


class TorchSeq2Seq(torch.nn.Module):
    """The contract's formulas, literally."""

    def __init__(self, n_in, n_out, hidden):
        super().__init__()
        self.encoder = torch.nn.GRU(n_in, hidden, batch_first=True, bidirectional=True)
        self.attn = torch.nn.Module()
        self.attn.W_q = torch.nn.Linear(hidden, hidden, bias=False)
        self.attn.W_k = torch.nn.Linear(2 * hidden, hidden, bias=False)
        self.attn.v = torch.nn.Linear(hidden, 1, bias=False)
        self.cell = torch.nn.GRUCell(n_out + 2 * hidden, hidden)
        self.init = torch.nn.Linear(2 * hidden, hidden)
        self.out = torch.nn.Linear(3 * hidden, n_out)

    def forward(self, x, y, pad):
        memory, hn = self.encoder(x)
        h = torch.tanh(self.init(torch.cat([hn[0], hn[1]], -1)))
        outputs, weights = [], []
        for t in range(y.shape[1]):
            a, b = self.attn.W_q(h)[:, None], self.attn.W_k(memory)
            scores = self.attn.v(torch.tanh(a + b)).squeeze(-1)
            w = torch.softmax(scores.masked_fill(pad, -torch.inf), -1)
            context = (w[:, None] @ memory).squeeze(1)
            h = self.cell(torch.cat([y[:, t], context], -1), h)
            outputs.append(self.out(torch.cat([h, context], -1)))
            weights.append(w)
        return torch.stack(outputs, 1), torch.stack(weights, 1)


def test_sequence_to_sequence(device, drawn):
    @drawn
    @given(
        sizes=st.tuples(*[st.integers(1, 5)] * 3),
        lengths=st.tuples(*[st.integers(1, 4)] * 3),
        seed=st.integers(0, 2**20),
    )
    def check(sizes, lengths, seed):
        rng = np.random.default_rng(seed)
        pair = Pair(rng, device)
        batch, source, target = lengths
        peer = TorchSeq2Seq(*sizes).double()
        ours = nn.AttentionSeq2Seq(*sizes).double().to(device)
        names = {k: tuple(v.shape) for k, v in peer.state_dict().items()}
        assert {k: v.shape for k, v in ours.state_dict().items()} == names
        ours.load_state_dict({k: v.numpy() for k, v in peer.state_dict().items()})
        theirs = dict(peer.named_parameters())
        pair.leaves += [(p, theirs[name]) for name, p in ours.named_parameters()]
        pair.label = "nn.AttentionSeq2Seq"
        pad = rng.random((batch, source)) < 0.4
        pad[:, rng.integers(source)] = False
        x, y = pair.leaf(batch, source, sizes[0]), pair.leaf(batch, target, sizes[1])
        got = ours(x[0], y[0], mt.tensor(pad, device=device))
        pair.compare(got, peer(x[1], y[1], torch.from_numpy(pad)))

    check()
