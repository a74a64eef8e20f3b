"""Attention computed step by step from its definition; returns the context and the weights."""

import math

from ...backend import array_module, keep_mask
from ...computes import computes
from ...tensor import wrap
from ..dropout import Dropout
from ..softmax import masked_softmax, softmax
from .mask import causal_bias

__all__ = ["attention_definition", "dropout_scale"]


@computes("attention")
def attention_definition(
    ctx, query, key, value, mask, *, scale, is_causal, dropout_p, nan_if_blocked=False
):
    """Attention step by step: `dropout(softmax(scale * query @ key^T + mask)) @ value`.

    Parameters
    ----------
    ctx : Context or None
        Context of a fused kernel, which has saved the dropout mask. If None, a mask is drawn.
    query : Tensor of shape (..., query, dim)
    key : Tensor of shape (..., key, dim)
    value : Tensor of shape (..., key, value_dim)
    mask : Tensor that broadcasts to (..., query, key), or None
        Boolean: True where the query may attend to the key. Float: added to the scores.
    scale : float
        Factor that multiplies the scores.
    is_causal : bool
        If True, query i attends to keys 0 to i only.
    dropout_p : float
        Probability that a weight is set to 0.
    nan_if_blocked : bool, default False
        If True, the weights of a query that cannot attend to any key are NaN, as in PyTorch's
        `MultiheadAttention`. If False, they are 0.

    Returns
    -------
    context : Tensor of shape (..., query, value_dim)
    weights : Tensor of shape (..., query, key)
        Weights after dropout, by which the values were multiplied.
    """
    scores = (query @ key.swapaxes(-1, -2)) * scale  # (..., query, key)
    if is_causal:
        scores = scores + wrap(causal_bias(scores.array))
    if mask is not None and mask.dtype.kind == "f":
        scores, mask = scores + mask, None
    if nan_if_blocked:
        scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
        weights = softmax(scores, -1)
    else:
        weights = masked_softmax(scores, mask)
    if dropout_p:
        if ctx is None:
            keep = keep_mask(weights.shape, 1.0 - dropout_p, array_module(weights.array))
        else:
            (keep,) = ctx.constant
        weights = Dropout.apply(weights, keep, scale=dropout_scale(dropout_p))
    return weights @ value, weights  # (..., query, key) @ (..., key, value_dim)


def dropout_scale(p):
    """Return 1 / (1 - p), which preserves the expected value under dropout. Return 0 if p is 1."""
    return 1.0 / (1.0 - p) if p < 1 else 0.0
