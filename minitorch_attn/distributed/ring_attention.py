"""Ring attention: the sequence is split among the ranks, which pass keys and values in a ring."""

import math
from typing import NamedTuple

from ..autograd.broadcasting import broadcast_shapes, sum_to_shape
from ..autograd.function import Function
from ..backend import array_module, initial_seed, matmul, next_offset
from ..backend.half import narrowed, widened
from ..backend.random import keep_runs
from ..backend.row_reductions import row_dot
from ..computes import computes
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..ops import where
from ..ops.attention import tiled
from ..ops.attention.arguments import prepared
from ..ops.attention.definition import attention_definition, dropout_scale
from ..ops.attention.mask import causal_mask
from ..ops.attention.tiled import fold_tile, place_of, tile_gradients, tile_scores, two_axes
from ..tensor import wrap
from .functional import all_gather
from .passing import ALONE, Ring
from .sequence_order import chunks_per_rank, join_sequence, sequence_slices, split_sequence

__all__ = ["ALONE", "RingAttention", "ring_attention"]


@computes("attention", reveals=("softmax", "masked softmax"))
class RingAttention(Function):
    r"""Attention of a sequence whose tokens are split among N ranks; no rank holds all keys.

    Forward:  context = softmax(scale * query @ key^T + mask) @ value, for the rank's own queries
        and the keys and values of all ranks; one rank's keys and values are processed at a time
    Backward: as in `TiledAttention`; keys and values are sent around the ring again, and so are the
        sums of their gradients

    A rank holds n = tokens / N queries, keys and values. Its keys and values are one part. In step
    t = 0 ... N - 1, rank r computes with the part of rank (r - t) mod N. Before it computes, it
    starts sending this part to rank r + 1 and receiving the next part from rank r - 1. In this
    way, communication and computation overlap. The softmax is the online softmax of
    `TiledAttention`, whose sums do not depend on the order of the keys. With the running maximum m,
    the running sums l and o, the scores s_ij and the scaled dropout mask z_ij, part P gives
        m' = max(m, max_{j in P} s_ij),   f = exp(m - m')
        l' = f l + sum_{j in P} exp(s_ij - m'),   o' = f o + sum_{j in P} exp(s_ij - m') z_ij v_j
    After N steps, o / l is the context, and L = m + log l is the log-sum-exp of the row.

    Derivation (see `Attention`): g_i is the gradient of the context o_i, and c is the scale. For
    its own query i and a key j, rank r computes the weight p_ij = exp(s_ij - L_i). The gradient of
    p_ij is z_ij g_i . v_j. Its mean over the keys, weighted by p_ij, is
    a_i = sum_j p_ij z_ij g_i . v_j = g_i . o_i. Then
        dL/ds_ij = p_ij (z_ij g_i . v_j - a_i)
        dL/dq_i = c sum_P sum_{j in P} dL/ds_ij k_j                      stays on rank r
        dL/dk_j = c sum_r sum_{i on r} dL/ds_ij q_i                      a sum over the ranks
        dL/dv_j = sum_r sum_{i on r} p_ij z_ij g_i                       a sum over the ranks
    The sums over the ranks are computed on the way around the ring: each rank receives the sum of
    the earlier ranks' terms, adds its own term, and sends the sum to the next rank. After N
    messages, the gradient of a part is back at the rank that owns the part.
    Saved: query, key, value, mask and output of the rank; L as an intermediate.

    A rank sends N - 1 messages in the forward pass, each with the keys and values of one part. In
    the backward pass, it sends them again, and also N messages with gradients. A single rank
    (N = 1) sends nothing. If is_causal, a rank skips the tiles in which all keys come after the
    queries.

    Liu, Zaharia and Abbeel 2023, arXiv:2310.01889v4, algorithm 1 (Ring Attention with Blockwise
    Transformers). In zigzag order, each rank holds two of 2N chunks, as in Llama 3
    (arXiv:2407.21783v3, section 3.3.2).
    """

    @staticmethod
    def forward(
        ctx, query, key, value, mask, *, scale, is_causal, dropout_p, group, order, heads, grouped
    ):
        # query (..., query, dim)   key (..., key, dim)   value (..., key, value_dim)
        xp, ring = array_module(query), Ring(group)
        lead = broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        q = widened(query) * scale
        context = xp.zeros((*lead, query.shape[-2], value.shape[-1]), dtype=q.dtype)
        top = xp.full((*context.shape[:-1], 1), -xp.inf, dtype=q.dtype)
        total = xp.zeros_like(top)
        ctx.plan = plan = _Plan(query, key, mask, ctx.settings, ring)
        for source, (k, v) in ring.visit(key, value):
            k, v = widened(k), widened(v)
            for rows, columns in plan.tiles(source):
                here, there = (..., rows.here, slice(None)), (..., columns.here, slice(None))
                s = plan.scores(q[here], k[there], rows, columns)
                sums = top[here], total[here], context[here]
                fold_tile(s, v[there], plan.keep(rows, columns), sums)
        log_sum = tiled.finish_rows(top, total, context, dropout_p)
        context = narrowed(context, query)
        ctx.save(query, key, value, mask, context)
        ctx.save_intermediate(log_sum)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        query, key, value, mask, context = ctx.saved
        q, context, grad_context = map(widened, (query, context, grad_context))
        xp, plan, scale = array_module(query), ctx.plan, ctx.settings["scale"]
        q = q * scale
        grads = _Gradients(
            ctx.intermediate[0], grad_context * dropout_scale(ctx.settings["dropout_p"]),
            row_dot(grad_context, context), xp.zeros(q.shape, q.dtype),
            xp.zeros(two_axes(mask).shape, q.dtype) if ctx.needs_grad[3] else None,
        )  # fmt: skip
        on_its_way = None
        for source, (k, v) in plan.ring.visit(key, value):
            k, v = widened(k), widened(v)
            part = xp.zeros(k.size + v.size, q.dtype)
            into = part[: k.size].reshape(k.shape), part[k.size :].reshape(v.shape)
            for rows, columns in plan.tiles(source):
                _add_gradients(plan, (q, k, v), grads, into, rows, columns)
            if on_its_way is not None:  # the sum of the earlier ranks' terms
                part += on_its_way.wait()
            on_its_way = plan.ring.pass_on(part)
        part = on_its_way.wait()
        grad_key = part[: key.size].reshape(key.shape)
        grad_value = part[key.size :].reshape(value.shape)
        grad_query, grad_mask = grads.query * scale, grads.mask
        grad_mask = None if grad_mask is None else grad_mask.reshape(mask.shape)
        found = (grad_query, grad_key, grad_value, grad_mask)
        return tuple(map(narrowed, found, (query, key, value, mask)))

    @staticmethod
    def composed(
        ctx, query, key, value, mask, *, scale, is_causal, dropout_p, group, order, heads, grouped
    ):
        """Gather all keys and values, and compute the context with `attention_definition`."""
        plan = ctx.plan
        if plan.ring.size > 1:
            key, value = (
                join_sequence(all_gather(x, -2, group).chunk(plan.ring.size, -2), -2, order)
                for x in (key, value)
            )
        if is_causal:
            visible = wrap(plan.visible())
            if mask is None:
                mask = visible
            else:
                mask = visible & mask if mask.dtype.kind == "b" else where(visible, mask, -math.inf)
        if dropout_p:
            ctx.constants(plan.whole_keep())
        settings = {"scale": scale, "is_causal": False, "dropout_p": dropout_p}
        return attention_definition(ctx, query, key, value, mask, **settings)[0]


