"""Distances between the rows of two matrices: cdist."""

import math

from ..autograd.autocast import autocasts
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from .arithmetic import abs as magnitude
from .arithmetic import mul, sub
from .comparison import eq
from .max_min import amax
from .plumbing.tensor_arguments import as_operand
from .power import pow as power
from .power import sqrt
from .reshape import unsqueeze
from .sum_mean import sum as sum_over
from .where import where

__all__ = ["cdist"]


@names_arguments
@autocasts
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """Distance of each row of x1 from each row of x2: `d_ij = (sum_k |x1_ik - x2_jk|^p)^(1/p)`.

    Parameters
    ----------
    x1 : Tensor of shape (..., n, k)
    x2 : Tensor of shape (..., m, k)
    p : float, default 2
        Order of the norm, from 0 (number of entries that differ) to infinity (largest difference).
    compute_mode : str
        Ignored; for compatibility with PyTorch. The distance is always computed from differences.

    Returns
    -------
    Tensor of shape (..., n, m)

    Notes
    -----
    The derivative is discontinuous at distance 0, and is defined as 0 there.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cdist(mt.tensor([[0.0, 0.0], [3.0, 0.0]]), mt.tensor([[3.0, 4.0]]))
    tensor([[5.],
            [4.]])
    """
    x1, x2 = as_operand(x1, "cdist", "x1"), as_operand(x2, "cdist", "x2")
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            "cdist(x1, x2): the rows of x1 and x2 must have the same length",
            got=f"x1 {x1.shape} and x2 {x2.shape}",
            expected="x1 (..., n, k) and x2 (..., m, k)",
            hint="use x.unsqueeze(0) to turn a vector into a row",
        )
    if not p >= 0:
        raise ArgumentError("cdist: p must be at least 0", got=f"p={p}")
    apart = sub(unsqueeze(x1, -2), unsqueeze(x2, -3))  # (..., n, m, k)
    if p == 2:
        return _root(sum_over(mul(apart, apart), -1), 2)
    gap = magnitude(apart)
    if p == 0:
        return sum_over(where(eq(gap, 0), gap, 1.0), -1)
    if p == 1 or gap.shape[-1] == 0:
        return sum_over(gap, -1)
    if p == math.inf:
        return amax(gap, -1)
    nil = eq(gap, 0)
    return _root(sum_over(where(nil, 0.0, power(where(nil, 1.0, gap), p)), -1), p)


def _root(total, p):
    """Return total^(1/p), with derivative 0 at 0."""
    nil = eq(total, 0)
    positive = where(nil, 1.0, total)
    return where(nil, 0.0, sqrt(positive) if p == 2 else power(positive, 1.0 / p))
