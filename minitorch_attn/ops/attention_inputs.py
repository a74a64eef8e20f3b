"""What attention is given: shapes checked, heads grouped, masks brought to one meaning."""

import math
from functools import lru_cache
from typing import NamedTuple

from ..autograd.broadcasting import broadcast_shapes
from ..backend import array_module, device_of, module_for
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor
from .cast import cast

__all__ = ["AttentionInputs", "additive", "causal_bias", "prepared"]

_WHERE = "scaled_dot_product_attention"
_CACHED_ENTRIES = 2**20  # 4 MiB of float32; a larger triangle is made anew


class AttentionInputs(NamedTuple):
    """Arguments of the operation, and how to read its result."""

    tensors: tuple  # query, key, value, mask
    settings: dict
    score_shape: tuple  # (..., query, key)
    shape: tuple | None  # of the result, where groups of heads are to be merged


def prepared(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """Check the arguments of attention and bring them to one form.

    Returns
    -------
    AttentionInputs
    """
    _check_tensors(query=query, key=key, value=value)
    if not 0.0 <= dropout_p <= 1.0:
        raise ArgumentError(
            f"{_WHERE}: dropout_p is a probability.", got=f"{dropout_p}", expected="from 0 to 1"
        )
    shape = None
    if enable_gqa:
        _check_groups(query, key, value)
        heads, groups = query.shape[-3], {key.shape[-3], value.shape[-3]}
        if len(groups) > 1:
            key, value = (x.repeat_interleave(heads // x.shape[-3], -3) for x in (key, value))
    leads = [x.shape[:-2] for x in (query, key, value)]
    if enable_gqa:
        leads = [(*lead[:-1], heads) for lead in leads]
    lead = _leading(leads, query, key, value)
    score_lead = lead if leads[0] == leads[1] == lead else broadcast_shapes(*leads[:2])
    score_shape = (*score_lead, query.shape[-2], key.shape[-2])
    mask, is_causal = _read_mask(attn_mask, is_causal, query.dtype, score_shape)
    if enable_gqa and key.shape[-3] != heads:
        shape = (*lead, query.shape[-2], value.shape[-1])
        sizes = (key.shape[-3], heads // key.shape[-3])  # (..., key head, group, query, dim)
        query, key, value = query.unflatten(-3, sizes), key.unsqueeze(-3), value.unsqueeze(-3)
        if mask is not None and mask.ndim >= 3:
            mask = mask.unsqueeze(-3) if mask.shape[-3] == 1 else mask.unflatten(-3, sizes)
        score_shape = (*score_shape[:-3], *sizes, *score_shape[-2:])
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    settings = {"scale": float(scale), "is_causal": is_causal, "dropout_p": float(dropout_p)}
    return AttentionInputs((query, key, value, mask), settings, score_shape, shape)


def _check_tensors(**named):
    """Three floating-point tensors of one dtype whose axes fit together."""
    for name, x in named.items():
        if not isinstance(x, Tensor):
            raise DTypeError(f"{_WHERE}: {name} is not a tensor.", got=type(x).__name__)
    query, key, value = [x.array for x in named.values()]
    if query.dtype.kind != "f" or not query.dtype == key.dtype == value.dtype:
        raise DTypeError(
            f"{_WHERE}: query, key and value hold floats of one dtype.",
            got=", ".join(f"{name} {x.dtype}" for name, x in named.items()),
            hint="x.to(mt.float32) on each",
        )
    if query.ndim < 2 or key.ndim < 2 or value.ndim < 2:
        message = "query, key and value have at least two axes."
        expected, hint = "(..., token, dim)", None
    elif query.shape[-1] != key.shape[-1]:
        message = "query and key have heads of different sizes."
        expected = "query (..., query, dim) and key (..., key, dim) with one dim"
        hint = "project both to one head_dim; value may have another"
    elif key.shape[-2] != value.shape[-2]:
        message = "there is not one value for each key."
        expected = "key (..., key, dim) and value (..., key, value_dim) with one length"
        hint = None
    else:
        return
    got = ", ".join(f"{name} {x.shape}" for name, x in named.items())
    raise ShapeError(f"{_WHERE}: {message}", got=got, expected=expected, hint=hint)


def _check_groups(query, key, value):
    """Heads of key and value that divide the heads of query."""
    got = f"query {query.shape}, key {key.shape}, value {value.shape}"
    if min(query.ndim, key.ndim, value.ndim) < 3:
        raise ShapeError(
            f"{_WHERE}: enable_gqa needs a heads axis.",
            got=got,
            expected="(..., heads, token, dim)",
        )
    heads = query.shape[-3]
    if not key.shape[-3] or not value.shape[-3]:
        raise ShapeError(f"{_WHERE}: there are no key heads or no value heads.", got=got)
    if heads % key.shape[-3] or heads % value.shape[-3]:
        raise ShapeError(
            f"{_WHERE}: the query heads do not form equal groups.",
            got=got,
            expected="as many heads of query as of key and of value, or a multiple of each",
        )


def _leading(leads, query, key, value):
    """The broadcast of the leading axes."""
    if leads[0] == leads[1] == leads[2]:
        return leads[0]
    try:
        return broadcast_shapes(*leads)
    except ShapeError:
        raise ShapeError(
            f"{_WHERE}: the leading axes (batch, heads) do not broadcast.",
            got=f"query {query.shape}, key {key.shape}, value {value.shape}",
            expected="equal sizes, or 1, before the last two axes",
            hint="enable_gqa=True if key and value have fewer heads on purpose",
        ) from None


def _read_mask(mask, is_causal, dtype, score_shape):
    """(mask, is_causal) from whatever was given: a boolean or a float tensor, or None."""
    is_causal = bool(is_causal)
    if mask is None:
        return None, is_causal
    attend = getattr(mask, "attend", mask)
    if not isinstance(attend, Tensor) or attend.dtype.kind not in "bf":
        raise DTypeError(
            f"{_WHERE}: attn_mask is neither boolean nor float.",
            got=f"{getattr(attend, 'dtype', type(attend).__name__)}",
            expected="bool, True where the query may attend to the key, or floats to be added",
            hint="mask.bool() if 1 means that it may attend",
        )
    try:
        fits = broadcast_shapes(score_shape, attend.shape) == score_shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{_WHERE}: attn_mask does not broadcast to the scores.",
            got=f"attn_mask {attend.shape}",
            expected=f"a shape that broadcasts to (..., query, key) = {score_shape}",
            hint="a mask of keys (batch, key) becomes mask[:, None, None, :]"
            if attend.ndim == 2
            else None,
        )
    if getattr(mask, "is_causal", False) and attend.shape[-2:] == score_shape[-2:]:
        return None, True
    return (cast(attend, dtype) if attend.dtype.kind == "f" else attend), is_causal


def additive(mask, dtype):
    """What to add to the scores: a float mask itself, 0 or -inf for a boolean one."""
    if mask.dtype.kind == "f":
        return mask
    return array_module(mask).where(mask, 0.0, -math.inf).astype(dtype)


def causal_bias(scores):
    """0 where key <= query and -inf where not, (query, key), on the device of the scores."""
    query_len, key_len = scores.shape[-2:]
    make = _triangle if query_len * key_len <= _CACHED_ENTRIES else _triangle.__wrapped__
    return make(query_len, key_len, scores.dtype.name, device_of(scores))


@lru_cache(maxsize=8)
def _triangle(query_len, key_len, dtype, device):
    xp = module_for(device)
    return xp.triu(xp.full((query_len, key_len), -math.inf, dtype=dtype), 1)