class _Gradients(NamedTuple):
    """Values per query that the backward pass reads, and gradients that it accumulates.

    `query` and `mask` are the accumulated gradients of the query and the mask.
    """

    log_sum: object
    context: object  # gradient of the context, times the scale of dropout
    mean: object  # sum_l p_il dL/dp_il
    query: object
    mask: object


@computes("attention", reveals=("softmax", "masked softmax"))
def _add_gradients(plan, arrays, grads, into, rows, columns):
    """Add one tile's contribution to the gradients of the queries, keys, values and mask."""
    (q, k, v), (grad_k, grad_v) = arrays, into
    here, there = (..., rows.here, slice(None)), (..., columns.here, slice(None))
    s = plan.scores(q[here], k[there], rows, columns)
    g = grads.context[here]
    row_values = grads.log_sum[here], g, grads.mean[here]
    weights, grad_s = tile_gradients(s, v[there], plan.keep(rows, columns), row_values)
    _add(grad_v, there, matmul(weights.swapaxes(-1, -2), g))
    _add(grad_k, there, matmul(grad_s.swapaxes(-1, -2), q[here]))
    _add(grads.query, here, matmul(grad_s, k[there]))
    if grads.mask is not None:
        _add(grads.mask, place_of(grads.mask, rows.here, columns.everywhere), grad_s)


