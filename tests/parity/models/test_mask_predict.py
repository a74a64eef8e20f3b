"""Mask-Predict's model against PyTorch's Transformer layers: outputs, length, all gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.models.peers import check
from parity.models.test_transformer import (
    TOLERANCE,
    check_gradients,
    configurations,
    embedded,
    stacks,
    with_equal_parameters,
)

import minitorch_attn as mt
from minitorch_attn.models import ConditionalMaskedLM
from minitorch_attn.models.mask_predict import cmlm_loss

pytestmark = pytest.mark.parity
LONGEST = 7


class Peer(torch.nn.Module):
    """One embedding, PyTorch's two stacks without a causal mask, and the two heads."""

    def __init__(self, settings):
        super().__init__()
        width = settings["embed_dim"]
        self.source = torch.nn.Embedding(settings["vocab_size"], width)
        self.encoder, self.decoder = stacks(settings)
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


def one_vocabulary(config):
    return {name: value for name, value in config.items() if name != "target_vocab_size"}


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=12, deadline=None)
@given(configurations().map(one_vocabulary), st.integers(0, 2**32 - 1))
def test_outputs_loss_and_gradients(config, seed):
    rng = np.random.default_rng(seed)
    peer = Peer(config).double()
    ours = ConditionalMaskedLM(**config, dropout=0.0, max_len=9, max_target_len=LONGEST).double()
    theirs = with_equal_parameters(ours, peer, rng)
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
    check_gradients(ours, theirs)
