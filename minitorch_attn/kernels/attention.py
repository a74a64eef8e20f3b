"""Attention on a GPU, tile by tile: the full score matrix is never stored.

    s_ij = scale q_i . k_j + m_ij,   p_ij = exp(s_ij) / sum_l exp(s_il),   o_i = sum_j p_ij z_ij v_j

where m is the additive mask (-inf where a boolean mask is False). If dropout drops a weight, z_ij
is 0, otherwise 1 / (1 - dropout_p). The forward kernel visits the keys in tiles with an online
softmax, as in `ops.attention.tiled`. It saves the log-sum-exp L_i of each row. The backward kernels
recompute the weights from L_i. With the gradient g_i of o_i,

    p_ij = exp(s_ij - L_i),   a_i = g_i . o_i,   ds_ij = p_ij (z_ij g_i . v_j - a_i)
    grad_query_i = scale sum_j ds_ij k_j                       one block of threads for 64 queries
    grad_key_j = scale sum_i ds_ij q_i                         one block of threads for 64 keys
    grad_value_j = sum_i p_ij z_ij g_i                         in the same block

The random number behind each z_ij depends only on the seed and a counter value (`philox`). Each
kernel can therefore regenerate the z_ij that it needs, and they are not stored. The CUDA code is in
`attention_source`.

Launches: 1 forward and 2 backward. The array operations need 12 forward and 15 backward. For causal
attention with 65 to 128 tokens, they need 28 and 34, because they process two blocks of up to 64
queries. With dropout, they need hundreds, because they draw the masks step by step. The memory is
linear in the number of tokens, except for the gradient of a mask. The sums are computed in the same
order in every run, so the results are bitwise reproducible.
"""

import math

import numpy as np

from ..autograd.broadcasting import sum_to_shape
from ..backend import array_module, initial_seed, keep_mask, next_offset
from ..backend.batch_part import draws_part
from ..backend.kernel_table import register
from ..ops.attention import tiled
from ..ops.attention.causal import CausalAttention
from ..ops.attention.definition import attention_definition, dropout_scale
from ..ops.attention.fused import Attention
from .attention_source import LARGEST_DIM, OWN, SIDE, SOURCE
from .philox import draw_from
from .side_by_side import empty_side_by_side
from .source import FLOATS

__all__ = ["AttentionKernel", "CausalAttentionKernel", "TiledAttentionKernel"]

AXES = 5  # batch, head, group, token, feature


class _Kernel:
    """CUDA kernels of attention: one launch forward and two backward."""

    @staticmethod
    def accepts(query, key, value, mask, *, scale, is_causal, dropout_p):
        lead, shared = query.shape[:-2], key.shape[:-2]
        return (
            query.ndim <= AXES
            and value.shape[:-2] == shared
            and (shared == lead or (shared[:-1] == lead[:-1] and shared[-1:] == (1,)))
            and 0 < query.shape[-1] <= LARGEST_DIM
            and 0 < value.shape[-1] <= LARGEST_DIM
            and query.dtype.name in FLOATS
            and (mask is None or mask.dtype.kind == "b" or mask.dtype == query.dtype)
            and not (dropout_p and draws_part())
        )

    @staticmethod
    def draw_rows(query):
        """Return the number of queries for which the dropout mask is drawn in one step."""
        return max(query.shape[-2], 1)

    @classmethod
    def forward(cls, ctx, query, key, value, mask, *, scale, is_causal, dropout_p):
        xp, lead = array_module(query), query.shape[:-1]
        ctx.draw = _reserve_mask(query, key, cls.draw_rows(query), dropout_p)
        context = xp.empty_like(query, shape=(*lead, value.shape[-1]))
        log_sum = xp.empty((*lead, 1), np.promote_types(query.dtype, np.float32))
        SOURCE.launch(
            "attention_forward", query.dtype, _blocks(query), (SIDE, SIDE),
            _heads(query), _heads(key), _heads(value), _mask(mask), _heads(context), log_sum,
            _sizes(query, key, value, is_causal), _dropout(ctx.draw, dropout_p),
            scale, dropout_scale(dropout_p),
        )  # fmt: skip
        ctx.save(query, key, value, mask, context)
        ctx.save_intermediate(log_sum)
        return context

    @staticmethod
    def backward(ctx, grad_context):
        query, key, value, mask, context = ctx.saved
        (log_sum,) = ctx.intermediate
        need_query, need_key, need_value, need_mask = ctx.needs_grad
        scale, dropout_p = ctx.settings["scale"], ctx.settings["dropout_p"]
        xp, score_shape = array_module(query), (*query.shape[:-1], key.shape[-2])
        inputs = _heads(query), _heads(key), _heads(value), _mask(mask)
        sizes = _sizes(query, key, value, ctx.settings["is_causal"])
        dropout, factors = _dropout(ctx.draw, dropout_p), (scale, dropout_scale(dropout_p))
        mean_grad = xp.empty_like(log_sum)  # a_i
        if need_query and need_key and need_value:  # so that one batched product can read all three
            grad_query, grad_key, grad_value = empty_side_by_side((query, key, value))
        else:
            grad_query = xp.empty_like(query) if need_query else None
            grad_key = xp.empty_like(key) if need_key else None
            grad_value = xp.empty_like(value) if need_value else None
        grad_scores = None
        if need_mask:  # a causal kernel does not write the scores that it skips
            make = xp.zeros if ctx.settings["is_causal"] else xp.empty
            grad_scores = make(score_shape, query.dtype)
        if need_query or need_key or need_mask:
            SOURCE.launch(
                "attention_grad_query", query.dtype, _blocks(query), (SIDE, SIDE),
                *inputs, _heads(context), _heads(grad_context), log_sum, _heads(grad_query),
                mean_grad, grad_scores, sizes, dropout, *factors,
            )  # fmt: skip
        if need_key or need_value:
            sharing = query.shape[-3] if key.shape[:-2] != query.shape[:-2] else 1
            SOURCE.launch(
                "attention_grad_key_value", query.dtype, _blocks(key), (SIDE, SIDE),
                *inputs, _heads(grad_context), log_sum, mean_grad, _heads(grad_key),
                _heads(grad_value), sizes, dropout, sharing, *factors,
            )  # fmt: skip
        grad_mask = sum_to_shape(grad_scores, mask.shape) if need_mask else None
        return grad_query, grad_key, grad_value, grad_mask

    @staticmethod
    def composed(ctx, *inputs, **settings):
        """Compute attention step by step, with the same dropout mask as the kernels."""
        query, key = inputs[:2]
        if settings["dropout_p"]:
            ctx.constants(_whole_mask(ctx.draw, query.array, key.array, settings["dropout_p"]))
        return attention_definition(ctx, *inputs, **settings)[0]


