"""Attention as it is defined, one operation after the other: what the fused operations equal."""

from ..tensor import wrap
from .attention_inputs import causal_bias
from .dropout import Dropout
from .softmax import masked_softmax

__all__ = ["attention_definition", "dropout_scale"]


def attention_definition(ctx, query, key, value, mask, *, scale, is_causal, dropout_p):
    """softmax(scale query key^T + mask) value, under the dropout mask that `ctx` keeps.

    Parameters
    ----------
    ctx : Context
        Its constant is the mask of dropout, if there is dropout.
    query, key, value : Tensor of shape (..., token, dim)
    mask : Tensor or None
    scale, is_causal, dropout_p
        As of `scaled_dot_product_attention`.

    Returns
    -------
    Tensor of shape (..., query, value_dim)
    """
    scores = (query @ key.swapaxes(-1, -2)) * scale
    if is_causal:
        scores = scores + wrap(causal_bias(scores.array))
    if mask is not None and mask.dtype.kind == "f":
        scores, mask = scores + mask, None
    weights = masked_softmax(scores, mask)
    if dropout_p:
        (keep,) = ctx.constant
        weights = Dropout.apply(weights, keep, scale=dropout_scale(dropout_p))
    return weights @ value


def dropout_scale(p):
    """What the weights that are kept are multiplied by."""
    return 1.0 / (1.0 - p) if p < 1 else 0.0
