"""Scaled dot-product attention: one fused operation, and the composition it must equal."""

from ..autograd.broadcasting import sum_to_shape
from ..autograd.function import Context, Function
from ..backend import array_module, keep_mask, matmul
from ..backend.gemm import matmul_like
from ..backend.rows import row_dot
from .attention_causal import CausalAttention, rows_pay
from .attention_definition import attention_definition, dropout_scale
from .attention_inputs import additive, causal_bias, prepared
from .attention_tiled import TiledAttention, tiles_pay
from .softmax import softmax_in_place

__all__ = ["attention_composed", "scaled_dot_product_attention"]


class Attention(Function):
    r"""context = softmax(c query key^T + mask) value, the whole block as one operation.

    With rows i of query q and of the output o, rows j of key k and value v, features d and e:
        scores    s_ij = c sum_d q_id k_jd + m_ij
        weights   p_ij = exp(s_ij) / sum_l exp(s_il)
        context   o_ie = sum_j p_ij z_ij v_je,   z_ij = 0 or 1 / (1 - dropout_p).

    Derivative: with g = dL/do, from the last line to the first,
        dL/dv_je = sum_i p_ij z_ij g_ie
        dL/dp_ij = z_ij sum_e g_ie v_je
        dL/ds_ij = p_ij (dL/dp_ij - a_i),   a_i = sum_l p_il dL/dp_il   (see `Softmax`)
        dL/dq_id = c sum_j dL/ds_ij k_jd,   dL/dk_jd = c sum_i dL/ds_ij q_id,   dL/dm = dL/ds.
    The mean a_i needs no pass over the weights: exchanging its sums,
        a_i = sum_l p_il z_il sum_e g_ie v_le = sum_e g_ie o_ie.

    Saved: query, key, value, mask, output; the weights p from inside; the mask of dropout.
    A row that may attend to nothing (every s_ij = -inf) has p = 0: its output and all its
    gradients are 0.
    """

    @staticmethod
    def forward(ctx, query, key, value, mask, *, scale, is_causal, dropout_p):
        # query (..., query, dim)   key (..., key, dim)   value (..., key, value_dim)
        xp = array_module(query)
        scores = matmul(query * scale, key.swapaxes(-1, -2))  # (..., query, key)
        if is_causal:
            scores += causal_bias(scores)
        if mask is not None:
            scores += additive(mask, scores.dtype)
        weights = softmax_in_place(scores, -1)
        kept = weights
        if dropout_p:
            keep = keep_mask(weights.shape, 1.0 - dropout_p, xp)
            ctx.constants(keep)
            kept = weights * keep
        context = matmul_like(kept, value, like=query)  # (..., query, value_dim)
        if dropout_p:
            context *= dropout_scale(dropout_p)
        ctx.save(query, key, value, mask, context)
        ctx.save_intermediate(weights)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        query, key, value, mask, context = ctx.saved
        (weights,) = ctx.intermediate
        need_query, need_key, need_value, need_mask = ctx.needs_grad
        scale, dropout_p = ctx.settings["scale"], ctx.settings["dropout_p"]
        grad_query = grad_key = grad_value = grad_mask = None
        mean_grad = row_dot(grad_context, context)  # a_i
        kept = weights
        if dropout_p:
            (keep,) = ctx.constant
            kept = weights * keep
            grad_context = grad_context * dropout_scale(dropout_p)
        if need_value:  # (..., key, query) @ (..., query, value_dim)
            grad_value = matmul_like(kept.swapaxes(-1, -2), grad_context, like=value)
            grad_value = sum_to_shape(grad_value, value.shape)
        if need_query or need_key or need_mask:
            grad_scores = matmul(grad_context, value.swapaxes(-1, -2))  # (..., query, key)
            if dropout_p:
                grad_scores *= keep
            grad_scores -= mean_grad  # until here dL/dp
            grad_scores *= weights
        if need_query:  # (..., query, key) @ (..., key, dim)
            grad_query = matmul_like(grad_scores, key, like=query)
            grad_query *= scale
            grad_query = sum_to_shape(grad_query, query.shape)
        if need_key:  # (..., key, query) @ (..., query, dim)
            grad_key = matmul_like(grad_scores.swapaxes(-1, -2), query, like=key)
            grad_key *= scale
            grad_key = sum_to_shape(grad_key, key.shape)
        if need_mask:
            grad_mask = sum_to_shape(grad_scores, mask.shape)
        return grad_query, grad_key, grad_value, grad_mask

    @staticmethod
    def composed(ctx, *inputs, **settings):
        """The definition, one operation at a time, under the same dropout mask."""
        return attention_definition(ctx, *inputs, **settings)


def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """softmax(query key^T / sqrt(dim)) value: each query's weighted mean of the values.

    Parameters
    ----------
    query : Tensor of shape (..., heads, query, dim)
    key : Tensor of shape (..., heads, key, dim)
    value : Tensor of shape (..., heads, key, value_dim)
        The leading axes broadcast.
    attn_mask : Tensor or Mask, optional
        Broadcasts to (..., heads, query, key). Boolean: True where the query may attend to the key.
        Float: added to the scores; it may require grad. A `Mask` carries its meaning itself.
    dropout_p : float in [0, 1], default 0
        Probability with which a weight is set to 0; there is no training flag here.
    is_causal : bool, default False
        Query i attends to keys 0 to i only, counted from the first also where there are more keys
        than queries. Together with `attn_mask`, both must allow it (PyTorch refuses both at once).
    scale : float, optional
        Factor of the scores, by default 1 / sqrt(dim).
    enable_gqa : bool, default False
        Key and value may have fewer heads than query, each shared by a group of query heads.

    Returns
    -------
    Tensor of shape (..., heads, query, value_dim)
        Zeros, with a zero gradient, for a query that may attend to nothing, whether a boolean mask
        or -inf in a float mask says so; PyTorch 2.13 does the same.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        If the arguments do not fit together.

    Notes
    -----
    Derivative in `Attention`; the same from single operations in `attention_composed`.
    Vaswani et al. 2017 [1]_, Eq. 1; grouped queries are from Ainslie et al. 2023 [2]_, sec. 2.2.

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
    context = _function_for(inputs).apply(*inputs.tensors, **inputs.settings)
    return context if inputs.shape is None else context.reshape(inputs.shape)


def _function_for(inputs):
    """Which of the three equal operations is the fastest."""
    if tiles_pay(inputs.score_shape):
        return TiledAttention
    query, key, _, mask = inputs.tensors
    return (
        CausalAttention if rows_pay(query, key, mask, inputs.settings["is_causal"]) else Attention
    )


def attention_composed(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    """`scaled_dot_product_attention` built from matmul, softmax and dropout: slower, the same.

    The oracle of the fused operation, and the version to read first. Arguments and result are the
    same; under dropout it draws the mask that the fused operation would draw.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> query, key, value = mt.randn(2, 5, 3), mt.randn(2, 7, 3), mt.randn(2, 7, 4)
    >>> fused = scaled_dot_product_attention(query, key, value)
    >>> composed = attention_composed(query, key, value)
    >>> (fused - composed).abs().max().item() < 1e-6
    True
    """
    inputs = prepared(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    ctx = Context()
    if dropout_p:
        ctx.constants(keep_mask(inputs.score_shape, 1.0 - dropout_p, array_module(query.array)))
    context = attention_definition(ctx, *inputs.tensors, **inputs.settings)
    return context if inputs.shape is None else context.reshape(inputs.shape)
