"""Attention masks for encoders, in all forms that Hugging Face accepts."""

from ...errors import DTypeError, ShapeError
from ...nn.masks import CompleteMask

__all__ = ["decoder_mask", "encoder_mask"]


def encoder_mask(attention_mask, batch, keys, name="attention_mask"):
    """Return the mask of keys that queries may attend to.

    Parameters
    ----------
    attention_mask : Tensor, optional
        Mask of shape (batch, key) or (batch, query, key), of ints, bools or floats, with 0 for
        padding. A mask with four axes (batch or 1, heads or 1, query or 1, key) must be either
        boolean, with True where attention is allowed, or floating-point. Floats are added to the
        scores.
    batch, keys : int
        Batch size and number of keys.
    name : str
        Argument name for error messages.

    Returns
    -------
    bool or float Tensor that broadcasts to (batch, heads, query, key), or None
    """
    if attention_mask is None:
        return None
    if attention_mask.ndim not in (2, 3, 4) or attention_mask.shape[-1] != keys:
        raise ShapeError(
            f"{name} does not match the number of tokens",
            got=f"{attention_mask.shape} for {batch} texts of {keys} tokens",
            expected=f"{(batch, keys)}, or {(batch, 'query', keys)}",
            hint="pass the tokenizer's mask: 1 for a token, 0 for padding",
        )
    if attention_mask.ndim < 4:
        attend = attention_mask != 0
        return attend[:, None, None] if attend.ndim == 2 else attend[:, None]
    if attention_mask.dtype.kind not in "bf":
        raise DTypeError(
            f"{name}: a mask with four axes must be boolean or floating-point",
            got=f"{attention_mask.dtype} of shape {attention_mask.shape}",
            expected="bool, True where attention is allowed, or floats to add to the scores",
            hint="pass mask != 0 if 1 means that the query may attend to the key",
        )
    return attention_mask


def decoder_mask(attention_mask, batch, keys, name="attention_mask"):
    """Same as `encoder_mask`, but for a decoder: a mask with four axes replaces the causal mask."""
    mask = encoder_mask(attention_mask, batch, keys, name)
    four_axes = attention_mask is not None and attention_mask.ndim == 4
    return CompleteMask(mask) if four_axes else mask
