"""Linear layer, `y = x W^T + b`, and the identity."""

import math

from .. import ops
from . import init
from .checks import check_sizes
from .module import Module
from .parameter import Parameter

__all__ = ["Identity", "Linear"]


class Identity(Module):
    """Identity, `y = x`, a placeholder for a layer. It ignores its arguments."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """Linear layer, `y = x W^T + b`, over the last axis.

    Parameters
    ----------
    in_features, out_features : int
        Numbers of input and output features, the sizes of the last axes.
    bias : bool, default True
    device, dtype : optional
        Device and dtype of the parameters.

    Attributes
    ----------
    weight : Parameter of shape (out_features, in_features)
    bias : Parameter of shape (out_features,), or None if the layer has no bias
        Both are drawn uniformly from [-a, a], where a = 1/sqrt(in_features).

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
        """Draw new parameters."""
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
