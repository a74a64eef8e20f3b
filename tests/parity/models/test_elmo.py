"""ELMo's biLM against PyTorch's convolutions, LSTMs and packed sequences: outputs, gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.models.peers import check
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import minitorch_attn as mt
from minitorch_attn.models import BiLM, ELMo, ScalarMix
from minitorch_attn.models.elmo import bilm_loss

TOLERANCE = 1e-9


class Peer(torch.nn.Module):
    """The same modules of PyTorch, named as ours."""

    def __init__(self, config, vocab_size):
        super().__init__()
        filters, width = config["filters"], config["embed_dim"]
        total = sum(count for _, count in filters)

        def several(make, count):
            return torch.nn.ModuleList(make() for _ in range(count))

        def lstm():
            return torch.nn.LSTM(width, config["hidden_dim"], batch_first=True, proj_size=width)

        self.elmo = torch.nn.Module()
        encoder = self.elmo.encoder = torch.nn.Module()
        encoder.embedding = torch.nn.Embedding(config["num_characters"], config["char_dim"], 0)
        encoder.convolutions = torch.nn.ModuleList(
            torch.nn.Conv1d(config["char_dim"], count, size) for size, count in filters
        )
        encoder.highway = torch.nn.Module()
        for name in ("transforms", "gates"):
            layers = several(lambda: torch.nn.Linear(total, total), config["num_highway"])
            setattr(encoder.highway, name, layers)
        encoder.projection = torch.nn.Linear(total, width)
        self.elmo.forward_layers = several(lstm, config["num_layers"])
        self.elmo.backward_layers = several(lstm, config["num_layers"])
        self.output = torch.nn.Linear(width, vocab_size)

    def words(self, characters):
        encoder = self.elmo.encoder
        x = encoder.embedding(characters).flatten(0, 1).transpose(1, 2)
        x = torch.cat([conv(x).relu().max(-1).values for conv in encoder.convolutions], -1)
        for transform, gate in zip(encoder.highway.transforms, encoder.highway.gates, strict=True):
            t = torch.sigmoid(gate(x))
            x = t * transform(x).relu() + (1 - t) * x
        return encoder.projection(x).reshape(*characters.shape[:2], -1)

    def forward(self, characters, lengths):
        """All layers, the words reversed one sentence at a time."""
        words = self.words(characters)
        sides = []
        for layers, backward in ((self.elmo.forward_layers, 0), (self.elmo.backward_layers, 1)):

            def turned(x, backward=backward):
                if not backward:
                    return x
                rows = [torch.cat([r[:n].flip(0), r[n:]]) for r, n in zip(x, lengths, strict=True)]
                return torch.stack(rows)

            x, outputs = turned(words), [words]
            for layer, lstm in enumerate(layers):
                packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                y = pad_packed_sequence(lstm(packed)[0], batch_first=True)[0]
                x = y + x if layer else y
                outputs.append(turned(x))
            sides.append(torch.stack(outputs))
        return torch.cat(sides, -1)


def peer_loss(to_right, to_left, ids, lengths):
    """Each sentence cut to its length; the mean over all predictions of a direction."""
    pairs = [[], []]
    for row, n in enumerate(lengths):
        pairs[0] += [(to_right[row, k], ids[row, k + 1]) for k in range(n - 1)]
        pairs[1] += [(to_left[row, k], ids[row, k - 1]) for k in range(1, n)]
    return sum(
        torch.nn.functional.cross_entropy(
            torch.stack([logits for logits, _ in side]), torch.stack([word for _, word in side])
        )
        for side in pairs
    )


@st.composite
def configurations(draw):
    embed_dim = draw(st.sampled_from([1, 2, 3]))
    return dict(
        num_characters=11, char_dim=draw(st.sampled_from([1, 3])), embed_dim=embed_dim,
        filters=draw(st.sampled_from([[(1, 2)], [(3, 5)], [(1, 2), (2, 1), (3, 5)]])),
        num_highway=draw(st.sampled_from([0, 1, 2])),
        hidden_dim=embed_dim + draw(st.sampled_from([1, 4])),
        num_layers=draw(st.sampled_from([1, 2, 3])),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=12, deadline=None)
@given(configurations(), st.lists(st.integers(1, 5), max_size=3), st.integers(0, 2**32 - 1))
def test_outputs_and_gradients(config, lengths, seed):
    rng = np.random.default_rng(seed)
    lengths = [5, *lengths]
    peer = Peer(config, 7).double()
    ours, mix = BiLM(7, ELMo(**config)).double(), ScalarMix(config["num_layers"] + 1).double()
    theirs = dict(peer.named_parameters())
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            values = rng.uniform(-1, 1, parameter.shape)
            theirs[name].copy_(torch.tensor(values))
            parameter.data = mt.tensor(values)
    shape = (len(lengths), 5)
    characters, ids = rng.integers(0, 11, (*shape, 4)), rng.integers(0, 7, shape)
    blocked = np.arange(5) >= np.array(lengths)[:, None]
    weight = np.where(blocked[..., None], 0, rng.normal(size=(*shape, 2 * config["embed_dim"])))

    layers = peer(torch.tensor(characters), lengths)
    to_right, to_left = map(peer.output, layers[-1].chunk(2, -1))
    expected = peer_loss(to_right, to_left, torch.tensor(ids), lengths)
    (expected + (layers.mean(0) * torch.tensor(weight)).sum()).backward()

    mask = mt.tensor(blocked)
    found = ours.elmo(mt.tensor(characters), mask)
    logits = ours(mt.tensor(characters), mask)
    loss = bilm_loss(*logits, mt.tensor(ids), mask)
    (loss + (mix(found) * mt.tensor(weight)).sum()).backward()

    real = ~blocked
    check("layers", found.numpy()[:, real], layers.detach().numpy()[:, real], TOLERANCE)
    check("loss", loss.numpy(), expected.detach().numpy(), TOLERANCE)
    largest = max(float(p.grad.abs().max()) for p in peer.parameters())
    for name, parameter in ours.named_parameters():
        gradient = theirs.pop(name).grad.numpy()
        check(name, parameter.grad.numpy(), gradient, TOLERANCE, largest * 1e-6)
    assert not theirs
