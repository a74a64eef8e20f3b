"""Activation functions, looked up by the names used in Hugging Face configurations."""

from ... import ops
from ...errors import ArgumentError
from ...nn import activation_function

__all__ = ["activation"]


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
    "quick_gelu": activation_function("quick_gelu"),
    "relu": ops.relu,
    "relu2": _relu2,
    "relu6": ops.relu6,
    "sigmoid": ops.sigmoid,
    "silu": ops.silu,
    "swish": ops.silu,
    "tanh": ops.tanh,
}


def activation(name):
    """Look up the activation function named by a configuration field such as `hidden_act`.

    Parameters
    ----------
    name : str
        Name of the function in Hugging Face, a key of `ACTIVATIONS`.
    """
    if name not in ACTIVATIONS:
        raise ArgumentError(
            "the activation function in the configuration is not supported",
            got=repr(name), expected=f"one of {', '.join(ACTIVATIONS)}",
        )  # fmt: skip
    return ACTIVATIONS[name]
