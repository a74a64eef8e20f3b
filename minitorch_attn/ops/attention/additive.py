"""Additive attention as one operation: scores from a hidden layer, softmax and context."""

from ...autograd.function import Function
from ...backend import array_module, matmul
from ...backend.half import narrowed, widened
from ...computes import computes
from ..sigmoid import tanh
from ..softmax import check_mask, masked_softmax, softmax_in_place

__all__ = ["additive_attention"]


@computes("additive attention", reveals=("attention", "softmax", "masked softmax"))
class AdditiveAttention(Function):
    r"""Attention with the scores `tanh(query + key) @ v`, for projected queries and keys.

    Forward:  weights = softmax(sum(v * tanh(query + key))), context = weights @ value
    Backward: ds = weights * (dp - sum(weights * dp)), dp = grad_context @ value^T + grad_weights,
        grad_query = grad_key = ds * v * (1 - tanh(query + key)^2), summed over the
        keys for grad_query, and over the queries for grad_key,
        grad_v = sum(ds * tanh(query + key)), grad_value = weights^T @ grad_context
    The rows of query, key and value are q_i, k_j and z_j. Index h runs over the hidden units, e
    over the features of value:
        hidden    t_ijh = tanh(q_ih + k_jh)
        scores    s_ij = sum_h v_h t_ijh
        weights   p_ij = exp(s_ij) / sum_l exp(s_il)   over the keys that the mask allows
        context   c_ie = sum_j p_ij z_je.

    Derivation: with g = dL/dc and r = dL/dp of the returned weights, from the last equation to the
    first,
        dL/dz_je = sum_i p_ij g_ie
        dp_ij = r_ij + sum_e g_ie z_je                 the weights are both returned and used in c
        dL/ds_ij = p_ij (dp_ij - sum_l p_il dp_il)     see `Softmax`
        dL/dv_h = sum_ij dL/ds_ij t_ijh
        dL/dt_ijh = dL/ds_ij v_h,   tanh' = 1 - tanh^2, hence with a_ijh = q_ih + k_jh
        dL/da_ijh = dL/ds_ij v_h (1 - t_ijh^2)
        dL/dq_ih = sum_j dL/da_ijh,   dL/dk_jh = sum_i dL/da_ijh.
    Saved: query, key, v, value and mask; t and the weights as intermediates.

    If the mask blocks all keys of a query, its weights, its context and its gradients are 0.
    """

    @staticmethod
    def forward(ctx, query, key, v, value, mask):
        # query (..., query, hidden)   key (..., key, hidden)   v (hidden,)   value (..., key, dim)
        xp, given = array_module(query), query
        ctx.save(query, key, v, value, mask)
        query, key, v, value = map(widened, (query, key, v, value))
        # (..., query, 1, hidden) + (..., 1, key, hidden) -> (..., query, key, hidden)
        t = query[..., :, None, :] + key[..., None, :, :]
        xp.tanh(t, out=t)
        scores = matmul(t, v[:, None])[..., 0]  # (..., query, key)
        if mask is not None:
            scores = xp.where(mask, scores, -xp.inf)
        weights = softmax_in_place(scores, -1)
        ctx.save_intermediate(t, weights)
        context = matmul(weights, value)  # (..., query, key) @ (..., key, dim)
        return narrowed(context, given), narrowed(weights, given)

    @staticmethod
    def backward(ctx, grad_context, grad_weights):
        query, _, v, value, _ = ctx.saved
        t, weights = ctx.intermediate
        need_query, need_key, need_v, need_value, _ = ctx.needs_grad
        grad_query = grad_key = grad_v = grad_value = None
        v, value, grad_context, grad_weights = map(widened, (v, value, grad_context, grad_weights))
        if need_value:  # (..., key, query) @ (..., query, dim)
            grad_value = matmul(weights.swapaxes(-1, -2), grad_context)
        dp = matmul(grad_context, value.swapaxes(-1, -2)) + grad_weights  # (..., query, key)
        ds = weights * (dp - (weights * dp).sum(axis=-1, keepdims=True))
        if need_v:  # (1, ... * query * key) @ (... * query * key, hidden)
            grad_v = matmul(ds.reshape(1, -1), t.reshape(-1, len(v)))[0]
        if need_query or need_key:
            da = ds[..., None] * v
            da *= 1 - t * t  # (..., query, key, hidden)
            grad_query = da.sum(axis=-2) if need_query else None
            grad_key = da.sum(axis=-3) if need_key else None
        found = grad_query, grad_key, grad_v, grad_value
        return *[None if g is None else narrowed(g, query) for g in found], None

    @staticmethod
    def composed(ctx, query, key, v, value, mask):
        """Compute the attention output and the weights step by step."""
        scores = tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ v  # (..., query, key)
        weights = masked_softmax(scores, mask)
        return weights @ value, weights


def additive_attention(query, key, v, value, mask=None):
    """Attend with the scores `tanh(query + key) @ v`.

    `nn.AdditiveAttention` projects the queries and keys, checks their shapes, and then calls this
    function.

    Parameters
    ----------
    query : Tensor of shape (..., query, hidden)
        Projected queries.
    key : Tensor of shape (..., key, hidden)
        Projected keys; their leading axes are those of the queries.
    v : Tensor of shape (hidden,)
        Weight of each hidden unit in the scores.
    value : Tensor of shape (..., key, value_dim)
    mask : bool Tensor that broadcasts to (..., query, key), optional
        True for the keys to attend to.

    Returns
    -------
    context : Tensor of shape (..., query, value_dim)
    weights : Tensor of shape (..., query, key)

    Raises
    ------
    DTypeError, ShapeError
        If the mask is not boolean, or does not broadcast to the scores.

    References
    ----------
    .. [1] Bahdanau et al. 2014, arXiv:1409.0473v7, section 3.1 and appendix A.1.2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> query, key = mt.zeros(2, 1, 5), mt.zeros(2, 3, 5)
    >>> context, weights = additive_attention(query, key, mt.ones(5), mt.ones(2, 3, 7))
    >>> context.shape, weights[0]
    ((2, 1, 7), tensor([[0.3333, 0.3333, 0.3333]]))
    """
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], key.shape[-2]), "additive_attention", "the scores")
    return AdditiveAttention.apply(query, key, v, value, mask)
