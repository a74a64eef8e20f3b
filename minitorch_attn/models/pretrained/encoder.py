"""What the faces of encoders share: the attention mask, in every form that the peers take."""

from ...errors import ArgumentError, ShapeError

__all__ = ["encoder_mask"]


def encoder_mask(attention_mask, batch, keys, name="attention_mask"):
    """Which keys may be attended to.

    Parameters
    ----------
    attention_mask : Tensor, optional
        Of shape (batch, key) or (batch, query, key): ints, bools or floats, 0 = padding, anything
        else = a token. Or of shape (batch or 1, heads or 1, query or 1, key): bools, True = may
        attend.
    batch, keys : int
    name : str
        Of the argument, for errors.

    Returns
    -------
    bool Tensor that broadcasts to (batch, heads, query, key), or None
    """
    if attention_mask is None:
        return None
    if attention_mask.ndim not in (2, 3, 4) or attention_mask.shape[-1] != keys:
        raise ShapeError(
            f"{name}: one number for each token.",
            got=f"{attention_mask.shape} for {batch} texts of {keys} tokens",
            expected=f"{(batch, keys)}, or {(batch, 'query', keys)}",
        )
    if attention_mask.ndim < 4:
        attend = attention_mask != 0
        return attend[:, None, None] if attend.ndim == 2 else attend[:, None]
    if attention_mask.dtype.kind != "b":
        raise ArgumentError(
            f"{name}: a mask for every query and key says True or False.",
            got=f"{attention_mask.dtype} of shape {attention_mask.shape}",
            expected="bool, True = may attend",
            hint="mask == 0 if it holds what would be added to the scores",
        )
    return attention_mask