def _add(total, place, gradient):
    """Sum a gradient over the axes that were broadcast, and add it to `total[place]`."""
    target = total[place]
    target += sum_to_shape(gradient, target.shape)


class _Tile(NamedTuple):
    """Consecutive tokens of one rank.

    `here` is their slice of the rank's part, and `everywhere` their slice of the whole sequence.
    """

    here: slice
    everywhere: slice


class _Plan:
    """Tiles of the attention scores that a rank computes, and the masks of these tiles."""

    def __init__(self, query, key, mask, settings, ring):
        self.xp, self.ring, self.is_causal = array_module(query), ring, settings["is_causal"]
        self.mask = None if mask is None else two_axes(mask)
        self.lead = broadcast_shapes(query.shape[:-2], key.shape[:-2])
        queries, keys = query.shape[-2], key.shape[-2]
        order = settings["order"]
        self.sizes = queries, keys * ring.size
        self.rows = _tiles(queries, ring.rank, ring.size, order, tiled.ROWS)
        self.columns = [
            _tiles(keys, rank, ring.size, order, tiled.COLUMNS) for rank in range(ring.size)
        ]
        self.dropout = None
        if settings["dropout_p"]:
            self.dropout = _DropoutMask(self.xp, self.lead, queries * ring.size, keys * ring.size,
                                        settings)  # fmt: skip

    def tiles(self, source):
        """Yield (rows, columns) of the tiles with rank `source`'s keys.

        Tiles that a causal mask hides completely are skipped.
        """
        for rows in self.rows:
            for columns in self.columns[source]:
                if not self.is_causal or columns.everywhere.start < rows.everywhere.stop:
                    yield rows, columns

    def scores(self, q, k, rows, columns):
        """Return the masked scores of a tile."""
        mask = self.mask
        if mask is not None:
            mask = mask[place_of(mask, rows.here, columns.everywhere)]
        offset = rows.everywhere.start - columns.everywhere.start if self.is_causal else None
        return tile_scores(q, k, self.lead, mask, offset)

    def keep(self, rows, columns):
        """Return the dropout mask of a tile; None without dropout."""
        if self.dropout is None:
            return None
        return self.dropout.tile(rows.everywhere, columns.everywhere)

    def visible(self):
        """Return the causal mask (query, key) of the rank's queries and all keys."""
        masks = [
            causal_mask(t.here.stop - t.here.start, self.sizes[1], t.everywhere.start, self.xp)
            for t in self.rows
        ]
        return self.xp.concatenate(masks, 0) if masks else causal_mask(0, self.sizes[1], 0, self.xp)

    def whole_keep(self):
        """Return the dropout mask (..., query, key) of the rank's queries and all keys."""
        every = slice(0, self.sizes[1])
        return self.xp.concatenate([self.dropout.tile(t.everywhere, every) for t in self.rows], -2)


