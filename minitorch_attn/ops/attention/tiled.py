"""Tiled attention in linear memory: the scores are computed tile by tile, never all at once."""

import math
from functools import partial
from typing import NamedTuple

from ...autograd.broadcasting import broadcast_shapes, sum_to_shape
from ...autograd.function import Function
from ...backend import array_module, initial_seed, keep_mask, matmul
from ...backend.half import narrowed, widened
from ...backend.random import mask_offset
from ...backend.row_reductions import row_dot, row_max, row_sum
from ...backend.threads import threads_for, together
from ...computes import computes
from .definition import attention_definition, dropout_scale
from .mask import additive, causal_mask

__all__ = [
    "TiledAttention", "finish_rows", "fold_tile", "place_of", "tile_gradients", "tile_scores",
    "tiles_pay", "two_axes",
]  # fmt: skip

ROWS, COLUMNS = 256, 512  # queries and keys in a tile, which then fits into a core's cache
FROM_SCORES, FROM_TOKENS = 2**22, 1024  # tiles are faster from these sizes on


def tiles_pay(score_shape):
    """True if attention is faster in tiles, given the shape of the scores, (..., query, key)."""
    return math.prod(score_shape) >= FROM_SCORES and min(score_shape[-2:]) >= FROM_TOKENS


@computes("attention", reveals=("softmax", "masked softmax"))
class TiledAttention(Function):
    r"""Attention computed in tiles, in memory that grows linearly with the number of tokens.

    Forward:  context = softmax(scale * query @ key^T + mask) @ value, tile by tile
    Backward: as in `Attention`, one tile of the weights p at a time

    The softmax of a row needs the maximum and the sum of the row, which are known only after the
    last key. A running maximum and running sums can be updated tile by tile: if a tile has a larger
    maximum m', the sums so far are multiplied by exp(m - m'), because they were computed with the
    old maximum m. Each row has the running maximum m, the sum l of the exponentials and the sum o
    of the weighted values. With the dropout factors z_ij as in `Attention`, a tile updates them:
        m' = max(m, max_j s_ij),   r = exp(m - m')
        l' = r l + sum_j exp(s_ij - m'),   o' = r o + sum_j exp(s_ij - m') z_ij v_j
    At the end, o / l is the context, and L = m + log l is the log-sum-exp of the row.

    Derivation: as in `Attention`, for one tile at a time. The weights of the tile are recomputed,
        p_ij = exp(s_ij - L_i),
    which takes less time than storing the weights of all tiles.
    Saved: query, key, value, mask and output; L as an intermediate. Dropout masks are generated
    again from the saved counters of the random number generator.
    For a query that cannot attend to any key, L is set to inf instead of log 0 = -inf. Its weights
    exp(s - L) are then 0 instead of NaN, and its output and gradients are 0.

    Milakov and Gimelshein 2018, arXiv:1805.02867v2, algorithm 3 (one pass over the scores);
    Dao et al. 2022, arXiv:2205.14135v2, algorithms 1 and 4 (tiles, and the backward pass).
    """

    @staticmethod
    def forward(ctx, query, key, value, mask, *, scale, is_causal, dropout_p):
        # query (..., query, dim)   key (..., key, dim)   value (..., key, value_dim)
        xp = array_module(query)
        lead = broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        context = xp.empty((*lead, query.shape[-2], value.shape[-1]), dtype=query.dtype)
        q, k, v = widened(query), widened(key), widened(value)
        log_sum = xp.empty((*lead, query.shape[-2], 1), dtype=q.dtype)
        _plan(ctx, query, key, lead, mask, is_causal, dropout_p)
        arrays = q * scale, k, v, mask, context, log_sum
        blocks = list(enumerate(_blocks(query.shape[-2], ROWS)))
        # Thread k takes the blocks k, k + threads, ...; with a causal mask, early blocks are short.
        threads = threads_for(query)
        together([partial(_forward_rows, ctx, arrays, blocks[k::threads]) for k in range(threads)])
        ctx.save(query, key, value, mask, context)
        ctx.save_intermediate(log_sum)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        query, key, value, mask, context = map(widened, ctx.saved)
        grad_context = widened(grad_context)
        xp, lead, scale = array_module(query), grad_context.shape[:-2], ctx.settings["scale"]
        arrays = query * scale, key, value, mask, context, *ctx.intermediate
        grad_query = xp.zeros((*lead, *query.shape[-2:]), dtype=query.dtype)
        grads = grad_context, grad_query
        need_mask = ctx.needs_grad[3]
        blocks = list(enumerate(_blocks(query.shape[-2], ROWS)))
        threads = 1 if need_mask else threads_for(query)
        sums = [  # one per thread, added in the order of the threads
            _Sums(
                xp.zeros((*lead, *key.shape[-2:]), dtype=key.dtype),
                xp.zeros((*lead, *value.shape[-2:]), dtype=value.dtype),
                xp.zeros(two_axes(mask).shape, dtype=mask.dtype) if need_mask else None,
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
        grads = (
            sum_to_shape(grad_query, query.shape),
            sum_to_shape(grad_key, key.shape),
            sum_to_shape(grad_value, value.shape),
            grad_mask.reshape(mask.shape) if need_mask else None,
        )
        return tuple(map(narrowed, grads, ctx.saved[:4]))

    @staticmethod
    def composed(ctx, *inputs, **settings):
        """Compute the attention output with `attention_definition` and all tiles' dropout masks."""
        if ctx.counters:
            masks = [_keep(ctx, number) for number in range(len(ctx.counters))]
            ctx.constants(ctx.xp.concatenate(masks, -2))
        return attention_definition(ctx, *inputs, **settings)[0]


class _Sums(NamedTuple):
    """Gradients that are summed over all blocks of queries."""

    key: object
    value: object
    mask: object


@computes("attention", reveals=("softmax", "masked softmax"))
def _forward_rows(ctx, arrays, blocks):
    """Compute the context and the log-sum-exp for some blocks of queries, and store them."""
    query, key, value, mask, context, log_sum = arrays  # query is already scaled
    xp, dropout_p = ctx.xp, ctx.dropout_p
    for number, rows in blocks:
        q = query[..., rows, :]
        keep = _keep(ctx, number)
        o = xp.zeros(context[..., rows, :].shape, dtype=query.dtype)
        top = xp.full((*o.shape[:-1], 1), -xp.inf, dtype=query.dtype)
        total = xp.zeros_like(top)
        for columns in _columns(ctx, rows):
            s = _scores(ctx, q, key, mask, rows, columns)  # (..., row, column)
            kept = keep[..., columns] if dropout_p else None
            fold_tile(s, value[..., columns, :], kept, (top, total, o))
        log_sum[..., rows, :] = finish_rows(top, total, o, dropout_p)
        context[..., rows, :] = o


@computes("attention", reveals=("softmax", "masked softmax"))
def _backward_rows(ctx, arrays, grads, sums, blocks):
    """Store the query gradients of some blocks; add to the key, value and mask gradients."""
    query, key, value, mask, context, log_sum = arrays  # query is already scaled
    grad_context, grad_query = grads
    dropout_p = ctx.dropout_p
    for number, rows in blocks:
        q = query[..., rows, :]
        g = grad_context[..., rows, :]
        mean_grad = row_dot(g, context[..., rows, :])  # sum_l p_il dL/dp_il
        g = g * dropout_scale(dropout_p)
        keep = _keep(ctx, number)
        for columns in _columns(ctx, rows):
            s = _scores(ctx, q, key, mask, rows, columns)  # (..., row, column)
            kept = keep[..., columns] if dropout_p else None
            row_values = log_sum[..., rows, :], g, mean_grad
            weights, grad_s = tile_gradients(s, value[..., columns, :], kept, row_values)
            sums.value[..., columns, :] += matmul(weights.swapaxes(-1, -2), g)
            grad_query[..., rows, :] += matmul(grad_s, key[..., columns, :])
            sums.key[..., columns, :] += matmul(grad_s.swapaxes(-1, -2), q)
            if sums.mask is not None:
                place = place_of(sums.mask, rows, columns)
                sums.mask[place] += sum_to_shape(grad_s, sums.mask[place].shape)


@computes("attention", reveals=("softmax", "masked softmax"))
def fold_tile(s, value, keep, sums):
    """Update the running maximum and the running sums of the rows of a tile, in place.

    Parameters
    ----------
    s : array of shape (..., row, column)
        Masked scores of the tile, which are overwritten.
    value : array of shape (..., column, value_dim)
    keep : bool array of shape (..., row, column), or None
        True for the weights that dropout keeps; None without dropout.
    sums : (top, total, o)
        Maximum m and sum l of the exponentials, of shape (..., row, 1), and sum o of the weighted
        values, of shape (..., row, value_dim).
    """
    top, total, o = sums
    xp = array_module(s)
    new_top = xp.maximum(top, row_max(s))
    shift = xp.maximum(new_top, float(xp.finfo(s.dtype).min))
    s -= shift  # -inf minus a finite number is -inf
    xp.exp(s, out=s)
    rescale = xp.exp(top - shift)
    total *= rescale
    total += row_sum(s)
    o *= rescale
    if keep is not None:
        s *= keep
    o += matmul(s, value)
    top[...] = new_top


@computes("attention", reveals=("softmax", "masked softmax"))
def finish_rows(top, total, o, dropout_p):
    """Turn o, the sum of weighted values, into the context, in place. Return the log-sum-exp.

    o is divided by `total` and multiplied by the scale of dropout. Each row has one log-sum-exp.
    """
    xp = array_module(o)
    at_least_one = xp.maximum(total, 1.0)  # total is 0, or at least exp(0)
    o *= dropout_scale(dropout_p) / at_least_one
    return xp.where(total == 0, xp.inf, top + xp.log(at_least_one))


@computes("attention", reveals=("softmax", "masked softmax"))
def tile_gradients(s, value, keep, row_values):
    """Return the weights of a tile after dropout, and the gradients of its scores.

    From these weights, the caller computes the gradient of `value`.

    Parameters
    ----------
    s : array of shape (..., row, column)
        Masked scores of the tile, which are overwritten.
    value, keep
        See `fold_tile`.
    row_values : (log_sum, g, mean_grad)
        Three arrays with one row per query. `log_sum` is the log-sum-exp of the row's scores. `g`
        is the gradient of the context, multiplied by the dropout scale. `mean_grad` is the mean of
        the gradients of the attention weights, weighted by the attention weights themselves.
    """
    log_sum, g, mean_grad = row_values
    s -= log_sum
    p = array_module(s).exp(s, out=s)
    grad_s = matmul(g, value.swapaxes(-1, -2))
    weights = p
    if keep is not None:
        grad_s *= keep
        weights = p * keep
    grad_s -= mean_grad
    grad_s *= p
    return weights, grad_s


def _plan(ctx, query, key, lead, mask, is_causal, dropout_p):
    """Store in `ctx` what both passes need: sizes, settings, and each block's dropout counter."""
    ctx.sizes = (query.shape[-2], key.shape[-2])
    ctx.lead = broadcast_shapes(query.shape[:-2], key.shape[:-2])
    ctx.is_causal, ctx.dropout_p, ctx.keep_probability = is_causal, dropout_p, 1.0 - dropout_p
    ctx.xp, ctx.counters = array_module(query), []
    if dropout_p:
        ctx.seed = initial_seed()
        for rows in _blocks(ctx.sizes[0], ROWS):
            number = rows.stop - rows.start
            shape = (*ctx.lead, number, ctx.sizes[1])
            ctx.counters.append((mask_offset(shape), number))


def _keep(ctx, number):
    """Return the dropout mask of block `number`, of shape (..., row, key), or None without dropout.

    The mask is True for the attention weights that dropout keeps.
    """
    if not ctx.counters:
        return None
    offset, rows = ctx.counters[number]
    shape = (*ctx.lead, rows, ctx.sizes[1])
    return keep_mask(shape, ctx.keep_probability, ctx.xp, ctx.seed, offset)


def _blocks(size, block):
    """Return slices that divide `size` positions into blocks of `block` positions."""
    return [slice(start, min(start + block, size)) for start in range(0, size, block)]


def _columns(ctx, rows):
    """Return the blocks of keys that a block of queries may attend to."""
    blocks = _blocks(ctx.sizes[1], COLUMNS)
    return [c for c in blocks if c.start < rows.stop] if ctx.is_causal else blocks


@computes("attention", reveals=("masked softmax",))
def _scores(ctx, q, key, mask, rows, columns):
    """Return the masked scores of a tile, in a new array."""
    if mask is not None:
        mask = two_axes(mask)[place_of(two_axes(mask), rows, columns)]
    offset = rows.start - columns.start if ctx.is_causal else None
    return tile_scores(q, key[..., columns, :], ctx.lead, mask, offset)


@computes("attention", reveals=("masked softmax",))
def tile_scores(q, key, lead, mask, offset):
    """Return the masked scores of a tile, in a new array of shape (*lead, row, column).

    Parameters
    ----------
    q : array of shape (..., row, dim)
        Queries of the tile, already scaled.
    key : array of shape (..., column, dim)
    lead : tuple
        Sizes of the leading axes of the result.
    mask : array that broadcasts to (*lead, row, column), or None
        Part of a boolean or additive mask.
    offset : int or None
        With a causal mask, the position of the first query minus the position of the first key.
    """
    xp = array_module(q)
    s = matmul(q, key.swapaxes(-1, -2))  # (..., row, column)
    if s.shape[:-2] != lead:
        s = xp.broadcast_to(s, (*lead, *s.shape[-2:])).copy()
    if mask is not None:
        s += additive(mask, s.dtype)
    if offset is not None and s.shape[-1] - 1 > offset:
        s += additive(causal_mask(*s.shape[-2:], offset, xp), s.dtype)
    return s


def two_axes(mask):
    """Return the mask with at least two axes, (query, key); new leading axes have size 1."""
    return mask.reshape((1,) * (2 - mask.ndim) + mask.shape)


def place_of(mask, rows, columns):
    """Return the index that selects a tile from a mask. Axes of size 1 are not sliced."""
    rows = slice(None) if mask.shape[-2] == 1 else rows
    return (..., rows, slice(None) if mask.shape[-1] == 1 else columns)