@register(Attention)
class AttentionKernel(_Kernel):
    """CUDA kernels of `Attention`: one launch forward and two backward."""


@register(CausalAttention)
class CausalAttentionKernel(_Kernel):
    """CUDA kernels of `CausalAttention`: one launch forward and two backward."""


@register(tiled.TiledAttention)
class TiledAttentionKernel(_Kernel):
    """CUDA kernels of `TiledAttention`: one launch forward and two backward."""

    @staticmethod
    def draw_rows(query):
        """Return the number of queries for which the dropout mask is drawn in one step."""
        return tiled.ROWS


def _blocks(x):
    """Return the number of blocks of threads for the rows of x (..., token, feature)."""
    return math.prod(x.shape[:-2]) * -(-x.shape[-2] // OWN)


def _words(*words):
    """Return a struct of 64-bit integers, which is passed to a kernel by value."""
    return np.array(words, np.int64).view(f"V{8 * len(words)}")


def _heads(x):
    """Return the struct `Heads` of an array: its address (null for None) and strides."""
    if x is None:
        return _words(*[0] * (1 + AXES))
    return _words(x.data.ptr, *_strides(x))


def _strides(x):
    """Return the strides of (batch, head, group, ...) in elements, or 0 along axes of size 1."""
    strides = [0 if n == 1 else s // x.itemsize for n, s in zip(x.shape, x.strides, strict=True)]
    return [0] * (AXES - x.ndim) + strides


def _mask(mask):
    """Return the struct `Mask` of a mask that broadcasts to (..., query, key)."""
    if mask is None:
        return _words(*[0] * (2 + AXES))
    is_bool = mask.dtype.kind == "b"
    addresses = (0, mask.data.ptr) if is_bool else (mask.data.ptr, 0)
    return _words(*addresses, *_strides(mask))


def _sizes(query, key, value, is_causal):
    """Return the struct `Sizes`."""
    lead = (1,) * (AXES - query.ndim) + query.shape[:-2]
    tokens = query.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1]
    return _words(*lead, *tokens, int(is_causal))


def _reserve_mask(query, key, rows, dropout_p):
    """Reserve counters for a dropout mask. Return (seed, offset, rows), or None without dropout.

    The mask is drawn for `rows` queries at a time. Each of these draws starts at a new counter.
    """
    if not dropout_p:
        return None
    heads, queries, keys = math.prod(query.shape[:-2]), query.shape[-2], key.shape[-2]
    counts = [heads * min(rows, queries - first) * keys for first in range(0, queries, rows)]
    return initial_seed(), next_offset(sum(-(-n // 16) for n in counts) * 16), rows


def _dropout(draw, dropout_p):
    """Return the struct `Dropout`."""
    if draw is None:
        return _words(-1, 0, 0, 0, 1)
    seed, offset, rows = draw
    return _words(round((1.0 - dropout_p) * 2**16), *draw_from(seed, offset), rows)


def _whole_mask(draw, query, key, dropout_p):
    """Return the dropout mask (..., query, key) of the kernels as one array."""
    xp, (seed, offset, rows) = array_module(query), draw
    parts = []
    for first in range(0, query.shape[-2], rows):
        shape = (*query.shape[:-2], min(rows, query.shape[-2] - first), key.shape[-2])
        parts.append(keep_mask(shape, 1.0 - dropout_p, xp, seed, offset))
        offset += -(-math.prod(shape) // 16)
    return xp.concatenate(parts, -2)
