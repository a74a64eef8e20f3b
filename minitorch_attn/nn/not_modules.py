"""Hints in error messages for values that are not modules, such as F.relu in nn.Sequential."""

from importlib import import_module
from types import GeneratorType

__all__ = ["instead_of"]

_PACKAGE = __name__.partition(".")[0]


def instead_of(value, owner):
    """Return the hint for an error message: what to use instead of a value that is not a module.

    Parameters
    ----------
    value : object
    owner : Module
        Module to which the value was passed as a submodule.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> instead_of(mt.nn.functional.relu, mt.nn.Sequential())
    'use nn.ReLU()'
    >>> instead_of([mt.nn.ReLU()], mt.nn.Sequential())
    'use nn.Sequential(*layers) to pass the layers of a list one by one'
    """
    kind = type(value)
    if isinstance(value, (list, tuple, GeneratorType)):
        if type(owner).__name__ == "Sequential":
            return "use nn.Sequential(*layers) to pass the layers of a list one by one"
        return "use nn.Sequential(*layers) or nn.ModuleList(layers) for an inner list"
    if isinstance(value, type):
        prefix = "nn." if value.__module__.startswith(f"{_PACKAGE}.nn.") else ""
        return f"pass an instance such as {prefix}{value.__name__}(), not a class"
    if kind.__module__.startswith("einops."):
        return f"`from {_PACKAGE}.einops.layers import {kind.__name__}`: this layer is PyTorch's"
    if kind.__module__.startswith("torch."):
        return "use the layer of this library: this one is PyTorch's"
    name = _layer_of(value)
    if name is not None:
        return f"use nn.{name}()"
    if callable(value):
        return "write a subclass of nn.Module whose forward calls the function"
    return "pass an instance such as nn.ReLU(), not a class"


def _layer_of(function):
    """Return the name of the layer for a library function, such as "ReLU" for `relu`, or None."""
    if str(getattr(function, "__module__", "")).partition(".")[0] != _PACKAGE:
        return None
    wanted = str(getattr(function, "__name__", "")).replace("_", "")
    layers = vars(import_module(f"{_PACKAGE}.nn"))
    return next((n for n in layers if n.lower() == wanted and isinstance(layers[n], type)), None)
