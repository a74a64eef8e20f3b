"""Layers in PyTorch, written for speed.

The layers use one projection for query, key and value, and the fused attention of
`F.scaled_dot_product_attention`. A step sets the gradients to None before the backward pass.
Attributes have the same names as in this library, because the names determine the initial weights.
"""

import numpy as np
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
    "FrozenBatchNorm2d",
    "filled",
    "forward_step",
    "set_loss",
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


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization with constant statistics, as in torchvision."""

    def __init__(self, channels):
        super().__init__()
        for name, value in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)):
            self.register_buffer(name, torch.full((channels,), float(value)))

    def forward(self, x):
        scale = self.weight * (self.running_var + 1e-5).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)


def filled(model):
    """Set the weights with `weights.draw_packed`, move the model to the device, and return it."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw_packed(name, tuple(parameter.shape))))
    return model.to(device())


def training_step(
    model, loss_function, arrays, *, learning_rate=None, clip=None, fused=False, compiled=False,
    results=dict,
):  # fmt: skip
    """Build a training step: forward pass, backward pass and, if `learning_rate` is given, AdamW.

    Parameters
    ----------
    model : torch.nn.Module
    loss_function : callable
        Function that computes the loss from the model and the batch.
    arrays : tuple of ndarray
        The batch.
    learning_rate : float, optional
    clip : float, optional
        Gradient clipping: the maximum norm of all gradients together.
    fused : bool
        Whether to use the fused AdamW.
    compiled : bool
        Whether to compile `loss_function` with torch.compile.
    results : callable, optional
        Function that returns a dict of further NumPy arrays to compare, by name.
    """
    filled(model)
    batch = tuple(torch.from_numpy(array).to(device()) for array in arrays)
    trained = [p for p in model.parameters() if p.requires_grad]
    loss_of = torch.compile(loss_function) if compiled else loss_function
    optimizer = learning_rate and torch.optim.AdamW(trained, lr=learning_rate, fused=fused)
    latest = {}

    def run():
        model.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(trained, clip)
        if optimizer:
            optimizer.step()
        latest["loss"] = loss.detach()

    def evidence():
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        grads = apart({n: p.grad.cpu().numpy() for n, p in named})
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
    """Build a training step whose results include the gradient of the input, as "grad x"."""
    latest = {}

    def loss_function(model, batch):
        latest["x"] = x = batch[0].detach().requires_grad_()
        return (model(x) * batch[1]).sum() / len(x)

    return training_step(
        model, loss_function, (x, cotangents), **options,
        results=lambda: {"grad x": latest["x"].grad.cpu().numpy()},
    )  # fmt: skip


def set_loss(logits, boxes, labels, target_boxes, costs, no_object):
    """Return the sum of the DETR losses of all decoder layers, each with its own matching.

    Parameters
    ----------
    logits : torch.Tensor of shape (layer, batch, query, classes + 1)
    boxes : torch.Tensor of shape (layer, batch, query, 4)
    labels : int64 torch.Tensor of shape (batch, object)
    target_boxes : torch.Tensor of shape (batch, object, 4)
    costs : (float, float, float)
        Weights of the class, box and generalized IoU terms, in the matching and in the loss.
    no_object : float
        Weight of "no object" in the class loss.
    """
    layers, batch, queries, classes = logits.shape
    objects = labels.shape[1]
    place = _matched(logits.detach(), boxes.detach(), labels, target_boxes, costs)
    expected = labels.new_full((layers, batch, queries), classes - 1)
    expected.scatter_(2, place, labels.expand(layers, -1, -1))
    weight = logits.new_ones(classes)
    weight[-1] = no_object
    loss = sum(
        F.cross_entropy(x.flatten(0, 1), y.flatten(), weight)
        for x, y in zip(logits, expected, strict=True)
    )
    found = boxes.gather(2, place[..., None].expand(-1, -1, -1, 4))
    distance = (found - target_boxes).abs().sum()
    overlap = _generalized_iou(_corners(found), _corners(target_boxes))
    return loss + (costs[1] * distance + costs[2] * (1 - overlap).sum()) / (batch * objects)


def _matched(logits, boxes, labels, target_boxes, costs):
    """Return the index of the query matched with each object, of shape (layer, batch, object)."""
    from scipy.optimize import linear_sum_assignment

    layers, batch, queries, _ = logits.shape
    index = labels[:, None].expand(layers, batch, queries, -1)
    probability = logits.softmax(-1).gather(-1, index)  # (layer, batch, query, object)
    boxes, target_boxes = boxes[..., None, :], target_boxes[:, None]
    overlap = _generalized_iou(_corners(boxes), _corners(target_boxes))
    cost = costs[1] * (boxes - target_boxes).abs().sum(-1)
    cost = (cost - costs[0] * probability - costs[2] * overlap).cpu().numpy()
    pairs = [linear_sum_assignment(c.T)[1] for layer in cost for c in layer]
    return torch.from_numpy(np.stack(pairs)).view(layers, batch, -1).to(labels.device)


def _corners(boxes):
    center, size = boxes.chunk(2, -1)
    return center - size / 2, center + size / 2


def _generalized_iou(a, b):
    """Return the generalized IoU of pairs of boxes (left, top, right, bottom)."""
    (low, high), (other_low, other_high) = a, b
    inner = (torch.minimum(high, other_high) - torch.maximum(low, other_low)).clamp(min=0).prod(-1)
    outer = (torch.maximum(high, other_high) - torch.minimum(low, other_low)).prod(-1)
    union = (high - low).prod(-1) + (other_high - other_low).prod(-1) - inner
    return inner / union - (outer - union) / outer
