"""W6: overhead of the engine in 1,000 chained elementwise operations on an (8, 8) array."""

import numpy as np

from . import Step
from .place import device

TITLE = "1,000 chained elementwise operations on (8, 8), forward + backward"
ROUNDS = 125  # each round has eight operations


def _chain(tanh, x, a, b, c, d):
    """Repeat eight operations on x ROUNDS times.

    They are four operations with tensors, two with numbers, negation and tanh.
    """
    h = x
    for _ in range(ROUNDS):
        h = h * a
        h = h + b
        h = h - c
        h = h / d
        h = h * 1.002
        h = h + 0.001
        h = -h
        h = tanh(h)
    return h


def _inputs():
    """Return x and four operands. Factors are near 1 and summands near 0, to avoid overflow."""
    rng = np.random.default_rng(6)
    bounds = [(-1, 1), (0.99, 1.01), (-0.01, 0.01), (-0.01, 0.01), (0.99, 1.01)]
    return [rng.uniform(low, high, (8, 8)).astype("float32") for low, high in bounds]


def _step(tanh, tensors):
    latest = {}

    def run():
        for t in tensors:
            t.grad = None
        latest["y"] = _chain(tanh, *tensors)
        latest["y"].sum().backward()

    def evidence():
        found = {name: t.grad.cpu().numpy() for name, t in zip("xabcd", tensors, strict=True)}
        return {**found, "y": latest["y"].detach().cpu().numpy()}

    return Step(run, evidence, operations=8 * ROUNDS)


def minitorch_attn():
    import minitorch_attn as mt

    tensors = [mt.tensor(a, device=device(), requires_grad=True) for a in _inputs()]
    return _step(mt.tanh, tensors)


def torch():
    import torch

    tensors = [torch.tensor(a, device=device(), requires_grad=True) for a in _inputs()]
    return _step(torch.tanh, tensors)


def jax():
    """Build the step in JAX, which compiles the chain as a whole."""
    import jax
    import jax.numpy as jnp

    inputs, latest = [jnp.asarray(a) for a in _inputs()], {}

    def chain(*inputs):
        y = _chain(jnp.tanh, *inputs)
        return y.sum(), y

    step = jax.jit(jax.value_and_grad(chain, range(5), has_aux=True))

    def run():
        (_, y), grads = jax.block_until_ready(step(*inputs))
        latest.update(zip("xabcd", grads, strict=True), y=y)

    return Step(run, lambda: latest, operations=8 * ROUNDS)


ENGINES = {
    "minitorch_attn": minitorch_attn,
    "jax": jax,
    "torch": torch,
}
