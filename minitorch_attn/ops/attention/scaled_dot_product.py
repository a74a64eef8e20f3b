"""Scaled dot-product attention: the public functions, and the choice among the fused kernels."""

from ...computes import computes
from ...named_errors import names_arguments
from .arguments import prepared
from .causal import CausalAttention, rows_pay
from .definition import attention_definition
from .fused import Attention
from .tiled import TiledAttention, tiles_pay

__all__ = ["attention_composed", "attention_with_weights", "scaled_dot_product_attention"]


@names_arguments
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
    enable_gqa=False,
):  # fmt: skip
    """Attention, a weighted mean of the values: `softmax(query @ key^T / sqrt(dim)) @ value`.

    Parameters
    ----------
    query : Tensor of shape (..., heads, query, dim)
    key : Tensor of shape (..., heads, key, dim)
    value : Tensor of shape (..., heads, key, value_dim)
        The leading axes of query, key and value broadcast.
    attn_mask : Tensor or Mask, optional
        Broadcasts to (..., heads, query, key). Boolean: True where the query may attend to the key.
        Float: added to the scores; it may require grad. A `Mask` defines what True means.
    dropout_p : float in [0, 1], default 0
        Probability of setting a weight to 0. Pass 0 in eval mode.
    is_causal : bool, default False
        If True, query i attends to keys 0 to i only, even if there are more keys than queries.
        With `attn_mask`, both masks must allow a key (PyTorch rejects the combination).
    scale : float, optional
        Factor that multiplies the scores, by default 1 / sqrt(dim).
    enable_gqa : bool, default False
        If True, key and value may have fewer heads than query; query heads then share them.

    Returns
    -------
    Tensor of shape (..., heads, query, value_dim)
        Weighted means of the values. A query that cannot attend to any key (False in a boolean
        mask, -inf in a float mask) gets zeros with a zero gradient, as in PyTorch 2.13.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        If shapes or dtypes do not match, or an argument is out of range.

    Notes
    -----
    The derivative is in `Attention`; `attention_composed` computes the same result step by step.
    See Vaswani et al. 2017 [1]_, Eq. 1; for `enable_gqa`, Ainslie et al. 2023 [2]_, sec. 2.2.

    References
    ----------
    .. [1] "Attention Is All You Need", arXiv:1706.03762v7, sec. 3.2.1.
    .. [2] "GQA: Training Generalized Multi-Query Transformer Models", arXiv:2305.13245v3.

    Examples
    --------
    The first query matches the first key much better than the second:

    >>> import minitorch_attn as mt
    >>> query = mt.tensor([[9.0, 0.0], [0.0, 0.0]])
    >>> key = mt.tensor([[9.0, 0.0], [0.0, 9.0]])
    >>> value = mt.tensor([[1.0], [3.0]])
    >>> scaled_dot_product_attention(query, key, value)
    tensor([[1.],
            [2.]])
    """
    inputs = prepared(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    context = kernel_for(inputs).apply(*inputs.tensors, **inputs.settings)
    return context if inputs.shape is None else context.reshape(inputs.shape)


def kernel_for(inputs):
    """Choose the fastest of the three fused kernels, which compute the same function."""
    if tiles_pay(inputs.score_shape):
        return TiledAttention
    query, key, _, mask = inputs.tensors
    return (
        CausalAttention if rows_pay(query, key, mask, inputs.settings["is_causal"]) else Attention
    )


@computes("attention")
def attention_with_weights(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
    enable_gqa=False, nan_if_blocked=False,
):  # fmt: skip
    """Compute `scaled_dot_product_attention` step by step, and return the weights as well.

    Parameters
    ----------
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        See `scaled_dot_product_attention`. For the dropout mask, see `attention_composed`.
    nan_if_blocked : bool, default False
        If True, a query that cannot attend to any key gets NaN, as in PyTorch's
        `MultiheadAttention`. If False, it gets zeros.

    Returns
    -------
    context : Tensor of shape (..., heads, query, value_dim)
    weights : Tensor of shape (..., heads, query, key)
        Weights after dropout, from which the context is computed.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> query, key, value = mt.zeros(2, 5, 3), mt.randn(2, 4, 3), mt.randn(2, 4, 7)
    >>> context, weights = attention_with_weights(query, key, value)
    >>> context.shape, weights[0, 0]
    ((2, 5, 7), tensor([0.25, 0.25, 0.25, 0.25]))
    """
    inputs = prepared(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, repeat_heads=True
    )
    return attention_definition(
        None, *inputs.tensors, **inputs.settings, nan_if_blocked=nan_if_blocked
    )


@names_arguments
def attention_composed(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
    enable_gqa=False,
):  # fmt: skip
    """`scaled_dot_product_attention` composed of matmul, softmax and dropout: slower, same result.

    Read this version first; the fused kernels are tested against it. The arguments are those of
    `scaled_dot_product_attention`. With the same seed, both functions draw the same dropout mask,
    unless `scaled_dot_product_attention` uses `TiledAttention`.
    """
    return attention_with_weights(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )[0]
