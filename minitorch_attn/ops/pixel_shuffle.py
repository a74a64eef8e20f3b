"""Pixel shuffle: rearrange channels into pixels for upsampling, and its inverse."""

from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from .plumbing.tensor_arguments import as_operand
from .reshape import permute, reshape

__all__ = ["pixel_shuffle", "pixel_unshuffle"]


@computes("pixel shuffle", reveals=("merged neighbors",))
@names_arguments
def pixel_shuffle(input, upscale_factor):
    """Rearrange groups of r * r channels into squares of r by r pixels (r = `upscale_factor`).

    Parameters
    ----------
    input : Tensor of shape (..., channel * r * r, height, width)
    upscale_factor : int
        Factor r by which height and width grow.

    Returns
    -------
    Tensor of shape (..., channel, height * r, width * r)

    Notes
    -----
    See Shi et al. 2016, arXiv:1609.05158v2, Eq. 4.

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
            "pixel_shuffle: the number of channels is not divisible by upscale_factor^2",
            got=f"input {input.shape} and upscale_factor={r}",
            expected=f"a multiple of {r * r} channels",
            hint=f"first use a convolution that multiplies the number of channels by {r * r}",
        )
    count = len(lead)
    x = reshape(input, (*lead, channels // (r * r), r, r, height, width))
    # (.., channel, r, r, height, width) -> (.., channel, height, r, width, r)
    x = permute(x, (*range(count), *(count + i for i in (0, 3, 1, 4, 2))))
    return reshape(x, (*lead, channels // (r * r), height * r, width * r))


@computes("pixel shuffle", reveals=("merged neighbors",))
@names_arguments
def pixel_unshuffle(input, downscale_factor):
    """Rearrange squares of r by r pixels into r * r channels; the inverse of `pixel_shuffle`.

    Parameters
    ----------
    input : Tensor of shape (..., channel, height * r, width * r)
    downscale_factor : int
        Factor r by which height and width shrink.

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
            "pixel_unshuffle: height or width is not divisible by downscale_factor",
            got=f"input {input.shape} and downscale_factor={r}",
            expected=f"a height and a width that are multiples of {r}",
            hint=f"mt.pad(input, (0, {-width % r}, 0, {-height % r}))",
        )
    count = len(lead)
    x = reshape(input, (*lead, channels, height // r, r, width // r, r))
    # (.., channel, height, r, width, r) -> (.., channel, r, r, height, width)
    x = permute(x, (*range(count), *(count + i for i in (0, 2, 4, 1, 3))))
    return reshape(x, (*lead, channels * r * r, height // r, width // r))


def _factor(where, input, name, factor):
    if as_operand(input, where).ndim < 3:
        raise ShapeError(
            f"{where}: input must have at least 3 axes",
            got=f"input {input.shape}",
            hint="add a channel axis to (height, width) with x.unsqueeze(0)",
        )
    if not isinstance(factor, int) or factor < 1:
        raise ArgumentError(
            f"{where}: {name} must be a positive integer",
            got=repr(factor),
            hint="give one integer, such as 2, for both height and width",
        )
    return factor
