"""Channels traded for resolution: pixel_shuffle and its inverse."""

from ..errors import ArgumentError, ShapeError
from .given import as_operand
from .shape import permute, reshape

__all__ = ["pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(input, upscale_factor):
    """Groups of r * r channels laid out as squares of r by r elements.

    Parameters
    ----------
    input : Tensor of shape (..., channel * r * r, height, width)
    upscale_factor : int
        r.

    Returns
    -------
    Tensor of shape (..., channel, height * r, width * r)

    Notes
    -----
    Shi et al. 2016, arXiv:1609.05158v2, Eq. 4.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> pixel_shuffle(mt.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    r = _factor("pixel_shuffle", input, "upscale_factor", upscale_factor)
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise ShapeError(
            "pixel_shuffle: the channels do not make squares.",
            got=f"input {input.shape} and upscale_factor={r}",
            expected=f"a multiple of {r * r} channels",
        )
    count = len(lead)
    x = reshape(input, (*lead, channels // (r * r), r, r, height, width))
    # (.., channel, r, r, height, width) -> (.., channel, height, r, width, r)
    x = permute(x, (*range(count), *(count + i for i in (0, 3, 1, 4, 2))))
    return reshape(x, (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input, downscale_factor):
    """Squares of r by r elements taken apart into r * r channels: undoes `pixel_shuffle`.

    Parameters
    ----------
    input : Tensor of shape (..., channel, height * r, width * r)
    downscale_factor : int
        r.

    Returns
    -------
    Tensor of shape (..., channel * r * r, height, width)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> pixel_unshuffle(mt.arange(4.0).reshape(1, 2, 2), 2).shape
    (4, 1, 1)
    """
    r = _factor("pixel_unshuffle", input, "downscale_factor", downscale_factor)
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise ShapeError(
            "pixel_unshuffle: the image does not divide into squares.",
            got=f"input {input.shape} and downscale_factor={r}",
            expected=f"a height and a width that {r} divides",
        )
    count = len(lead)
    x = reshape(input, (*lead, channels, height // r, r, width // r, r))
    # (.., channel, height, r, width, r) -> (.., channel, r, r, height, width)
    x = permute(x, (*range(count), *(count + i for i in (0, 2, 4, 1, 3))))
    return reshape(x, (*lead, channels * r * r, height // r, width // r))


def _factor(where, input, name, factor):
    if as_operand(input, where).ndim < 3:
        raise ShapeError(
            f"{where}: input has too few axes.",
            got=f"input {input.shape}",
            expected="(..., channel, height, width)",
        )
    if not isinstance(factor, int) or factor < 1:
        raise ArgumentError(f"{where}: {name}.", got=repr(factor), expected="a positive integer")
    return factor
