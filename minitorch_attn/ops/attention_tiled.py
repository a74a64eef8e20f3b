"""Attention in linear memory: the scores are computed tile by tile and never all at once."""

import math
from functools import partial
from typing import NamedTuple

from ..autograd.broadcasting import broadcast_shapes, sum_to_shape
from ..autograd.function import Function
from ..backend import array_module, initial_seed, keep_mask, matmul, next_offset
from ..backend.rows import row_dot, row_max, row_sum
from ..backend.threads import threads_for, together
from .attention_definition import attention_definition, dropout_scale
from .attention_inputs import additive

__all__ = ["TiledAttention", "tiles_pay"]

ROWS, COLUMNS = 256, 512  # queries and keys of a tile: it then stays in the cache of a core
FROM_SCORES, FROM_TOKENS = 2**22, 1024  # scores in all, and on each side, from which tiles pay


def tiles_pay(score_shape):
    """Whether attention with so many scores, (..., query, key), is better computed in tiles."""
    return math.prod(score_shape) >= FROM_SCORES and min(score_shape[-2:]) >= FROM_TOKENS


class TiledAttention(Function):
    r"""context = softmax(c query key^T + mask) value, in memory that grows with the tokens only.

    The softmax of a row needs its maximum and its sum, which are known only after the last key.
    But both can be kept up to date: when a tile brings a larger maximum m', all that was summed
    under the old one, m, is multiplied by exp(m - m'). For each row, tile after tile,
        m' = max(m, max_j s_ij),   r = exp(m - m')
        l' = r l + sum_j exp(s_ij - m'),   o' = r o + sum_j exp(s_ij - m') z_ij v_j
    and at the end o / l is the context, and L = m + log l the log-sum-exp of the row.

    Derivative: as in `Attention`, from the weights of one tile at a time. They are computed anew,
        p_ij = exp(s_ij - L_i),
    which takes less time than memory for all of them would.
    Saved: query, key, value, mask, output; L from inside. The masks of dropout are drawn anew
    from their counters.
    A row that may attend to nothing has L = inf and so p = 0: its output and gradients are 0.

    Milakov and Gimelshein 2018, arXiv:1805.02867v2, algorithm 3 (one pass over the scores);
    Dao et al. 2022, arXiv:2205.14135v2, algorithms 1 and 4 (tiles, and the backward pass).
    """

    @staticmethod
    def forward(ctx, query, key, value, mask, *, scale, is_causal, dropout_p):
        # query (..., query, dim)   key (..., key, dim)   value (..., key, value_dim)
        xp = array_module(query)
        lead = broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        context = xp.empty((*lead, query.shape[-2], value.shape[-1]), dtype=query.dtype)
        log_sum = xp.empty((*lead, query.shape[-2], 1), dtype=query.dtype)
        _plan(ctx, query, key, lead, mask, is_causal, dropout_p)
        arrays = query * scale, key, value, mask, context, log_sum
        blocks = list(enumerate(_blocks(query.shape[-2], ROWS)))
        threads = threads_for(query)  # every other block: early ones are short if causal
        together([partial(_forward_rows, ctx, arrays, blocks[k::threads]) for k in range(threads)])
        ctx.save(query, key, value, mask, context)
        ctx.save_intermediate(log_sum)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        query, key, value, mask, context = ctx.saved
        xp, lead, scale = array_module(query), grad_context.shape[:-2], ctx.settings["scale"]
        arrays = query * scale, key, value, mask, context, *ctx.intermediate
        grad_query = xp.zeros((*lead, *query.shape[-2:]), dtype=query.dtype)
        grads = grad_context, grad_query
        need_mask = ctx.needs_grad[3]
        blocks = list(enumerate(_blocks(query.shape[-2], ROWS)))
        threads = 1 if need_mask else threads_for(query)
        sums = [  # each thread its own, added in their order
            _Sums(
                xp.zeros((*lead, *key.shape[-2:]), dtype=key.dtype),
                xp.zeros((*lead, *value.shape[-2:]), dtype=value.dtype),
                xp.zeros(_two_axes(mask).shape, dtype=mask.dtype) if need_mask else None,
            )
            for _ in range(threads)
        ]
        together(
            [
                partial(_backward_rows, ctx, arrays, grads, sums[k], blocks[k::threads])
                for k in range(threads)
            ]
        )
        grad_key, grad_value, grad_mask = sums[0]
        for other in sums[1:]:
            grad_key += other.key
            grad_value += other.value
        grad_query *= scale
        return (
            sum_to_shape(grad_query, query.shape),
            sum_to_shape(grad_key, key.shape),
            sum_to_shape(grad_value, value.shape),
            grad_mask.reshape(mask.shape) if need_mask else None,
        )

    @staticmethod
    def composed(ctx, query, key, value, mask, **settings):
        """The definition, under the dropout masks that the tiles have drawn."""
        if ctx.counters:
            masks = [_keep(ctx, number) for number in range(len(ctx.counters))]
            ctx.constants(ctx.xp.concatenate(masks, -2))
        return attention_definition(ctx, query, key, value, mask, **settings)


class _Sums(NamedTuple):
    """Gradients to which every block of queries adds."""

    key: object
    value: object
    mask: object


