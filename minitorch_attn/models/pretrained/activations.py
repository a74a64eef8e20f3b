"""The activations by the names that the peers' configurations give them."""

from ... import ops
from ...errors import ArgumentError
from ...nn import activation_function

__all__ = ["activation"]


def _quick_gelu(x):
    """x sigmoid(1.702 x): Hendrycks and Gimpel 2016, arXiv:1606.08415v5, section 2."""
    return x * ops.sigmoid(1.702 * x)


def _relu2(x):
    return ops.relu(x) ** 2


ACTIVATIONS = {
    "gelu": ops.gelu,
    "gelu_fast": activation_function("gelu_tanh"),
    "gelu_new": activation_function("gelu_tanh"),
    "gelu_python": ops.gelu,
    "gelu_pytorch_tanh": activation_function("gelu_tanh"),
    "leaky_relu": ops.leaky_relu,
    "linear": lambda x: x,
    "mish": ops.mish,
    "quick_gelu": _quick_gelu,
    "relu": ops.relu,
    "relu2": _relu2,
    "relu6": ops.relu6,
    "sigmoid": ops.sigmoid,
    "silu": ops.silu,
    "swish": ops.silu,
    "tanh": ops.tanh,
}


def activation(name):
    """The function that a configuration's `hidden_act` or its like names.

    Parameters
    ----------
    name : str

    Raises
    ------
    ArgumentError
        If no function has this name, with those that have one.
    """
    if name not in ACTIVATIONS:
        raise ArgumentError(
            "the configuration names an activation that is not known.",
            got=repr(name),
            expected=f"one of {', '.join(ACTIVATIONS)}",
        )
    return ACTIVATIONS[name]
