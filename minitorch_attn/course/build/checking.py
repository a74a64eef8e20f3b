"""What `checks.py` of an assignment is made of: checks whose truth is what the library returns."""

from importlib import import_module

import numpy as np

from ..grade.judge import Check
from . import drivers

__all__ = [
    "call_check", "check", "gradient_check", "layer_check", "operation_check", "parameters",
]  # fmt: skip


def check(name, driver, inputs, settings=None, *, wanted=None, expected=None, **options):
    """A check whose truth is what the driver returns with the library itself.

    Parameters
    ----------
    name : str
    driver : callable
        `run(inputs, settings)`; see `judge.Check`.
    inputs : dict of str to ndarray
    settings : dict, optional
    wanted : list of str, optional
        Which of the arrays count; by default all.
    expected : dict of str to ndarray, optional
        The truth of some arrays from elsewhere, a formula.
    **options
        Of `Check`: rtol, limit_s, what.

    Returns
    -------
    Check
    """
    settings = settings or {}
    found = driver({key: array.copy() for key, array in inputs.items()}, settings)
    truth = {**found, **(expected or {})}
    wanted = list(truth) if wanted is None else wanted
    return Check(name, driver, inputs, {key: truth[key] for key in wanted}, settings, **options)


def operation_check(
    name, operation, arguments, keywords, grad=None, needs=None, seed=None, **options
):
    """An operation on plain arrays, forward and backward.

    Parameters
    ----------
    name, operation : str
        "minitorch_attn.ops.softmax:Softmax"
    arguments : dict of str to (ndarray or None)
        In the order of `forward`.
    keywords : dict
    grad : ndarray, optional
        dL/d(output); without it there is no backward pass.
    needs : list of str, optional
        By default all floating-point arguments.
    seed : int, optional
        For an operation that draws.
    **options
        As of `check`.

    Returns
    -------
    Check
    """
    inputs = {key: array for key, array in arguments.items() if array is not None}
    if needs is None:
        needs = [key for key, array in inputs.items() if array.dtype.kind == "f"]
    if grad is not None:
        inputs["grad"] = grad
        # Judged by its gradients alone; differences of forward passes are not that exact.
        options = {"rtol": 1e-11, "wanted": [f"grad_{key}" for key in needs], **options}
    names = [key if array is not None else None for key, array in arguments.items()]
    settings = {
        "operation": operation, "arguments": names, "keywords": keywords, "needs": needs,
        "seed": seed,
    }  # fmt: skip
    return check(name, drivers.operation, inputs, settings, **options)


def call_check(name, function, arguments, keywords=None, **options):
    """A function of the package on tensors.

    Parameters
    ----------
    name, function : str
        "minitorch_attn.ops.softmax:softmax"
    arguments : dict of str to (ndarray or None)
    keywords : dict, optional
    **options
        As of `check`.
    """
    inputs = {key: array for key, array in arguments.items() if array is not None}
    names = [key if array is not None else None for key, array in arguments.items()]
    settings = {"function": function, "arguments": names, "keywords": keywords or {}}
    return check(name, drivers.call, inputs, settings, **options)


def layer_check(
    name, layer, make, arguments, rng, keywords=None, method="forward", tensors=None, **options
):
    """A layer or a model with parameters drawn here, so that none is what it starts as.

    Parameters
    ----------
    name, layer : str
        "minitorch_attn.nn.attention_block:Attention"
    make : dict
        Its keyword arguments.
    arguments : dict of str to (ndarray or None)
        Of the method, by their order.
    rng : numpy.random.Generator
    keywords : dict, optional
        Of the method: what is no tensor.
    method : str
    tensors : dict of str to ndarray, optional
        Of the method, by their names.
    **options
        As of `check`.
    """
    inputs = {key: array for key, array in arguments.items() if array is not None}
    inputs |= parameters(layer, make, rng) | (tensors or {})
    names = [key if array is not None else None for key, array in arguments.items()]
    settings = {
        "layer": layer, "make": make, "method": method, "arguments": names,
        "keywords": keywords or {}, "tensors": list(tensors or {}),
    }  # fmt: skip
    return check(name, drivers.layer, inputs, settings, **options)


def gradient_check(of, rng, needs=None):
    """The gradients of what another check judges by its value, for a drawn dL/d(output).

    Parameters
    ----------
    of : Check
        From `layer_check` or `call_check`.
    rng : numpy.random.Generator
    needs : list of str, optional
        The inputs and parameters, these as "parameter NAME"; by default all that have one, but
        for round-off.

    Returns
    -------
    Check
    """
    inputs = {**of.inputs, "grad": rng.normal(size=of.expected["output"].shape)}
    floats = [key for key, array in of.inputs.items() if array.dtype.kind == "f"]
    settings = {**of.settings, "needs": floats if needs is None else needs}
    if needs is None:
        settings["needs"] = [key for key in floats if _reached(inputs, settings, key)]
    return check(
        f"{of.name}, gradients", drivers.gradients, inputs, settings, rtol=1e-9,
        limit_s=of.limit_s,
    )  # fmt: skip


def _reached(inputs, settings, key):
    """Whether a gradient arrives at an input, and not the round-off of one that is zero."""
    try:
        (grad,) = drivers.gradients(inputs, {**settings, "needs": [key]}).values()
    except ValueError:
        return False
    return bool(grad.size) and abs(grad).max() > 1e-8


def parameters(layer, make, rng):
    """Values for all parameters of a layer: N(0, 1 / width), and around 1 for norms.

    Returns
    -------
    dict of str to ndarray
        "parameter NAME" -> float64 array.
    """
    module, name = layer.split(":")
    made = getattr(import_module(module), name)(**make)
    drawn = {}
    for path, parameter in made.named_parameters():
        shape = parameter.shape
        width = shape[-1] if len(shape) > 1 else 4
        centre = 1.0 if "norm" in path and path.endswith("weight") else 0.0
        drawn[f"parameter {path}"] = centre + rng.normal(size=shape) / np.sqrt(width)
    return drawn
