"""Causal attention computed in blocks of queries, which skips most of the masked-out scores."""

from ...autograd.broadcasting import broadcast_shapes, sum_to_shape
from ...autograd.function import Function
from ...backend import array_module, keep_mask, matmul
from ...backend.gemm import matmul_like
from ...backend.half import narrowed, widened
from ...backend.row_reductions import row_dot
from ...computes import computes
from ..softmax import softmax_in_place
from .definition import attention_definition, dropout_scale
from .mask import causal_bias

__all__ = ["CausalAttention", "causal_blocks", "rows_pay"]

ROWS = 64  # queries in a block


def rows_pay(query, key, mask, is_causal):
    """Return True if `CausalAttention` is faster than `Attention`.

    This is so for causal self-attention without another mask, on more than one block of queries.
    """
    tokens = query.shape[-2]
    return is_causal and mask is None and tokens == key.shape[-2] and tokens > ROWS


@computes("attention", reveals=("softmax", "masked softmax"))
class CausalAttention(Function):
    r"""Causal self-attention, computed one block of queries at a time.

    Forward:  context_i = softmax(scale * query_i @ key^T) @ value over the keys up to i
    Backward: as in `Attention`, one block of queries at a time
    Derivation: as in `Attention`, with the same symbols, for each block. A key is used only
    by queries in its own block and in later blocks, so the gradient of a key or value is a sum over
    these queries:
        dL/dv_j = sum_i p_ij z_ij g_i,   dL/dk_j = c sum_i dL/ds_ij q_i,   i >= j.
    Saved: query, key, value, output; the weights of each block as intermediates; the dropout mask.

    `Attention` with a causal mask computes the same result. A block with the queries a to b needs
    only the keys 0 to b. The scores of the block are a rectangle, in which only the square on the
    diagonal has masked-out entries. With n tokens in blocks of r, the fraction (n + r) / (2 n) of
    all scores is computed and kept, for example 63 % for 256 tokens in blocks of 64.
    """

    @staticmethod
    def forward(ctx, query, key, value, mask, *, scale, is_causal, dropout_p):
        # query (..., token, dim)   key (..., token, dim)   value (..., token, value_dim)
        xp, tokens = array_module(query), query.shape[-2]
        lead = broadcast_shapes(query.shape[:-2], key.shape[:-2])
        keep = None
        if dropout_p:
            keep = keep_mask((*lead, tokens, tokens), 1.0 - dropout_p, xp)
            ctx.constants(keep)
        lead = broadcast_shapes(lead, value.shape[:-2])
        context = xp.empty_like(query, shape=(*lead, tokens, value.shape[-1]))
        blocks, q, k, v = [], widened(query), widened(key), widened(value)
        for rows, seen in causal_blocks(tokens):
            scores = matmul(q[..., rows, :] * scale, k[..., seen, :].swapaxes(-1, -2))
            scores[..., rows] += causal_bias(scores[..., rows])  # (..., row, row)
            weights = softmax_in_place(scores, -1)  # (..., row, seen)
            blocks.append(weights)
            kept = weights * keep[..., rows, seen] if dropout_p else weights
            context[..., rows, :] = matmul(kept, v[..., seen, :])  # (..., row, value_dim)
        if dropout_p:
            context *= dropout_scale(dropout_p)
        ctx.save(query, key, value, mask, context)
        ctx.save_intermediate(*blocks)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        query, key, value, _, context = map(widened, ctx.saved)
        grad_context = widened(grad_context)
        scale, dropout_p = ctx.settings["scale"], ctx.settings["dropout_p"]
        mean_grad = row_dot(grad_context, context)  # sum_j p_ij dL/dp_ij
        if dropout_p:
            grad_context = grad_context * dropout_scale(dropout_p)
        grad_query = array_module(query).empty_like(query, shape=_full(query, context))
        grad_key = grad_value = None
        # The last block attends to every key, so the sums over blocks start with it.
        for number, (rows, seen) in reversed(list(enumerate(causal_blocks(query.shape[-2])))):
            weights = kept = ctx.intermediate[number]
            g = grad_context[..., rows, :]  # (..., row, value_dim)
            grad_scores = matmul(g, value[..., seen, :].swapaxes(-1, -2))  # (..., row, seen)
            if dropout_p:
                keep = ctx.constant[0][..., rows, seen]
                kept = weights * keep
                grad_scores *= keep
            grad_scores -= mean_grad[..., rows, :]  # grad_scores was dL/dp until here
            grad_scores *= weights
            grad_query[..., rows, :] = matmul(grad_scores, key[..., seen, :])
            # (..., seen, row) @ (..., row, dim)
            grad_key = _added(grad_key, grad_scores, query[..., rows, :], seen, key)
            grad_value = _added(grad_value, kept, g, seen, value)
        grad_query *= scale
        grad_key *= scale
        grads = (
            sum_to_shape(grad_query, query.shape),
            sum_to_shape(grad_key, key.shape),
            sum_to_shape(grad_value, value.shape),
        )
        return *map(narrowed, grads, ctx.saved[:3]), None

    @staticmethod
    def composed(ctx, *inputs, **settings):
        """Compute attention with `attention_definition` and the dropout mask saved in `ctx`."""
        return attention_definition(ctx, *inputs, **settings)[0]


def causal_blocks(tokens):
    """For each block, return two slices: its queries, and the keys that they may attend to.

    Examples
    --------
    >>> causal_blocks(100)
    [(slice(0, 64, None), slice(0, 64, None)), (slice(64, 100, None), slice(0, 100, None))]
    """
    stops = [min(start + ROWS, tokens) for start in range(0, tokens, ROWS)]
    return [(slice(ROWS * k, stop), slice(0, stop)) for k, stop in enumerate(stops)]


def _full(x, context):
    """Return the shape of x, with its leading axes replaced by those of `context`."""
    return (*context.shape[:-2], *x.shape[-2:])


@computes("attention")
def _added(total, weights, rows, seen, like):
    """Return `total` after adding weights^T @ rows at the keys `seen` of the current block.

    For the first block of the sum, `total` is None. This block has seen all keys, so the product is
    returned. `like` is the array (key or value) whose gradient is summed.
    """
    product = matmul_like(weights.swapaxes(-1, -2), rows, like=like[..., seen, :])
    if total is None:
        return product
    total[..., seen, :] += product
    return total
