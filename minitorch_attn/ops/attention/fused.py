"""Fused attention: scores, softmax, dropout and context as one operation, forward and backward."""

from ...autograd.broadcasting import sum_to_shape
from ...autograd.function import Function
from ...backend import array_module, keep_mask, matmul
from ...backend.gemm import matmul_like
from ...backend.half import narrowed, widened
from ...backend.row_reductions import row_dot
from ...computes import computes
from ..softmax import softmax_in_place
from .definition import attention_definition, dropout_scale
from .mask import additive, causal_bias

__all__ = ["Attention"]


@computes("attention", reveals=("softmax", "masked softmax"))
class Attention(Function):
    r"""Scaled dot-product attention as one operation that computes all scores at once.

    Forward:  context = softmax(scale * query @ key^T + mask) @ value
    Backward: grad_value = p^T @ g, ds = p * (g @ value^T - sum(g * context)),
        grad_query = scale * ds @ key, grad_key = scale * ds^T @ query, grad_mask = ds
    Here g is the gradient of the context, p the weights, c the scale and m the mask. Query, key,
    value and output have the rows q_i, k_j, v_j and o_i. Indices d and e run over the features:
        scores    s_ij = c sum_d q_id k_jd + m_ij
        weights   p_ij = exp(s_ij) / sum_l exp(s_il)
        context   o_ie = sum_j p_ij z_ij v_je,   z_ij = 0 or 1 / (1 - dropout_p).

    Derivation: with g = dL/do, from the last equation to the first,
        dL/dv_je = sum_i p_ij z_ij g_ie
        dL/dp_ij = z_ij sum_e g_ie v_je
        dL/ds_ij = p_ij (dL/dp_ij - a_i),   a_i = sum_l p_il dL/dp_il   (see `Softmax`)
        dL/dq_id = c sum_j dL/ds_ij k_jd,   dL/dk_jd = c sum_i dL/ds_ij q_id,   dL/dm = dL/ds.
    Exchanging the sums gives the mean a_i without a pass over the weights:
        a_i = sum_l p_il z_il sum_e g_ie v_le = sum_e g_ie o_ie.

    Saved: query, key, value, mask and output; the weights p as intermediates; the dropout mask.

    A query that cannot attend to any key (every s_ij = -inf) has p = 0, so that its output and all
    its gradients are 0.
    """

    @staticmethod
    def forward(ctx, query, key, value, mask, *, scale, is_causal, dropout_p):
        # query (..., query, dim)   key (..., key, dim)   value (..., key, value_dim)
        xp = array_module(query)
        inputs = query, key, value
        query, key, value = map(widened, inputs)
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
        context = narrowed(context, inputs[0])
        ctx.save(*inputs, mask, context)
        ctx.save_intermediate(weights)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        query, key, value, mask, context = map(widened, ctx.saved)
        (weights,) = ctx.intermediate
        need_query, need_key, need_value, need_mask = ctx.needs_grad
        scale, dropout_p = ctx.settings["scale"], ctx.settings["dropout_p"]
        grad_query = grad_key = grad_value = grad_mask = None
        grad_context = widened(grad_context)
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
            grad_scores -= mean_grad  # grad_scores was dL/dp until here
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
        return tuple(map(narrowed, (grad_query, grad_key, grad_value, grad_mask), ctx.saved[:4]))

    @staticmethod
    def composed(ctx, *inputs, **settings):
        """Compute the attention output step by step, with `attention_definition`."""
        return attention_definition(ctx, *inputs, **settings)[0]
