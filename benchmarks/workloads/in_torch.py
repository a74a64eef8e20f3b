"""Layers in PyTorch, written for speed.

They use one projection for query, key and value, and the fused attention of
`F.scaled_dot_product_attention`. Gradients are set to None before each step. Attributes have the
same names as in this library, because the names determine the initial weights.
"""

import torch
from torch import nn
from torch.nn import functional as F

from . import Step
from .place import device
from .weights import apart, draw_packed

__all__ = [
    "Attention",
    "Block",
    "FeedForward",
    "filled",
    "forward_step",
    "step_with_input",
    "training_step",
]


class Attention(nn.Module):
    """Self-attention, or cross-attention to `memory` if `cross` is True."""

    def __init__(self, width, heads, cross=False):
        super().__init__()
        self.heads, self.cross = heads, cross
        if cross:
            self.q_proj, self.kv_proj = nn.Linear(width, width), nn.Linear(width, 2 * width)
        else:
            self.qkv_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x, memory=None, mask=None, is_causal=False):
        # x: (batch, token, embed)
        if self.cross:
            (query,) = self.split_heads(self.q_proj(x), 1)
            key, value = self.split_heads(self.kv_proj(memory), 2)
        else:
            query, key, value = self.split_heads(self.qkv_proj(x), 3)
        mixed = F.scaled_dot_product_attention(query, key, value, mask, is_causal=is_causal)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))

    def split_heads(self, packed, count):
        # (batch, token, count * embed) -> count times (batch, heads, token, head_dim)
        split = packed.unflatten(-1, (count, self.heads, -1))
        return split.permute(2, 0, 3, 1, 4).unbind(0)


class FeedForward(nn.Module):
    """Feed-forward network `W2 f(W1 x)`, applied to each token."""

    def __init__(self, width, hidden, activation):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.activation = activation

    def forward(self, x):
        return self.linear2(self.activation(self.linear1(x)))


class Block(nn.Module):
    """Pre-norm block of GPT and ViT."""

    def __init__(self, width, heads, hidden, activation, eps=1e-5, is_causal=False):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attention = Attention(width, heads)
        self.feed_forward = FeedForward(width, hidden, activation)
        self.is_causal = is_causal

    def forward(self, x):
        x = x + self.attention(self.norm1(x), is_causal=self.is_causal)
        return x + self.feed_forward(self.norm2(x))


def filled(model):
    """Fill the model with the weights of `weights.draw`, and return it on the device."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw_packed(name, tuple(parameter.shape))))
    return model.to(device())


def training_step(
    model, loss_function, arrays, *, learning_rate=None, fused=False, compiled=False, results=dict
):
    """Build a training step: forward pass, backward pass and, if `learning_rate` is given, AdamW.

    Parameters
    ----------
    model : torch.nn.Module
    loss_function : callable
        Function that computes the loss from the model and the batch.
    arrays : tuple of ndarray
        The batch.
    learning_rate : float, optional
    fused : bool
        Whether to use the fused AdamW.
    compiled : bool
        Whether to compile `loss_function` with torch.compile.
    results : callable, optional
        Function that returns a dict of further NumPy arrays to compare, by name.
    """
    filled(model)
    batch = tuple(torch.from_numpy(array).to(device()) for array in arrays)
    parameters = list(model.parameters())
    loss_of = torch.compile(loss_function) if compiled else loss_function
    optimizer = learning_rate and torch.optim.AdamW(parameters, lr=learning_rate, fused=fused)
    latest = {}

    def run():
        model.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        if optimizer:
            optimizer.step()
        latest["loss"] = loss.detach()

    def evidence():
        grads = apart({n: p.grad.cpu().numpy() for n, p in model.named_parameters()})
        found = {f"grad {n}": grad for n, grad in grads.items()}
        return {**found, "loss": latest["loss"].cpu().numpy(), **results()}

    return Step(run, evidence)


def forward_step(model, array, compiled=False):
    """Build a step that runs only the forward pass, without an autograd graph."""
    model = filled(model)
    model = torch.compile(model) if compiled else model
    batch, latest = torch.from_numpy(array).to(device()), {}

    @torch.inference_mode()
    def run():
        latest["y"] = model(batch)

    return Step(run, lambda: {"y": latest["y"].cpu().numpy()})


def step_with_input(model, x, cotangents, **options):
    """Build a training step whose results also have the gradient of the input; see `ours.py`."""
    latest = {}

    def loss_function(model, batch):
        latest["x"] = x = batch[0].detach().requires_grad_()
        return (model(x) * batch[1]).sum() / len(x)

    return training_step(
        model, loss_function, (x, cotangents), **options,
        results=lambda: {"grad x": latest["x"].grad.cpu().numpy()},
    )  # fmt: skip
