"""Layer normalization and RMS normalization over the last axes."""

from .. import ops
from . import init
from .module import Module
from .parameter import Parameter

__all__ = ["LayerNorm", "RMSNorm"]


class LayerNorm(Module):
    """Layer normalization over the last axes, `y = (x - mean) / sqrt(var + eps) * weight + bias`.

    The variance is the mean of the squared deviations (the biased estimate).

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Sizes of the last axes, which are normalized together.
    eps : float, default 1e-5
        Small number added to the variance, inside the square root.
    elementwise_affine : bool, default True
        Whether the layer has a weight and a bias.
    bias : bool, default True
        Whether the layer has a bias. Ignored if `elementwise_affine` is False.
    device, dtype : optional
        Device and dtype of the parameters.

    Attributes
    ----------
    weight, bias : Parameter of shape normalized_shape, or None
        Initially ones and zeros; None if `elementwise_affine` or `bias` is False.

    Notes
    -----
    Ba et al. 2016, arXiv:1607.06450v1, Eq. 3-4. The paper does not use eps.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.LayerNorm(2)(mt.tensor([[1.0, 3.0]])).detach()
    tensor([[-1.,  1.]])
    """

    def __init__(
        self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine

        def parameter(wanted):
            return (
                Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
                if wanted
                else None
            )

        self.register_parameter("weight", parameter(elementwise_affine))
        self.register_parameter("bias", parameter(elementwise_affine and bias))
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input):
        return ops.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        affine, bias = self.elementwise_affine, self.bias is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}, bias={bias}"


class RMSNorm(Module):
    """RMS normalization over the last axes, `y = x / sqrt(mean(x^2) + eps) * weight`.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Sizes of the last axes, which are normalized together.
    eps : float, optional
        Small number added to the mean square. Default: the machine epsilon of the dtype.
    elementwise_affine : bool, default True
        Whether the layer has a weight.
    device, dtype : optional
        Device and dtype of the parameter.

    Attributes
    ----------
    weight : Parameter of shape normalized_shape, or None
        Initially ones; None if `elementwise_affine` is False.

    Notes
    -----
    Zhang and Sennrich 2019, arXiv:1910.07467v1, Eq. 4. The paper does not use eps.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.RMSNorm(2)(mt.tensor([[1.0, 7.0]])).detach()
    tensor([[0.2, 1.4]])
    """

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        super().__init__()
        self.normalized_shape = _as_tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = None
        if elementwise_affine:
            weight = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input):
        return ops.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


def _as_tuple(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)
