"""Recurrent sequence to sequence against PyTorch's LSTM and GRU: outputs, all gradients."""

import itertools

import numpy as np
import pytest
import torch

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.models import RecurrentDecoder, RecurrentEncoder, Seq2Seq

pytestmark = pytest.mark.parity
TOLERANCE = 1e-9
KINDS = [
    "none", "additive", "general", "dot", "concat", "location", "monotonic", "predictive",
    "general fed", "monotonic fed", "predictive fed",
]  # fmt: skip


def attention_of(kind, hidden, size):
    name = kind.removesuffix(" fed")
    if name == "none":
        return None
    if name == "additive":
        return nn.AdditiveAttention(hidden, size, 4)
    if name in ("monotonic", "predictive"):
        return nn.LuongAttention(hidden, size, local=name, window=2)
    more = {"concat": {"hidden_dim": 4}, "location": {"max_length": 5}}.get(name, {})
    return nn.LuongAttention(hidden, size, score=name, **more)


class Peer:
    """The same model from PyTorch's recurrent layers, on the parameters of ours."""

    def __init__(self, model, kind):
        self.model, self.kind = model, kind
        self.p = {
            name: torch.tensor(p.detach().numpy(), requires_grad=True)
            for name, p in model.named_parameters()
        }

    def layers(self, side, x, *state):
        rnn = getattr(self.model, side).rnn
        layer = getattr(torch.nn, rnn.mode)(
            rnn.input_size, rnn.hidden_size, rnn.num_layers, batch_first=True,
            bidirectional=rnn.bidirectional,
        ).double()  # fmt: skip
        mine = {n: self.p[f"{side}.rnn.{n}"] for n, _ in layer.named_parameters()}
        output, state = torch.func.functional_call(layer, mine, (x, *state))
        return output, state if isinstance(state, tuple) else (state,)

    def encode(self, source, lengths):
        x = self.p["encoder.embedding.weight"][source]
        reverse = self.model.encoder.reverse
        if reverse:
            x = torch.stack([self.turned(row, n) for row, n in zip(x, lengths, strict=True)])
        pack = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, True, False)
        memory, state = self.layers("encoder", pack)
        memory, _ = torch.nn.utils.rnn.pad_packed_sequence(memory, True, 0.0, source.shape[1])
        if reverse:
            memory = torch.stack([self.turned(m, n) for m, n in zip(memory, lengths, strict=True)])
        if self.model.bridge is not None:
            if self.model.encoder.rnn.bidirectional:
                state = [torch.cat([s[0::2], s[1::2]], -1) for s in state]
            state = [
                torch.tanh(s @ self.p[f"bridge.{i}.weight"].T + self.p[f"bridge.{i}.bias"])
                for i, s in enumerate(state)
            ]
        return memory, tuple(state)

    @staticmethod
    def turned(row, n):
        return torch.cat([row[:n].flip(0), row[n:]])

    def weight(self, name):
        return self.p[f"decoder.attention.{name}.weight"]

    def scores(self, query, memory, blocked, t):
        """Weights (batch, key) of one query (batch, hidden)."""
        a, name, size = self.model.decoder.attention, self.kind.removesuffix(" fed"), len(memory[0])
        s = torch.arange(size)
        if name == "additive":
            hidden = (query @ self.weight("W_q").T)[:, None] + memory @ self.weight("W_k").T
            scores = (torch.tanh(hidden) @ self.weight("v").T)[..., 0]
        elif name == "dot":
            scores = torch.einsum("bd,bsd->bs", query, memory)
        elif name == "concat":
            both = torch.cat([query[:, None].expand(-1, size, -1), memory], -1)
            scores = (torch.tanh(both @ self.weight("W").T) @ self.weight("v").T)[..., 0]
        elif name == "location":
            scores = query @ self.weight("W").T
            far = torch.zeros(len(query), max(size - a.max_length, 0), dtype=torch.float64)
            scores = torch.cat([scores[:, :size], far], 1)
            blocked = blocked | (s >= a.max_length)
        else:
            scores = torch.einsum("bd,de,bse->bs", query, self.weight("W"), memory)
        if name == "monotonic":
            outside = (s - t).abs() > 2
            blocked = blocked | outside
        if name == "predictive":
            inner = torch.tanh(query @ self.weight("W_p").T) @ self.weight("v_p").T
            center = (~blocked).sum(1, keepdim=True) * torch.sigmoid(inner)
            blocked = blocked | ((s - center).abs() > 2)
        weights = torch.softmax(scores.masked_fill(blocked, -torch.inf), -1).nan_to_num(0.0)
        if name == "predictive":
            weights = weights * torch.exp(-((s - center) ** 2) / 2)  # sigma = D/2 = 1
        return weights

    def __call__(self, source, target, lengths):
        memory, state = self.encode(source, lengths)
        blocked = torch.arange(source.shape[1]) >= torch.tensor(lengths)[:, None]
        y, logits = self.p["decoder.embedding.weight"][target], []
        fed = torch.zeros(len(y), self.model.decoder.rnn.hidden_size, dtype=torch.float64)
        for t in range(target.shape[1]):
            x = y[:, t]
            if self.kind == "additive":
                weights = self.scores(state[0][-1], memory, blocked, t)
                x = torch.cat([x, torch.einsum("bs,bsd->bd", weights, memory)], -1)
            elif self.model.decoder.input_feeding:
                x = torch.cat([x, fed], -1)
            output, state = self.layers(
                "decoder", x[:, None], state if len(state) == 2 else state[0]
            )
            output = output[:, 0]
            if self.kind == "additive":
                context = x[:, y.shape[-1] :]
                output = torch.cat([output, context], -1)
            elif self.kind != "none":
                weights = self.scores(output, memory, blocked, t)
                context = torch.einsum("bs,bsd->bd", weights, memory)
                bias = self.p["decoder.attention.W_c.bias"]
                both = torch.cat([context, output], -1)
                output = fed = torch.tanh(both @ self.weight("W_c").T + bias)
            logits.append(output @ self.p["decoder.out.weight"].T + self.p["decoder.out.bias"])
        return torch.stack(logits, 1)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_gradients(kind, cell, device):
    rng = np.random.default_rng(7)
    for layers, both, reverse in itertools.product((1, 2), (False, True), (False, True)):
        hidden = 6 if both and kind == "dot" else 3  # "dot" needs equal sizes
        size = hidden if kind == "dot" else (2 * hidden if both else hidden)
        read = size // 2 if both else size
        mt.manual_seed(3)
        encoder = RecurrentEncoder(11, 5, read, layers, cell, both, reverse)
        attention = attention_of(kind, hidden, size)
        decoder = RecurrentDecoder(7, 2, hidden, attention, layers, cell, kind.endswith("fed"))
        model = Seq2Seq(encoder, decoder, pad_id=0).double().to(device)
        for p in model.parameters():
            p.data = mt.tensor(rng.uniform(-0.9, 0.9, p.shape), device=device)
        batch, width = int(rng.integers(1, 5)), int(rng.integers(2, 8))
        lengths = [int(n) for n in rng.integers(1, width + 1, batch)]
        source = rng.integers(1, 11, (batch, width))
        source[np.arange(width) >= np.array(lengths)[:, None]] = 0
        target = rng.integers(0, 7, (batch, int(rng.integers(1, 6))))
        peer = Peer(model, kind)
        wanted = peer(torch.tensor(source), torch.tensor(target), lengths)
        got = model(mt.tensor(source, device=device), mt.tensor(target, device=device))
        np.testing.assert_allclose(
            got.detach().numpy(), wanted.detach().numpy(), TOLERANCE, TOLERANCE
        )
        cotangent = rng.uniform(-1, 1, got.shape)
        got.backward(mt.tensor(cotangent, device=device))
        wanted.backward(torch.tensor(cotangent))
        for name, p in model.named_parameters():
            reference = peer.p[name].grad
            reference = np.zeros(p.shape) if reference is None else reference.numpy()
            have = np.zeros(p.shape) if p.grad is None else p.grad.numpy()
            np.testing.assert_allclose(have, reference, TOLERANCE, TOLERANCE, err_msg=name)
