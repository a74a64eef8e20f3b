"""Collect attention weights, and the outputs of modules, while a model runs.

The models need no flags for this: hooks are added to their modules inside a `with` block.
The collected tensors are part of the graph.
"""

from contextlib import contextmanager

from .attention import Attention

__all__ = ["collect_attention", "collect_outputs", "watch_attention"]


@contextmanager
def watch_attention(module, hook):
    """Call `hook` with the weights of every attention layer of `module`, in a `with` block.

    Parameters
    ----------
    module : Module
        Module whose `Attention` layers, including `MultiheadAttention`, are watched.
    hook : callable
        Function called as `hook(attention, weights)`, with (batch, heads, query, key) weights.
    """
    blocks = [m for m in module.modules() if isinstance(m, Attention)]
    for block in blocks:
        block.weight_hooks.append(hook)
    try:
        yield
    finally:
        for block in blocks:
            block.weight_hooks.remove(hook)


@contextmanager
def collect_attention(module):
    """Collect the weights of every attention layer of `module` that runs in the `with` block.

    Parameters
    ----------
    module : Module
        Module whose `Attention` layers, including `MultiheadAttention`, are watched.

    Yields
    ------
    list of (Attention, Tensor)
        Layers and their weights, of shape (batch, heads, query, key), in call order.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = mt.nn.Attention(embed_dim=6, num_heads=2)
    >>> with collect_attention(attention) as found:
    ...     y = attention(mt.zeros(5, 3, 6))
    >>> found[0][1].shape
    (5, 2, 3, 3)
    """
    found = []
    with watch_attention(module, lambda attention, weights: found.append((attention, weights))):
        yield found


@contextmanager
def collect_outputs(modules):
    """Collect the outputs of `modules` in the `with` block.

    Parameters
    ----------
    modules : iterable of Module

    Yields
    ------
    list of (Module, output)
        Modules and their outputs, in call order.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.ReLU())
    >>> with collect_outputs(model) as found:
    ...     y = model(mt.zeros(2, 3))
    >>> [output.shape for _, output in found]
    [(2, 5), (2, 5)]
    """
    found = []
    handles = [
        module.register_forward_hook(lambda module, args, output: found.append((module, output)))
        for module in modules
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
