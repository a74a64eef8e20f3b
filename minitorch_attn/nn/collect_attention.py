"""Collect attention weights, and the outputs of modules, while a model runs.

The functions add hooks to the modules of a model inside a `with` block. The models therefore do not
need options that return these tensors. The collected tensors are part of the autograd graph.
"""

from contextlib import contextmanager

from ..errors import ArgumentError, DTypeError
from .checks import check_module

__all__ = ["collect_attention", "collect_outputs", "watch_attention"]


@contextmanager
def watch_attention(module, hook):
    """In a `with` block, call `hook` with the attention weights of each layer of `module`.

    A layer can be watched if it has a list `weight_hooks` and calls each function in this list with
    the layer and its attention weights. `Attention`, its subclasses, `AdditiveAttention` and
    `LuongAttention` do so. You can write your own attention layer in the same way.

    Parameters
    ----------
    module : Module
        Module whose attention layers are watched.
    hook : callable
        Function called as `hook(layer, weights)`, with attention weights of shape (batch, heads,
        query, key).

    Raises
    ------
    ArgumentError
        If none of the layers can be watched, or if the class name of a layer contains "attention"
        but the layer cannot be watched.
    """
    check_module("watch_attention, collect_attention", module)
    layers = [layer for layer in module.modules() if hasattr(layer, "weight_hooks")]
    hidden = [name for name, layer in module.named_modules() if _is_hidden(layer)]
    if hidden or not layers:
        raise ArgumentError(
            "watch_attention, collect_attention: the weights of a layer cannot be collected"
            if hidden else "watch_attention, collect_attention: the module has no attention layer",
            got=", ".join(f"{name or 'the module'} = {type(module.get_submodule(name)).__name__}"
                          for name in hidden or [""]),
            expected="layers that call their weight_hooks, as nn.Attention does",
            hint="in __init__: self.weight_hooks = []\n"
            "            in forward:  for hook in self.weight_hooks: hook(self, weights)",
        )  # fmt: skip
    for layer in layers:
        layer.weight_hooks.append(hook)
    try:
        yield
    finally:
        for layer in layers:
            layer.weight_hooks.remove(hook)


def _is_hidden(layer):
    """Return True for an attention layer whose weights `watch_attention` cannot get.

    The layer's class name contains "attention", but neither the layer nor any of its submodules has
    a `weight_hooks` list.
    """
    is_attention = "attention" in type(layer).__name__.lower()
    return is_attention and not any(hasattr(part, "weight_hooks") for part in layer.modules())


@contextmanager
def collect_attention(module):
    """Collect the attention weights of every layer of `module` that runs in the `with` block.

    Parameters
    ----------
    module : Module
        Module whose attention layers are watched; see `watch_attention`.

    Yields
    ------
    list of (Module, Tensor)
        Layers and their attention weights (batch, heads, query, key), in call order.

    Raises
    ------
    ArgumentError
        If none of the layers can be watched, or if the class name of a layer contains "attention"
        but the layer cannot be watched.

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
    """Collect the outputs of all calls of `modules` inside the `with` block.

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
    try:
        modules = list(modules)
    except TypeError:
        raise DTypeError(
            "collect_outputs: modules is not iterable",
            got=type(modules).__name__,
            hint="collect_outputs([module])",
        ) from None
    for module in modules:
        check_module("collect_outputs", module, "an entry of modules")
    handles = [
        module.register_forward_hook(lambda module, args, output: found.append((module, output)))
        for module in modules
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
