"""Single-head attention: check tokens and masks, and pass attention weights to hooks."""

from ..errors import DTypeError, ShapeError
from ..tensor import Tensor
from .masks import Mask, from_blocked

__all__ = ["attend_mask", "check_tokens", "show_weights"]


def show_weights(layer, weights):
    """Call a layer's weight hooks with attention weights of shape (batch, 1, query, key)."""
    for hook in layer.weight_hooks:
        hook(layer, weights.unsqueeze(-3))  # (batch, 1, query, key)


def check_tokens(where, name, x, size, query, batched=False):
    """Raise an error unless x is a tensor with the query's number of axes and batch size."""
    if not isinstance(x, Tensor):
        raise DTypeError(
            f"{where}: {name} is not a tensor", got=type(x).__name__, hint=f"mt.tensor({name})"
        )
    axes = (3,) if batched else (2, 3)
    good = x.ndim in axes and x.ndim == query.ndim and x.shape[:-2] == query.shape[:-2]
    if not good or size not in (None, x.shape[-1]):
        raise ShapeError(
            f"{where}: {name} has the wrong shape",
            got=f"{name} {x.shape}" + ("" if x is query else f", query {query.shape}"),
            expected=f"(batch, token, {'value_dim' if size is None else size})",
            hint="use one batch size for all inputs, and the size above for the last axis",
        )


def attend_mask(where, mask, key):
    """Convert `mask` to a bool Tensor (True = may attend) that broadcasts to the scores."""
    if mask is None:
        return None
    shape = key.shape[:-1]  # (batch, key) or (key,)
    if isinstance(mask, Mask):
        attend = mask.to(key.device).attend
        if attend.ndim == 4:  # (batch, heads, query, key): there is one head
            attend = attend.squeeze(1) if attend.shape[1] == 1 else attend
            attend = attend if len(shape) == 2 or attend.shape[0] != 1 else attend.squeeze(0)
        return attend
    if not isinstance(mask, Tensor) or mask.dtype.kind != "b":
        raise DTypeError(
            f"{where}: key_padding_mask must be a boolean tensor",
            got=f"{getattr(mask, 'dtype', type(mask).__name__)}",
            expected="bool, True where a key is blocked",
            hint="use mask == 0 if 1 means that a key may be attended to, or a Mask from mt.masks",
        )
    if mask.shape != shape:
        raise ShapeError(
            f"{where}: the shape of key_padding_mask does not match the keys",
            got=f"key_padding_mask {mask.shape}",
            expected=f"{shape}",
            hint="use a Mask from mt.masks, which may have any shape that broadcasts",
        )
    return from_blocked(mask).attend.unsqueeze(-2)  # (batch, 1, key)
