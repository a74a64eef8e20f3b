"""Arguments of attention: validate them, group the heads and convert masks to tensors."""

import math
from typing import NamedTuple

from ...autograd.autocast import mixes
from ...autograd.broadcasting import broadcast_shapes
from ...errors import ArgumentError, DTypeError, ShapeError
from ...tensor import Tensor
from ..cast import cast

__all__ = ["AttentionInputs", "prepared"]

_WHERE = "scaled_dot_product_attention"


class AttentionInputs(NamedTuple):
    """Arguments of an attention kernel, and the shape of its result."""

    tensors: tuple  # query, key, value, mask
    settings: dict
    score_shape: tuple  # (..., query, key)
    shape: tuple | None  # result shape with merged head groups; None without groups


def prepared(
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, repeat_heads=False,
    keys=None,
):  # fmt: skip
    """Check the arguments of `scaled_dot_product_attention`; return them as `AttentionInputs`.

    With `enable_gqa`, several query heads share one key head and one value head. If `repeat_heads`
    is True, the shared heads are copied, so that the weights have a single head axis. Otherwise,
    heads are copied only if key and value have different numbers of heads. `keys` is the number of
    keys that the mask covers. It is needed if `key` holds only some of the keys, as in ring
    attention.
    """
    _check_tensors(query=query, key=key, value=value)
    if not 0.0 <= dropout_p <= 1.0:
        raise ArgumentError(
            f"{_WHERE}: dropout_p must be a probability",
            got=f"{dropout_p}",
            expected="a number from 0 to 1",
            hint="use dropout_p=0.1 to drop 10 % of the weights",
        )
    shape = None
    if enable_gqa:
        _check_groups(query, key, value)
        heads, groups = query.shape[-3], {key.shape[-3], value.shape[-3]}
        if len(groups) > 1 or repeat_heads:
            key, value = (x.repeat_interleave(heads // x.shape[-3], -3) for x in (key, value))
    leads = [x.shape[:-2] for x in (query, key, value)]
    if enable_gqa:
        leads = [(*lead[:-1], heads) for lead in leads]
    lead = _leading(leads, query, key, value)
    score_lead = lead if leads[0] == leads[1] == lead else broadcast_shapes(*leads[:2])
    keys = key.shape[-2] if keys is None else keys
    score_shape = (*score_lead, query.shape[-2], keys)
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
    """Check that query, key and value are float tensors with matching dtypes and shapes."""
    for name, x in named.items():
        if not isinstance(x, Tensor):
            raise DTypeError(
                f"{_WHERE}: {name} is not a tensor", got=type(x).__name__, hint=f"mt.tensor({name})"
            )
    query, key, value = [x.array for x in named.values()]
    same = query.dtype == key.dtype == value.dtype or mixes(*named.values())
    if query.dtype.kind != "f" or not same:
        raise DTypeError(
            f"{_WHERE}: query, key and value must have the same floating-point dtype",
            got=", ".join(f"{name} {x.dtype}" for name, x in named.items()),
            hint="convert each of them with x.to(mt.float32)",
        )
    if query.ndim < 2 or key.ndim < 2 or value.ndim < 2:
        message = "query, key and value must have at least two axes"
        expected, hint = "(..., token, dim)", "use x.unsqueeze(0) to add the token axis"
    elif query.shape[-1] != key.shape[-1]:
        message = "the last axes of query and key must have the same length"
        expected = "query (..., query, dim) and key (..., key, dim) with the same dim"
        hint = "project query and key to the same head_dim; only value may have another head_dim"
    elif key.shape[-2] != value.shape[-2]:
        message = "key and value must have the same number of tokens"
        expected = "key (..., key, dim) and value (..., key, value_dim)"
        hint = "compute key and value from the same tokens"
    else:
        return
    got = ", ".join(f"{name} {x.shape}" for name, x in named.items())
    raise ShapeError(f"{_WHERE}: {message}", got=got, expected=expected, hint=hint)


def _check_groups(query, key, value):
    """Check that the number of query heads is a multiple of the numbers of key and value heads."""
    got = f"query {query.shape}, key {key.shape}, value {value.shape}"
    if min(query.ndim, key.ndim, value.ndim) < 3:
        raise ShapeError(
            f"{_WHERE}: enable_gqa=True requires a head axis",
            got=got,
            expected="(..., heads, token, dim)",
            hint="use x.unsqueeze(-3) to add an axis for a single head",
        )
    heads = query.shape[-3]
    if not key.shape[-3] or not value.shape[-3]:
        raise ShapeError(f"{_WHERE}: key and value must have at least one head", got=got)
    if heads % key.shape[-3] or heads % value.shape[-3]:
        raise ShapeError(
            f"{_WHERE}: the number of query heads is not divisible by the number of key "
            "heads or by the number of value heads",
            got=got,
            hint="check that axis -3 holds the heads: (..., heads, token, dim)",
        )


def _leading(leads, query, key, value):
    """Return the shape to which `leads`, the leading axes of query, key and value, broadcast."""
    if leads[0] == leads[1] == leads[2]:
        return leads[0]
    try:
        return broadcast_shapes(*leads)
    except ShapeError:
        raise ShapeError(
            f"{_WHERE}: the leading axes (batch, heads) do not broadcast",
            got=f"query {query.shape}, key {key.shape}, value {value.shape}",
            expected="equal sizes, or 1, before the last two axes",
            hint="set enable_gqa=True if several query heads share a key and value head",
        ) from None


def _read_mask(mask, is_causal, dtype, score_shape):
    """Check the mask. Return (mask, is_causal), where the mask is a boolean or float tensor.

    The mask is None if there is no mask, or if `is_causal` replaces it.
    """
    is_causal = bool(is_causal)
    if mask is None:
        return None, is_causal
    attend = getattr(mask, "attend", mask)
    if not isinstance(attend, Tensor) or attend.dtype.kind not in "bf":
        raise DTypeError(
            f"{_WHERE}: attn_mask must be a boolean or floating-point tensor",
            got=f"{getattr(attend, 'dtype', type(attend).__name__)}",
            expected="booleans (True: the query may attend), or floats to add to the scores",
            hint="use mask.bool() if 1 means that the query may attend to the key",
        )
    try:
        fits = broadcast_shapes(score_shape, attend.shape) == score_shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{_WHERE}: attn_mask does not broadcast to the scores",
            got=f"attn_mask {attend.shape}",
            expected=f"a shape that broadcasts to (..., query, key) = {score_shape}",
            hint="use mask[:, None, None, :] if its axes are (batch, key)"
            if attend.ndim == 2
            else "create the mask with masks.padding or masks.causal",
        )
    if getattr(mask, "is_causal", False) and attend.shape[-2:] == score_shape[-2:]:
        return None, True
    return (cast(attend, dtype) if attend.dtype.kind == "f" else attend), is_causal
