"""Activation functions as modules, and `activation_function`, which looks them up by name."""

from types import FunctionType

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..ops.feed_forward import ACTIVATIONS
from . import functional
from .checks import check_sizes
from .init import constant_
from .module import Module
from .parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmin",
    "Softplus", "Tanh", "activation_function",
]  # fmt: skip


def _gelu_tanh(input):
    return functional.gelu(input, approximate="tanh")


def _quick_gelu(input):
    # Hendrycks and Gimpel 2016, arXiv:1606.08415v5, section 2: x sigmoid(1.702 x).
    return input * functional.sigmoid(1.702 * input)


_FUNCTIONS = {
    "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu,
    "swish": functional.silu, "tanh": functional.tanh, "sigmoid": functional.sigmoid,
    "elu": functional.elu, "mish": functional.mish, "softplus": functional.softplus,
    "leaky_relu": functional.leaky_relu, "gelu_tanh": _gelu_tanh, "gelu_new": _gelu_tanh,
    "quick_gelu": _quick_gelu,
}  # fmt: skip
_FUSED = {_FUNCTIONS[name]: name for name in ACTIVATIONS} | {ops.relu: "relu", ops.silu: "silu"}


@names_arguments
def activation_function(activation):
    """Return the activation with the given name. Functions and modules are returned unchanged.

    Parameters
    ----------
    activation : str or callable
        Name of the activation ("relu", "gelu", "gelu_tanh", "silu" or "swish", ...), or a function.

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
    except (KeyError, TypeError):  # a list is not hashable
        raise ArgumentError(
            "activation_function: activation is not supported",
            got=repr(activation),
            expected="a function, or one of " + ", ".join(_FUNCTIONS),
            hint="pass one of these names, or a function from Tensor to Tensor",
        ) from None


def fused_name(activation):
    """Return the name that `ops.feed_forward` uses for an activation, or None.

    The result is None if the fused operation does not support the activation, or if the activation
    has hooks.

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
    """Rectified linear unit, `y = max(x, 0)`."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = bool(inplace)

    def forward(self, input):
        return functional.relu(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class GELU(Module):
    """Gaussian error linear unit, `y = x Phi(x)` with the Gaussian CDF `Phi`.

    Parameters
    ----------
    approximate : {"none", "tanh"}
        Exact function ("none") or tanh approximation ("tanh").

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
    """Sigmoid linear unit (swish), `y = x / (1 + e^-x)`."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = bool(inplace)

    def forward(self, input):
        return functional.silu(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class Tanh(Module):
    """Hyperbolic tangent, `y = tanh(x)`."""

    def forward(self, input):
        return functional.tanh(input)


class Sigmoid(Module):
    """Logistic sigmoid, `y = 1 / (1 + e^-x)`."""

    def forward(self, input):
        return functional.sigmoid(input)


class ELU(Module):
    """Exponential linear unit: `y = x` for `x > 0`, else `y = alpha (e^x - 1)`."""

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha, self.inplace = alpha, bool(inplace)

    def forward(self, input):
        return functional.elu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self, f"alpha={self.alpha}")


class LeakyReLU(Module):
    """Leaky ReLU: `y = x` for `x > 0`, else `y = negative_slope x`."""

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, bool(inplace)

    def forward(self, input):
        return functional.leaky_relu(input, self.negative_slope, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self, f"negative_slope={self.negative_slope}")


class PReLU(Module):
    """PReLU, a leaky ReLU with learned slopes: `y = x` for `x > 0`, else `y = weight x`.

    Parameters
    ----------
    num_parameters : int, default 1
        Number of slopes: one for all elements, or one for each channel (axis 1).
    init : float, default 0.25
        Initial slope.
    device, dtype : optional
        Device and dtype of the slopes.

    Attributes
    ----------
    weight : Parameter of shape (num_parameters,)

    Notes
    -----
    He et al. 2015, arXiv:1502.01852v1, section 2.1. The authors do not apply weight decay to the
    slopes, because it would pull the slopes towards 0 and turn the layer into a ReLU.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.PReLU()(mt.tensor([-2.0, 3.0])).detach()
    tensor([-0.5,  3. ])
    """

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        check_sizes("PReLU", num_parameters=num_parameters)
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(ops.full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self):
        """Set every slope to `init`."""
        constant_(self.weight, self.init)

    def forward(self, input):
        # input: (batch, channel, ...)
        channels = input.shape[1] if input.ndim > 1 else 1
        if self.num_parameters not in (1, channels):
            raise ShapeError(
                "PReLU: the input does not have num_parameters channels",
                got=f"input {input.shape} and num_parameters={self.num_parameters}",
                expected=f"num_parameters=1, or {channels}, the size of axis 1",
                hint="use num_parameters=1 for one slope",
            )
        slopes = self.weight
        if self.num_parameters > 1:
            slopes = slopes.reshape(-1, *[1] * (input.ndim - 2))  # (channel, 1, ...)
        return ops.where(input > 0, input, slopes * input)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Mish(Module):
    """Mish, `y = x tanh(log(1 + e^x))`."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = bool(inplace)

    def forward(self, input):
        return functional.mish(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class Hardswish(Module):
    """Hard swish, `y = x clip(x + 3, 0, 6) / 6`."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = bool(inplace)

    def forward(self, input):
        return functional.hardswish(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class Softplus(Module):
    """Softplus: `y = log(1 + e^(beta x)) / beta`, or `y = x` where `beta x > threshold`."""

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class GLU(Module):
    """Gated linear unit, `y = a sigmoid(b)`, where a and b are the halves of x along `dim`."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmax(Module):
    """Softmax, `y_i = e^x_i / sum_j e^x_j`, along `dim`."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.softmax(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """Logarithm of the softmax along `dim`."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.log_softmax(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class ReLU6(Module):
    """ReLU6, `y = min(max(x, 0), 6)`."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = bool(inplace)

    def forward(self, input):
        return functional.relu6(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class SELU(Module):
    """Scaled ELU with the constants that preserve mean 0 and variance 1 across layers."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = bool(inplace)

    def forward(self, input):
        return functional.selu(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class CELU(Module):
    """CELU: `y = x` for `x > 0`, else `y = alpha (e^(x / alpha) - 1)`."""

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha, self.inplace = alpha, bool(inplace)

    def forward(self, input):
        return functional.celu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self, f"alpha={self.alpha}")


class Hardsigmoid(Module):
    """Hard sigmoid, `y = clip(x + 3, 0, 6) / 6`."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = bool(inplace)

    def forward(self, input):
        return functional.hardsigmoid(input, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self)


class Hardtanh(Module):
    """Hard tanh, `y = clip(x, min_val, max_val)`."""

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False):
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, bool(inplace)

    def forward(self, input):
        return functional.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)

    def extra_repr(self):
        return _inplace(self, f"min_val={self.min_val}, max_val={self.max_val}")


class LogSigmoid(Module):
    """Log-sigmoid, `y = -log(1 + e^-x)`."""

    def forward(self, input):
        return functional.logsigmoid(input)


class Softmin(Module):
    """Softmin, `y_i = e^-x_i / sum_j e^-x_j`, along `dim`."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return functional.softmin(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


def _inplace(module, *parts):
    """Join `parts` for the module's repr. Append `inplace=True` if the module works in place."""
    return ", ".join([*parts, "inplace=True"] if module.inplace else parts)
