"""Gumbel-softmax: differentiable random samples of categories."""

from ..backend import from_host, host_generator
from ..errors import ArgumentError, DTypeError
from ..named_errors import names_arguments
from ..tensor import wrap
from .gather_scatter import scatter
from .max_min import argmax
from .plumbing.axes import axis_of
from .plumbing.operands import number
from .plumbing.tensor_arguments import as_operand
from .softmax import softmax

__all__ = ["gumbel_softmax"]


@names_arguments
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Draw one category for each vector of logits, as a one-hot vector or a soft version of it.

    Parameters
    ----------
    logits : Tensor
        Floating-point tensor of unnormalized log-probabilities.
    tau : float
        Temperature, above 0. As the temperature decreases, the samples approach one-hot vectors.
    hard : bool
        Whether the result is one-hot. The gradient is computed as if `hard` were False (the
        straight-through estimator).
    eps : float
        Ignored; for compatibility with PyTorch.
    dim : int
        Axis of the categories.

    Returns
    -------
    Tensor of the same shape as `logits`
        Samples, whose entries sum to 1 along `dim`.

    Notes
    -----
    The soft sample is softmax((logits + g) / tau) with independent g = -log(-log(u)), u uniform in
    (0, 1). The index of its largest element is distributed as softmax(logits).

    References
    ----------
    .. [1] "Categorical Reparameterization with Gumbel-Softmax", arXiv:1611.01144v5, eq. 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.functional.gumbel_softmax(mt.tensor([-100.0, 100.0]), hard=True)
    tensor([0., 1.])
    """
    logits = as_operand(logits, "gumbel_softmax", "logits")
    if logits.dtype.kind != "f":
        raise DTypeError(
            "gumbel_softmax: logits must be a floating-point tensor",
            got=f"{logits.dtype}",
            hint="logits.float()",
        )
    tau = number(tau, "gumbel_softmax", "tau")
    if not tau > 0:
        raise ArgumentError(
            "gumbel_softmax: tau must be greater than 0",
            got=f"tau={tau}",
            hint="use hard=True for one-hot samples",
        )
    dim = axis_of(dim, logits.ndim, "gumbel_softmax")
    soft = softmax((logits + _gumbel_like(logits)) / tau, dim)
    if not hard or not logits.array.size:
        return soft
    index = argmax(soft, dim, keepdim=True)
    one_hot = scatter(soft.detach() * 0, dim, index, 1.0)
    return one_hot - soft.detach() + soft


def _gumbel_like(logits):
    """Return Gumbel noise in the shape of `logits`: -log(e) for exponential random numbers e."""
    waits = host_generator().standard_exponential(logits.shape)
    noise = -wrap(from_host(waits.clip(1e-300), logits.device)).log()
    return noise.to(logits.dtype)