def _forward_rows(ctx, arrays, blocks):
    """Write the context and the log-sum-exp of some blocks of queries."""
    query, key, value, mask, context, log_sum = arrays  # the query scaled
    xp, dropout_p = ctx.xp, ctx.dropout_p
    for number, rows in blocks:
        q = query[..., rows, :]
        keep = _keep(ctx, number)
        o = xp.zeros_like(context[..., rows, :])
        top = xp.full((*o.shape[:-1], 1), -xp.inf, dtype=query.dtype)
        total = xp.zeros_like(top)
        for columns in _columns(ctx, rows):
            s = _scores(ctx, q, key, mask, rows, columns)  # (..., row, column)
            new_top = xp.maximum(top, row_max(s))
            shift = xp.maximum(new_top, float(xp.finfo(s.dtype).min))
            s -= shift  # -inf less a finite number stays -inf
            xp.exp(s, out=s)
            rescale = xp.exp(top - shift)
            total *= rescale
            total += row_sum(s)
            o *= rescale
            if dropout_p:
                s *= keep[..., columns]
            o += matmul(s, value[..., columns, :])
            top = new_top
        o *= dropout_scale(dropout_p) / xp.maximum(total, 1.0)  # at least exp(0), or 0
        context[..., rows, :] = o
        empty = total == 0
        log_sum[..., rows, :] = xp.where(empty, xp.inf, top + xp.log(xp.maximum(total, 1.0)))


def _backward_rows(ctx, arrays, grads, sums, blocks):
    """Write the gradient of some blocks of queries; add theirs of keys, values and the mask."""
    query, key, value, mask, context, log_sum = arrays  # the query scaled
    grad_context, grad_query = grads
    xp, dropout_p = ctx.xp, ctx.dropout_p
    for number, rows in blocks:
        q = query[..., rows, :]
        g = grad_context[..., rows, :]
        mean_grad = row_dot(g, context[..., rows, :])  # sum_l p_il dL/dp_il
        g = g * dropout_scale(dropout_p)
        keep = _keep(ctx, number)
        for columns in _columns(ctx, rows):
            p = _scores(ctx, q, key, mask, rows, columns)  # (..., row, column)
            p -= log_sum[..., rows, :]
            xp.exp(p, out=p)
            grad_s = matmul(g, value[..., columns, :].swapaxes(-1, -2))
            kept = p
            if dropout_p:
                grad_s *= keep[..., columns]
                kept = p * keep[..., columns]
            sums.value[..., columns, :] += matmul(kept.swapaxes(-1, -2), g)
            grad_s -= mean_grad
            grad_s *= p
            grad_query[..., rows, :] += matmul(grad_s, key[..., columns, :])
            sums.key[..., columns, :] += matmul(grad_s.swapaxes(-1, -2), q)
            if sums.mask is not None:
                place = _place(sums.mask, rows, columns)
                sums.mask[place] += sum_to_shape(grad_s, sums.mask[place].shape)


def _plan(ctx, query, key, lead, mask, is_causal, dropout_p):
    """What forward and backward both go by: the sizes, and where dropout's counters start."""
    ctx.sizes = (query.shape[-2], key.shape[-2])
    ctx.lead = broadcast_shapes(query.shape[:-2], key.shape[:-2])
    ctx.is_causal, ctx.dropout_p, ctx.keep_probability = is_causal, dropout_p, 1.0 - dropout_p
    ctx.xp, ctx.counters = array_module(query), []
    if dropout_p:
        ctx.seed = initial_seed()
        for rows in _blocks(ctx.sizes[0], ROWS):
            number = rows.stop - rows.start
            count = math.prod(ctx.lead) * number * ctx.sizes[1]
            ctx.counters.append((next_offset(count), number))


def _keep(ctx, number):
    """Which weights of a block of rows dropout keeps, (..., row, key); None without dropout."""
    if not ctx.counters:
        return None
    offset, rows = ctx.counters[number]
    shape = (*ctx.lead, rows, ctx.sizes[1])
    return keep_mask(shape, ctx.keep_probability, ctx.xp, ctx.seed, offset)


def _blocks(size, block):
    """Slices that cover `size` places."""
    return [slice(start, min(start + block, size)) for start in range(0, size, block)]


def _columns(ctx, rows):
    """The blocks of keys that a block of queries may attend to."""
    blocks = _blocks(ctx.sizes[1], COLUMNS)
    return [c for c in blocks if c.start < rows.stop] if ctx.is_causal else blocks


def _scores(ctx, q, key, mask, rows, columns):
    """The scores of a tile with its masks, in memory of its own."""
    xp = ctx.xp
    s = matmul(q, key[..., columns, :].swapaxes(-1, -2))  # (..., row, column)
    if s.shape[:-2] != ctx.lead:
        s = xp.broadcast_to(s, (*ctx.lead, *s.shape[-2:])).copy()
    if mask is not None:
        s += additive(_two_axes(mask)[_place(_two_axes(mask), rows, columns)], s.dtype)
    if ctx.is_causal and columns.stop - 1 > rows.start:
        later = xp.arange(columns.start, columns.stop) > xp.arange(rows.start, rows.stop)[:, None]
        s += additive(~later, s.dtype)
    return s


def _two_axes(mask):
    """A mask with at least the axes (query, key)."""
    return mask.reshape((1,) * (2 - mask.ndim) + mask.shape)


def _place(mask, rows, columns):
    """Where a tile lies in a mask that may be the same for all queries or for all keys."""
    rows = slice(None) if mask.shape[-2] == 1 else rows
    return (..., rows, slice(None) if mask.shape[-1] == 1 else columns)