def _tiles(tokens, rank, size, order, length):
    """Return a rank's tokens as _Tiles, cut at multiples of `length` in the whole sequence."""
    tiles, held = [], 0
    for chunk in sequence_slices(tokens * size, rank, size, order):
        start = chunk.start
        while start < chunk.stop:
            stop = min((start // length + 1) * length, chunk.stop)
            tiles.append(_Tile(slice(held, held + stop - start), slice(start, stop)))
            held, start = held + stop - start, stop
    return tiles


class _DropoutMask:
    """This rank's part of the dropout mask that a single process would draw for the sequence."""

    def __init__(self, xp, lead, queries, keys, settings):
        self.xp, self.keys, self.keep_probability = xp, keys, 1.0 - settings["dropout_p"]
        (part, parts), axis = settings["heads"], -2 if settings["grouped"] else -1
        whole = list(lead)
        if parts > 1:
            whole[axis] *= parts
        numbers = xp.arange(math.prod(whole)).reshape(whole)
        if parts > 1:
            numbers = xp.split(numbers, parts, axis)[part]
        self.numbers = numbers  # (...), the index of each head among all heads of the batch
        self.seed, self.blocks = initial_seed(), []
        in_tiles = tiled.tiles_pay((*whole, queries, keys))
        self.rows = tiled.ROWS if in_tiles else max(queries, 1)  # rows drawn at once
        for start in range(0, queries, self.rows):
            count = min(self.rows, queries - start)
            self.blocks.append((next_offset(math.prod(whole) * count * keys), count))

    def tile(self, rows, columns):
        """Return the mask (..., row, column) of a tile."""
        offset, count = self.blocks[rows.start // self.rows]
        row = self.xp.arange(rows.start, rows.stop) % self.rows
        starts = (self.numbers[..., None] * count + row) * self.keys + columns.start
        length = columns.stop - columns.start
        return keep_runs(starts, length, self.keep_probability, self.seed, offset)


@names_arguments
def ring_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
    enable_gqa=False, *, group=None, order="zigzag", heads=(0, 1),
):  # fmt: skip
    """Compute attention for a sequence that is split among the ranks of a group.

    The results equal those of `scaled_dot_product_attention` on the whole sequence, even with
    dropout.

    Parameters
    ----------
    query, key, value : Tensor of shape (..., heads, token, dim)
        The rank's tokens, as `split_sequence` returns them. Shapes must be equal on all ranks.
    attn_mask : Tensor or Mask, optional
        Boolean or additive mask. The key axis covers all keys, in the order of the whole sequence,
        or has size 1. The query axis covers the rank's own queries, or all queries, or has size 1.
        If it covers all queries, the function selects the rank's own. The mask's gradient includes
        only the contribution of the rank's own queries. If the ranks share a mask, sum its
        gradients over the ranks.
    dropout_p, is_causal, scale, enable_gqa
        See `scaled_dot_product_attention`.
    group : ProcessGroup, optional
        Default: all ranks.
    order : {"zigzag", "contiguous"}, default "zigzag"
        Which tokens a rank holds; see `sequence_slices`.
    heads : (int, int), default (0, 1)
        If the heads are also split among ranks: the index of this rank's part of the heads, and the
        number of parts. Only dropout uses these numbers.

    Returns
    -------
    Tensor of shape (..., heads, token, value_dim)
        Context of the rank's own queries.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        As for `scaled_dot_product_attention`; also if the rank's number of tokens is odd in zigzag
        order.

    Notes
    -----
    The derivation is in `RingAttention`. Each rank computes on one core; the ranks run in parallel.
    With dropout, all ranks must call `mt.manual_seed` with the same seed. After that call, they
    must call the same operations with dropout in the same order.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.randn(2, 3, 4, 5)
    >>> alone = ring_attention(x, x, x, is_causal=True, group=ALONE)
    >>> mt.allclose(alone, mt.scaled_dot_product_attention(x, x, x, is_causal=True), atol=1e-6)
    True
    """
    ring = Ring(group)
    for x in (query, key):
        _check_tokens(x, ring, order)
    keys = key.shape[-2] * ring.size
    attn_mask, is_causal = _own_rows(attn_mask, is_causal, query.shape[-2], keys, ring, order)
    inputs = prepared(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, keys=keys
    )
    context = RingAttention.apply(
        *inputs.tensors, **inputs.settings, group=group, order=order, heads=heads,
        grouped=inputs.shape is not None,
    )  # fmt: skip
    return context if inputs.shape is None else context.reshape(inputs.shape)


def _check_tokens(x, ring, order):
    chunks, shape = chunks_per_rank(order), getattr(x, "shape", ())
    if len(shape) > 1 and shape[-2] % chunks and ring.size > 1:
        raise ShapeError(
            "ring_attention: in zigzag order, the number of tokens of a rank must be even",
            got=f"{shape[-2]} tokens on a rank",
            expected=f"a sequence whose length is a multiple of {chunks * ring.size}",
            hint='pad the sequence, or use order="contiguous"',
        )


def _own_rows(mask, is_causal, queries, keys, ring, order):
    """Return a mask's rows for the rank's own queries, and the value of `is_causal` to use.

    If the mask is the causal mask of the whole sequence, return None and True instead, so that
    the rank can skip the tiles in which all keys come after the queries.
    """
    attend = getattr(mask, "attend", mask)
    shape, total = getattr(attend, "shape", ()), queries * ring.size
    if ring.size == 1 or len(shape) < 2 or shape[-2] != total:
        return mask, is_causal
    if getattr(mask, "is_causal", False) and shape[-2:] == (total, keys):
        return None, True
    return split_sequence(attend, ring.rank, ring.size, len(shape) - 2, order), is_causal
