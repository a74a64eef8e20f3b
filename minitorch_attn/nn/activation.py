"""Activations as modules, each one line around its function, and their names."""

from types import FunctionType

from .. import ops
from ..errors import ArgumentError
from ..ops.feed_forward import ACTIVATIONS
from . import functional
from .module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Tanh",
    "activation_function",
]


def _gelu_tanh(input):
    return functional.gelu(input, approximate="tanh")


_FUNCTIONS = {
    "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu,
    "swish": functional.silu, "tanh": functional.tanh, "sigmoid": functional.sigmoid,
    "elu": functional.elu, "mish": functional.mish, "softplus": functional.softplus,
    "leaky_relu": functional.leaky_relu, "gelu_tanh": _gelu_tanh, "gelu_new": _gelu_tanh,
}  # fmt: skip
_FUSED = {_FUNCTIONS[name]: name for name in ACTIVATIONS} | {ops.relu: "relu", ops.silu: "silu"}


def activation_function(activation):
    """The function that a name stands for; functions and modules pass through.

    Parameters
    ----------
    activation : str or callable
        "relu", "gelu", "gelu_tanh", "silu" (also "swish"), "tanh", "sigmoid", ...

    Returns
    -------
    callable from Tensor to Tensor

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> activation_function("relu")(mt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if callable(activation):
        return activation
    try:
        return _FUNCTIONS[activation]
    except (KeyError, TypeError):  # a list is no key
        raise ArgumentError(
            "there is no activation of that name.",
            got=repr(activation),
            expected="a function, or one of " + ", ".join(_FUNCTIONS),
        ) from None


def fused_name(activation):
    """What `ops.feed_forward` calls an activation; None if it does not know it or it has hooks.

    Examples
    --------
    >>> fused_name(activation_function("relu")), fused_name(GELU("tanh")), fused_name(GLU())
    ('relu', 'gelu_tanh', None)
    """
    kind = type(activation)
    if kind is FunctionType:
        return _FUSED.get(activation)
    if kind not in (GELU, ReLU, SiLU) or (activation._hooks and activation._hooks.any()):
        return None
    if kind is GELU:
        return "gelu" if activation.approximate == "none" else "gelu_tanh"
    return "relu" if kind is ReLU else "silu"


class ReLU(Module):
    """y = max(x, 0)."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return functional.relu(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class GELU(Module):
    """y = x Phi(x), with Phi the normal distribution function; or its tanh approximation.

    Parameters
    ----------
    approximate : {"none", "tanh"}

    Notes
    -----
    Hendrycks and Gimpel 2016, arXiv:1606.08415v5, section 2.
    """

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """y = x / (1 + e^-x), also called swish."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return functional.silu(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class Tanh(Module):
    """y = tanh x."""

    def forward(self, input):
        return functional.tanh(input)


class Sigmoid(Module):
    """y = 1 / (1 + e^-x)."""

    def forward(self, input):
        return functional.sigmoid(input)


class ELU(Module):
    """y = x for x > 0, alpha (e^x - 1) below."""

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input):
        return functional.elu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self, f"alpha={self.alpha}")


class LeakyReLU(Module):
    """y = x for x > 0, negative_slope x below."""

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input):
        return functional.leaky_relu(input, self.negative_slope, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self, f"negative_slope={self.negative_slope}")


class Mish(Module):
    """y = x tanh(log(1 + e^x))."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return functional.mish(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class Hardswish(Module):
    """y = x clip(x + 3, 0, 6) / 6."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return functional.hardswish(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class Softplus(Module):
    """y = log(1 + e^(beta x)) / beta; x itself where beta x > threshold."""

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class GLU(Module):
    """y = a sigmoid(b), where a and b are the halves of x along `dim`."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmax(Module):
    """y_i = e^x_i / sum_j e^x_j along `dim`."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.softmax(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax along `dim`."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.log_softmax(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class ReLU6(Module):
    """y = min(max(x, 0), 6)."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return functional.relu6(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class SELU(Module):
    """ELU with the two constants that keep mean 0 and variance 1 from layer to layer."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return functional.selu(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class CELU(Module):
    """y = x for x > 0, alpha (e^(x / alpha) - 1) below."""

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input):
        return functional.celu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self, f"alpha={self.alpha}")


class Hardsigmoid(Module):
    """y = clip(x + 3, 0, 6) / 6."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return functional.hardsigmoid(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class Hardtanh(Module):
    """y = clip(x, min_val, max_val)."""

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False):
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input):
        return functional.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self, f"min_val={self.min_val}, max_val={self.max_val}")


class LogSigmoid(Module):
    """y = -log(1 + e^-x)."""

    def forward(self, input):
        return functional.logsigmoid(input)


class Softmin(Module):
    """y_i = e^-x_i / sum_j e^-x_j along `dim`."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.softmin(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


def _inplace(module, *parts):
    """The settings in words; inplace only where it is set."""
    return ", ".join([*parts, "inplace=True"] if module.inplace else parts)
