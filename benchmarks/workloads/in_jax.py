"""Layers in JAX, as functions of a dict of parameters. A step is compiled as a whole.

The initial value of a parameter is drawn when a function first uses the parameter. Parameters have
the same names as in this library.
"""

import jax
import jax.numpy as jnp

from . import Step
from .weights import draw

__all__ = [
    "attention", "block", "cross_entropy", "feed_forward", "forward_step", "linear", "norm",
    "parameter", "parameters", "training_step",
]  # fmt: skip


def parameter(p, name, *shape):
    """Return the parameter `name` of the dict `p`. If it is missing, draw its initial value."""
    if name not in p:
        p[name] = draw(name, shape)
    return p[name]


def linear(p, name, x, width):
    """Compute `x W^T + b`."""
    weight = parameter(p, f"{name}.weight", width, x.shape[-1])
    return x @ weight.T + parameter(p, f"{name}.bias", width)


def norm(p, name, x, eps=1e-5):
    """Apply layer norm over the last axis."""
    weight, bias = (parameter(p, f"{name}.{kind}", x.shape[-1]) for kind in ("weight", "bias"))
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + eps) * weight + bias


def attention(p, name, x, heads, memory=None, is_causal=False, bias=None):
    """Compute attention of `x` (batch, token, embed) to `memory`, or to `x` if `memory` is None."""
    memory, width = x if memory is None else memory, x.shape[-1]

    def split(part, y):  # (batch, token, heads, head_dim)
        return linear(p, f"{name}.{part}_proj", y, width).reshape(*y.shape[:2], heads, -1)

    mixed = jax.nn.dot_product_attention(
        split("q", x), split("k", memory), split("v", memory), bias=bias, is_causal=is_causal
    )
    return linear(p, f"{name}.out_proj", mixed.reshape(x.shape), width)


def feed_forward(p, name, x, hidden, activation):
    """Compute `W2 f(W1 x)` for each token."""
    inner = activation(linear(p, f"{name}.linear1", x, hidden))
    return linear(p, f"{name}.linear2", inner, x.shape[-1])


def block(p, name, x, heads, activation, eps=1e-5, is_causal=False):
    """Compute the pre-norm block of GPT and ViT."""
    inner = norm(p, f"{name}.norm1", x, eps)
    x = x + attention(p, f"{name}.attention", inner, heads, is_causal=is_causal)
    inner = norm(p, f"{name}.norm2", x, eps)
    return x + feed_forward(p, f"{name}.feed_forward", inner, 4 * x.shape[-1], activation)


def cross_entropy(logits, labels):
    """Return the mean of -log softmax(logits) at the labels."""
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -picked.mean()


def parameters(function, *inputs):
    """Return all parameters that a function uses, by tracing the function without running it."""
    p = {}
    jax.eval_shape(lambda: function(p, *inputs))
    return {name: jnp.asarray(array) for name, array in p.items()}


def _adamw(p, grads, state, rate, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
    """Compute an AdamW update (Loshchilov and Hutter 2017, arXiv:1711.05101v3) as in PyTorch."""
    count = state["count"] + 1

    def update(w, g, m, v):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        root = jnp.sqrt(v / (1 - betas[1] ** count)) + eps
        return w * (1 - rate * decay) - rate * m / (1 - betas[0] ** count) / root, m, v

    new = {name: update(p[name], grads[name], state["m"][name], state["v"][name]) for name in p}
    p, m, v = ({name: parts[i] for name, parts in new.items()} for i in range(3))
    return p, {"count": count, "m": m, "v": v}


def training_step(loss_function, arrays, *, learning_rate=None, with_input=False):
    """Build a training step: forward pass, backward pass and, if `learning_rate` is given, AdamW.

    Parameters
    ----------
    loss_function : callable
        Function of (parameters, batch) that returns the loss.
    arrays : tuple of ndarray
        The batch.
    learning_rate : float, optional
    with_input : bool
        Whether to also compute the gradient with respect to the first array of the batch.
    """
    batch = tuple(jnp.asarray(array) for array in arrays)
    p = parameters(loss_function, batch)
    zeros = {name: jnp.zeros_like(array) for name, array in p.items()}
    latest = {"p": p, "state": {"count": 0.0, "m": zeros, "v": zeros}}

    def loss_of(p, x, rest):
        return loss_function(p, (x, *rest))

    def whole_step(p, state, batch):
        wanted = (0, 1) if with_input else 0
        loss, grads = jax.value_and_grad(loss_of, wanted)(p, batch[0], batch[1:])
        if learning_rate is not None:
            p, state = _adamw(p, grads, state, learning_rate)
        return p, state, loss, grads

    step = jax.jit(whole_step)

    def run():
        results = jax.block_until_ready(step(latest["p"], latest["state"], batch))
        latest.update(zip(("p", "state", "loss", "grads"), results, strict=True))

    def evidence():
        grads = latest["grads"]
        further = {"grad x": grads[1]} if with_input else {}
        grads = grads[0] if with_input else grads
        return {**{f"grad {n}": g for n, g in grads.items()}, "loss": latest["loss"], **further}

    return Step(run, evidence)


def forward_step(function, array):
    """Build a step that runs only the forward pass."""
    x, latest = jnp.asarray(array), {}
    p, compiled = parameters(function, x), jax.jit(function)

    def run():
        latest["y"] = jax.block_until_ready(compiled(p, x))

    return Step(run, lambda: latest)
