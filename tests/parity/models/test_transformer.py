"""The Transformer against PyTorch's Transformer layers: outputs, all gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.models.peers import check

import minitorch_attn as mt
from minitorch_attn.models import Transformer

TOLERANCE = 1e-9


def stacks(settings):
    """PyTorch's encoder and decoder with the sizes of `settings`."""
    width, norm_first = settings["embed_dim"], settings["norm_first"]
    layer = dict(
        d_model=width, nhead=settings["num_heads"], dim_feedforward=settings["ff_dim"],
        dropout=0.0, activation=settings["activation"], norm_first=norm_first,
        layer_norm_eps=settings["eps"], batch_first=True,
    )  # fmt: skip

    def norm():
        return torch.nn.LayerNorm(width, settings["eps"]) if norm_first else None

    encoder = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(**layer), settings["num_encoder_layers"], norm(),
        enable_nested_tensor=False,
    )  # fmt: skip
    decoder = torch.nn.TransformerDecoder(
        torch.nn.TransformerDecoderLayer(**layer), settings["num_decoder_layers"], norm()
    )
    return encoder, decoder


class Peer(torch.nn.Module):
    """Embeddings, PyTorch's two stacks, and a head."""

    def __init__(self, settings):
        super().__init__()
        width = settings["embed_dim"]
        self.source = torch.nn.Embedding(settings["vocab_size"], width)
        self.target = torch.nn.Embedding(settings["target_vocab_size"], width)
        self.encoder, self.decoder = stacks(settings)
        self.head = torch.nn.Linear(width, settings["target_vocab_size"], bias=False)

    def forward(self, source, target, pad_id):
        hidden = source == pad_id
        memory = self.encoder(embedded(self.source, source), src_key_padding_mask=hidden)
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        x = self.decoder(
            embedded(self.target, target), memory, tgt_mask=later, memory_key_padding_mask=hidden
        )
        return self.head(x)


def embedded(table, ids):
    """Scaled vectors and sinusoidal positions, from the formulas."""
    width = table.embedding_dim
    position = torch.arange(ids.shape[1], dtype=torch.float64)[:, None]
    angle = position / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    positions = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    return table(ids) * width**0.5 + positions


NAMES = {
    "around_attention.norm": "norm1",
    "around_cross_attention.norm": "norm2",
    "cross_attention": "multihead_attn",
    "attention": "self_attn",
    "feed_forward.": "",
}


def in_torch(name):
    """PyTorch's name of one of our tensors, and which third of it, for query, key and value."""
    name = name.replace("source_embedding.tokens", "source")
    name = name.replace("target_embedding.tokens", "target")
    last = "norm3" if name.startswith("decoder") else "norm2"
    name = name.replace("around_feed_forward.norm", last)
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    for third, letter in enumerate("qkv"):
        for kind in ("weight", "bias"):
            if name.endswith(f"{letter}_proj.{kind}"):
                return name.replace(f"{letter}_proj.{kind}", f"in_proj_{kind}"), third
    return name, None


def part(array, third):
    return array if third is None else np.split(array, 3)[third]


def with_equal_parameters(ours, peer, rng):
    """Draw PyTorch's parameters and copy them to our model; return PyTorch's, by name."""
    with torch.no_grad():
        for p in peer.parameters():
            p.copy_(torch.tensor(rng.uniform(-1, 1, p.shape)))
    theirs = dict(peer.named_parameters())
    for name, parameter in ours.named_parameters():
        source, third = in_torch(name)
        parameter.data = mt.tensor(part(theirs[source].detach().numpy(), third))
    return theirs


def check_gradients(ours, theirs):
    """Every gradient of our model equals PyTorch's, and no parameter of PyTorch is left out."""
    largest = max(float(p.grad.abs().max()) for p in theirs.values())
    seen = set()
    for name, parameter in ours.named_parameters():
        source, third = in_torch(name)
        gradient = part(theirs[source].grad.numpy(), third)
        check(name, parameter.grad.numpy(), gradient, TOLERANCE, largest * 1e-6)
        seen.add(source)
    assert seen == set(theirs)


@st.composite
def configurations(draw):
    heads = draw(st.sampled_from([1, 2, 3]))
    return dict(
        vocab_size=11, target_vocab_size=13, embed_dim=2 * heads * draw(st.sampled_from([1, 2])),
        num_heads=heads, ff_dim=draw(st.sampled_from([5, 8])),
        num_encoder_layers=draw(st.sampled_from([1, 2])),
        num_decoder_layers=draw(st.sampled_from([1, 2])),
        activation=draw(st.sampled_from(["relu", "gelu"])), norm_first=draw(st.booleans()),
        eps=draw(st.sampled_from([1e-5, 1e-2])),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=12, deadline=None)
@given(configurations(), st.integers(0, 2**32 - 1))
def test_outputs_and_gradients(config, seed):
    rng = np.random.default_rng(seed)
    peer = Peer(config).double()
    ours = Transformer(**config, dropout=0.0, pad_id=0, tie_weights=False, max_len=9).double()
    theirs = with_equal_parameters(ours, peer, rng)
    source, target = rng.integers(1, 11, (3, 7)), rng.integers(0, 13, (3, 5))
    source[1, 4:], source[2, 2:] = 0, 0
    expected = peer(torch.tensor(source), torch.tensor(target), 0)
    found = ours(mt.tensor(source), mt.tensor(target))
    check("logits", found.numpy(), expected.detach().numpy(), TOLERANCE)
    weight = rng.normal(size=expected.shape)
    (expected * torch.tensor(weight)).sum().backward()
    (found * mt.tensor(weight)).sum().backward()
    check_gradients(ours, theirs)
