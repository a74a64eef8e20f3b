"""Functions that make checks for `checks.py`, with expected values from the library."""

from importlib import import_module

import numpy as np

from ..grade.judge import Check
from . import drivers

__all__ = [
    "call_check", "check", "gradient_check", "layer_check", "operation_check", "parameters",
]  # fmt: skip


def check(name, driver, inputs, settings=None, *, wanted=None, expected=None, **options):
    """Make a check. Its expected values are computed by running `driver` on the full library.

    Parameters
    ----------
    name : str
    driver : callable
        Function `run(inputs, settings)`; see `judge.Check`.
    inputs : dict of str to ndarray
    settings : dict, optional
    wanted : list of str, optional
        Names of the arrays to compare. Defaults to all.
    expected : dict of str to ndarray, optional
        Expected values of some arrays from another source, such as a formula.
    **options
        Further arguments of `Check`: rtol, limit_s, what.

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
    """Make a check of an operation on plain arrays, forward and backward.

    Parameters
    ----------
    name, operation : str
        Name of the check, and the operation, for example "minitorch_attn.ops.softmax:Softmax".
    arguments : dict of str to (ndarray or None)
        Inputs, in the order of the arguments of `forward`.
    keywords : dict
    grad : ndarray or tuple of ndarray, optional
        Gradient dL/d(output) of the output, or of each output. If omitted, the backward pass is not
        checked.
    needs : list of str, optional
        Arguments whose gradients are compared. Defaults to all floating-point arguments.
    seed : int, optional
        Random seed, for an operation that draws random numbers.
    **options
        Same as for `check`.

    Returns
    -------
    Check
    """
    inputs = {key: array for key, array in arguments.items() if array is not None}
    if needs is None:
        needs = [key for key, array in inputs.items() if array.dtype.kind == "f"]
    if grad is not None:
        several = isinstance(grad, tuple)
        inputs |= {f"grad {i}": g for i, g in enumerate(grad)} if several else {"grad": grad}
        # Compare only gradients: differences between forward passes are not this accurate.
        options = {"rtol": 1e-11, "wanted": [f"grad_{key}" for key in needs], **options}
    names = [key if array is not None else None for key, array in arguments.items()]
    settings = {
        "operation": operation, "arguments": names, "keywords": keywords, "needs": needs,
        "seed": seed,
    }  # fmt: skip
    return check(name, drivers.operation, inputs, settings, **options)


def call_check(name, function, arguments, keywords=None, **options):
    """Make a check that calls a function of the package on tensors.

    Parameters
    ----------
    name, function : str
        Name of the check, and the function, for example "minitorch_attn.ops.softmax:softmax".
    arguments : dict of str to (ndarray or None)
    keywords : dict, optional
    **options
        Same as for `check`.
    """
    inputs = {key: array for key, array in arguments.items() if array is not None}
    names = [key if array is not None else None for key, array in arguments.items()]
    settings = {"function": function, "arguments": names, "keywords": keywords or {}}
    return check(name, drivers.call, inputs, settings, **options)


def layer_check(
    name, layer, make, arguments, rng, keywords=None, method="forward", tensors=None, **options
):
    """Create a check for a layer or model, with random values for all of its parameters.

    Parameters
    ----------
    name, layer : str
        Name of the check, and the class, for example "minitorch_attn.nn.attention:Attention".
    make : dict
        Keyword arguments of the class's constructor.
    arguments : dict of str to (ndarray or None)
        Positional arguments of the method.
    rng : numpy.random.Generator
    keywords : dict, optional
        Keyword arguments of the method that are not tensors.
    method : str
    tensors : dict of str to ndarray, optional
        Keyword arguments of the method that are tensors.
    **options
        Same as for `check`.
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
    """Create a check of the backward pass of the check `of`, with a random dL/d(output).

    Parameters
    ----------
    of : Check
        Result of `layer_check` or `call_check`.
    rng : numpy.random.Generator
    needs : list of str, optional
        Inputs and parameters (named "parameter NAME") whose gradients are compared. Defaults to all
        whose gradients are larger than rounding errors.

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
    """Return whether the gradient of an input is larger than rounding errors."""
    try:
        (grad,) = drivers.gradients(inputs, {**settings, "needs": [key]}).values()
    except ValueError:
        return False
    return bool(grad.size) and abs(grad).max() > 1e-8


def parameters(layer, make, rng):
    """Draw all parameters of a layer from Gaussians. The mean is 1 for norm weights, otherwise 0.

    Returns
    -------
    dict of str to ndarray
        A float64 array for each parameter, under the key "parameter NAME".
    """
    module, name = layer.split(":")
    made = getattr(import_module(module), name)(**make)
    drawn = {}
    for path, parameter in made.named_parameters():
        shape = parameter.shape
        width = shape[-1] if len(shape) > 1 else 4
        center = 1.0 if "norm" in path and path.endswith("weight") else 0.0
        drawn[f"parameter {path}"] = center + rng.normal(size=shape) / np.sqrt(width)
    return drawn
