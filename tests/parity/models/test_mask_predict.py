"""Mask-Predict's model against PyTorch's Transformer layers: outputs, length, all gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.models.peers import check
from parity.models.test_transformer import TOLERANCE, embedded, in_torch, part

import minitorch_attn as mt
from minitorch_attn.models import ConditionalMaskedLM
from minitorch_attn.models.mask_predict import cmlm_loss

pytestmark = pytest.mark.parity
LONGEST = 7


class Peer(torch.nn.Module):
    """One embedding, PyTorch's two stacks without a causal mask, and the two heads."""

    def __init__(self, settings):
        super().__init__()
        width, norm_first = settings["embed_dim"], settings["norm_first"]
        layer = dict(
            d_model=width, nhead=settings["num_heads"], dim_feedforward=settings["ff_dim"],
            dropout=0.0, activation=settings["activation"], norm_first=norm_first,
            layer_norm_eps=settings["eps"], batch_first=True,
        )  # fmt: skip

        def norm():
            return torch.nn.LayerNorm(width, settings["eps"]) if norm_first else None

        self.source = torch.nn.Embedding(settings["vocab_size"], width)
        self.encoder = torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(**layer), settings["num_encoder_layers"], norm(),
            enable_nested_tensor=False,
        )  # fmt: skip
        self.decoder = torch.nn.TransformerDecoder(
            torch.nn.TransformerDecoderLayer(**layer), settings["num_decoder_layers"], norm()
        )
        self.length_token = torch.nn.Parameter(torch.zeros(width))
        self.length_head = torch.nn.Linear(width, LONGEST + 1)

    def forward(self, source, target):
        zero = torch.zeros_like(source[:, :1])
        x = embedded(self.source, torch.cat([zero, source], 1))  # row 0 gives way to [LENGTH]
        change = (self.length_token - self.source.weight[0]) * self.source.embedding_dim**0.5
        first = torch.arange(x.shape[1])[:, None] == 0
        hidden = torch.cat([zero + 1, source], 1) == 0
        x = self.encoder(x + first * change, src_key_padding_mask=hidden)
        y = self.decoder(
            embedded(self.source, target), x[:, 1:], tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=hidden[:, 1:],
        )  # fmt: skip
        return y @ self.source.weight.T, self.length_head(x[:, 0])


@st.composite
def configurations(draw):
    heads = draw(st.sampled_from([1, 2, 3]))
    return dict(
        vocab_size=11, embed_dim=2 * heads * draw(st.sampled_from([1, 2])), num_heads=heads,
        ff_dim=draw(st.sampled_from([5, 8])),
        num_encoder_layers=draw(st.sampled_from([1, 2])),
        num_decoder_layers=draw(st.sampled_from([1, 2])),
        activation=draw(st.sampled_from(["relu", "gelu"])), norm_first=draw(st.booleans()),
        eps=draw(st.sampled_from([1e-5, 1e-2])),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=12, deadline=None)
@given(configurations(), st.integers(0, 2**32 - 1))
def test_outputs_loss_and_gradients(config, seed):
    rng = np.random.default_rng(seed)
    peer = Peer(config).double()
    ours = ConditionalMaskedLM(**config, dropout=0.0, max_len=9, max_target_len=LONGEST).double()
    with torch.no_grad():
        for p in peer.parameters():
            p.copy_(torch.tensor(rng.uniform(-1, 1, p.shape)))
    theirs = dict(peer.named_parameters())
    for name, parameter in ours.named_parameters():
        source, third = in_torch(name)
        parameter.data = mt.tensor(part(theirs[source].detach().numpy(), third))
    source, target = rng.integers(1, 11, (3, 7)), rng.integers(2, 11, (3, 5))
    source[1, 4:], source[2, 2:], target[0, 3:], target[1, 1:] = 0, 0, 0, 0
    masked = (rng.random((3, 5)) < 0.5) & (target != 0)
    masked[2, 2] = True
    read = np.where(masked, 1, target)
    expected = peer(torch.tensor(source), torch.tensor(read))
    found = ours(mt.tensor(source), mt.tensor(read))
    wanted = torch.nn.functional.cross_entropy(
        expected[0][torch.tensor(masked)], torch.tensor(target[masked])
    ) + torch.nn.functional.cross_entropy(expected[1], torch.tensor((target != 0).sum(1)))
    loss = cmlm_loss(found[0], mt.tensor(target), mt.tensor(masked), found[1])
    check("loss", loss.numpy(), wanted.detach().numpy(), TOLERANCE)
    for mine, other in zip(found, expected, strict=True):
        check("logits", mine.numpy(), other.detach().numpy(), TOLERANCE)
    wanted.backward()
    loss.backward()
    largest = max(float(p.grad.abs().max()) for p in peer.parameters())
    seen = set()
    for name, parameter in ours.named_parameters():
        source, third = in_torch(name)
        gradient = part(theirs[source].grad.numpy(), third)
        check(name, parameter.grad.numpy(), gradient, TOLERANCE, largest * 1e-6)
        seen.add(source)
    assert seen == set(theirs)
