"""W6, engine overhead: 1,000 chained elementwise operations on an (8, 8) array, and back."""

import numpy as np

from . import Step

TITLE = "1,000 chained elementwise operations on (8, 8), forward + backward"
COMPARE = ("minitorch_attn", "torch")
ROUNDS = 250  # of four operations each


def _chain(x, scale, shift):
    """Multiply by a tensor, add a tensor, tanh, multiply by a number: four operations a round."""
    h = x
    for _ in range(ROUNDS):
        h = h * scale
        h = h + shift
        h = h.tanh()
        h = h * 1.25
    return h


def _inputs():
    rng = np.random.default_rng(6)
    return [rng.uniform(low, high, (8, 8)).astype("float32") for low, high in
            ((-1, 1), (0.9, 1.1), (-0.1, 0.1))]  # fmt: skip


def _step(tensors):
    x, scale, shift = tensors
    latest = {}

    def run():
        for t in tensors:
            t.grad = None
        latest["y"] = _chain(x, scale, shift)
        latest["y"].sum().backward()

    def evidence():
        found = {name: t.grad.numpy() for name, t in zip("xab", tensors, strict=True)}
        return {**found, "y": latest["y"].detach().numpy()}

    return Step(run, evidence, operations=4 * ROUNDS)


def minitorch_attn():
    import minitorch_attn as mt

    return _step([mt.tensor(a, requires_grad=True) for a in _inputs()])


def torch():
    import torch

    return _step([torch.tensor(a, requires_grad=True) for a in _inputs()])


ENGINES = {"minitorch_attn": minitorch_attn, "torch": torch}
