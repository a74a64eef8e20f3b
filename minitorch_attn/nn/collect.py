"""Look inside a model while it runs: attention weights and the outputs of its parts.

The models have no flags for that. Whoever wants to see something puts hooks on the modules, runs
the model, and takes the hooks away again; what is found is part of the graph.
"""

from contextlib import contextmanager

from .attention_block import Attention

__all__ = ["collect_attention", "collect_outputs", "watch_attention"]


@contextmanager
def watch_attention(module, hook):
    """Show the weights of every `Attention` within `module` to `hook` in the `with` block.

    Parameters
    ----------
    module : Module
    hook : callable
        `hook(attention, weights)`, with weights of shape (batch, heads, query, key).
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
    """The weights of every `Attention` within `module`, as it runs in the `with` block.

    Parameters
    ----------
    module : Module

    Yields
    ------
    list of (Attention, Tensor)
        In the order of the calls; the weights have shape (batch, heads, query, key).

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
    """What each of `modules` returns in the `with` block.

    Parameters
    ----------
    modules : iterable of Module

    Yields
    ------
    list of (Module, output)
        In the order of the calls.

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
