"""Linear layers: Linear, LazyLinear, Bilinear, and Identity."""

import math

from .. import ops
from ..backend.kernel_table import with_kernel
from ..ops.projections import Projections, fit
from ..tensor import wrap
from . import init
from .checks import check_sizes
from .hooks import is_plain, is_taken_apart
from .module import Module
from .parameter import Parameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Identity, `y = x`: a placeholder for a layer. The constructor ignores its arguments."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """Linear layer, `y = x W^T + b`, over the last axis.

    Parameters
    ----------
    in_features, out_features : int
        Number of input features and number of output features (sizes of the last axis).
    bias : bool, default True
    device, dtype : optional
        Device and dtype of the parameters.

    Attributes
    ----------
    weight : Parameter of shape (out_features, in_features)
    bias : Parameter of shape (out_features,), or None if the layer has no bias
        Initially, both are uniform in [-a, a], where a = 1/sqrt(in_features).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Linear(3, 5)(mt.zeros(2, 7, 3)).shape
    (2, 7, 5)
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(ops.empty(out_features, in_features, device=device, dtype=dtype))
        bias = Parameter(ops.empty(out_features, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", bias)
        self.reset_parameters()

    def reset_parameters(self):
        """Sample new parameters."""
        if self.in_features == 0:
            return
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # a bound of 1/sqrt(in_features)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features)
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        # input: (..., in_features) -> (..., out_features)
        return ops.linear(input, self.weight, self.bias)

    def extra_repr(self):
        has_bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={has_bias}"


def project(x, *layers):
    """Apply several linear layers to the same input, as one fused operation if possible.

    Parameters
    ----------
    x : Tensor of shape (..., in)
    *layers : Module
        Layers such as the query, key and value projections of an attention layer.

    Returns
    -------
    sequence of Tensor of shape (..., out), one for each layer
    """
    if not is_taken_apart() and all(is_plain(layer, Linear) for layer in layers):
        parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
        if fit(x, parameters):
            return Projections.apply(x, *parameters)
    return [layer(x) for layer in layers]


@with_kernel
def side_by_side(arrays):
    """Return the arrays, placed in memory so that a single matrix product can use all of them.

    On a GPU, arrays of equal shape are copied into one block of memory. On the CPU, nothing is
    copied.

    Parameters
    ----------
    arrays : list of array
    """
    return arrays


def lay_side_by_side(*layers):
    """Store the weights of several linear layers in one memory block, for `project` on a GPU."""
    if not all(is_plain(layer, Linear) for layer in layers):
        return
    weights = [layer.weight for layer in layers]
    before = [weight.array for weight in weights]
    for weight, old, new in zip(weights, before, side_by_side(before), strict=True):
        if new is not old:
            weight.data = wrap(new)


class LazyLinear(Linear):
    """Linear layer that infers `in_features` from its first input, and then becomes a `Linear`.

    Before the first input, the weight has 0 columns. The parameter objects stay the same, so an
    optimizer can be created before the first input. Loading a state dict also sets `in_features`.

    Parameters
    ----------
    out_features : int
        Number of output features.
    bias : bool, default True
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.LazyLinear(5)
    >>> layer(mt.zeros(2, 3)).shape
    (2, 5)
    >>> layer
    Linear(in_features=3, out_features=5, bias=True)
    """

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, out_features, bias, device, dtype)

    def materialize(self, in_features):
        """Initialize parameters for `in_features` inputs, and change the class to `Linear`."""
        like = {"device": self.weight.device, "dtype": self.weight.dtype}
        self.in_features = in_features
        self.weight.data = ops.empty(self.out_features, in_features, **like)
        self.__class__ = Linear
        self.reset_parameters()

    def forward(self, input):
        self.materialize(input.shape[-1])
        return self.forward(input)  # Linear.forward, because the class of the layer has changed


class Bilinear(Module):
    """Bilinear layer, `y_k = x1^T W_k x2 + b_k`, over the last axes.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Sizes of the last axis of the first input, of the second input and of the output.
    bias : bool, default True
    device, dtype : optional
        Device and dtype of the parameters.

    Attributes
    ----------
    weight : Parameter of shape (out_features, in1_features, in2_features)
    bias : Parameter of shape (out_features,), or None if the layer has no bias
        Initially, both are uniform in [-a, a], where a = 1/sqrt(in1_features).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Bilinear(2, 3, 5)(mt.zeros(7, 2), mt.zeros(7, 3)).shape
    (7, 5)
    """

    def __init__(
        self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None
    ):
        super().__init__()
        check_sizes(
            "Bilinear", in1_features=in1_features, in2_features=in2_features,
            out_features=out_features,
        )  # fmt: skip
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        like = {"device": device, "dtype": dtype}
        self.weight = Parameter(ops.empty(out_features, in1_features, in2_features, **like))
        bias = Parameter(ops.empty(out_features, **like)) if bias else None
        self.register_parameter("bias", bias)
        self.reset_parameters()

    def reset_parameters(self):
        """Sample new parameters."""
        bound = 1 / math.sqrt(self.in1_features) if self.in1_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1, input2):
        # (..., in1_features) and (..., in2_features) -> (..., out_features)
        return ops.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
