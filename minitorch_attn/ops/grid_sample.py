"""Grid sampling: read an image at given positions (grid_sample and affine_grid).

A position can lie between elements of the image. Along each axis, the mode selects a few elements
near the position and gives them weights, which depend on the position. The sampled value is the
weighted sum over all combinations of these elements. The functions are built from other operations,
so autograd computes the gradients with respect to the image and the positions.
"""

import itertools
import math

from ..autograd.autocast import autocasts
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from .arithmetic import abs
from .cat_split import stack
from .creation import linspace, ones
from .gather_scatter import gather
from .plumbing.axes import sizes_of
from .plumbing.tensor_arguments import as_operand
from .relu import hardtanh
from .rounding import Zero, floor, round
from .where import where

__all__ = ["affine_grid", "grid_sample"]

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@names_arguments
@autocasts
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Sample `input` at the positions in `grid`.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, *space), with two or three spatial axes
    grid : Tensor of shape (batch, *output space, number of spatial axes)
        Positions (x, y) or (x, y, z), where x is along the last axis of `input`. -1 is the start of
        an axis, and 1 is its end.
    mode : {"bilinear", "nearest", "bicubic"}
        Interpolation between the elements around a position. With three spatial axes, "bilinear"
        means trilinear, and "bicubic" is not supported.
    padding_mode : {"zeros", "border", "reflection"}
        Values outside the image: zeros, the nearest element, or the mirrored image.
    align_corners : bool, default False
        Whether -1 and 1 refer to the centers of the corner elements, instead of their outer edges.

    Returns
    -------
    Tensor of shape (batch, channel, *output space)

    References
    ----------
    .. [1] "Spatial Transformer Networks", arXiv:1506.02025v3, section 3.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> image = mt.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid_sample(image, mt.tensor([[[[0.0, 0.0], [1.0, -1.0]]]]), align_corners=True)
    tensor([[[[2.5, 2. ]]]])
    """
    input, grid = as_operand(input, "grid_sample"), as_operand(grid, "grid_sample", "grid")
    _check(input, grid, mode, padding_mode)
    space, out = input.shape[2:], grid.shape[1:-1]
    batch, channels = input.shape[:2]
    axes = []
    for axis, size in enumerate(space):
        position = grid[..., len(space) - 1 - axis].reshape(batch, 1, -1)  # (batch, 1, place)
        if align_corners:
            position = (position + 1) * ((size - 1) / 2)
        else:
            position = ((position + 1) * size - 1) / 2
        axes.append(_taps(position, size, mode, padding_mode, bool(align_corners)))
    flat = input.reshape(batch, channels, -1)
    total = 0
    for taps in itertools.product(*axes):
        index, weight = 0, 1
        for (place, share), size in zip(taps, space, strict=True):
            index, weight = index * size + place, weight * share
        values = gather(flat, 2, index.expand(batch, channels, index.shape[2]))
        total = total + values * weight  # (batch, channel, place) * (batch, 1, place)
    return total.reshape(batch, channels, *out)


def _taps(position, size, mode, padding, corners):
    """Return (index, weight) pairs: the elements along one axis that a position is sampled from."""
    if mode == "bicubic":
        left = floor(position.detach())
        distance = position - left
        places = [_padded(left + k, size, padding, corners) for k in (-1, 0, 1, 2)]
        shares = [_keys(distance - k) for k in (-1, 0, 1, 2)]
    else:
        position = _padded(position, size, padding, corners)
        if mode == "nearest":
            places, shares = [round(position.detach())], [Zero.apply(position) + 1]
        else:
            left = floor(position.detach())
            places, shares = [left, left + 1], [left + 1 - position, position - left]
    return [_inside(place, share, size) for place, share in zip(places, shares, strict=True)]


def _inside(place, share, size):
    """Convert positions to indices; outside the image, set both index and weight to 0."""
    inside = (place >= 0) & (place <= size - 1)
    return where(inside, place, 0.0).detach().long(), where(inside, share, 0.0)


def _padded(position, size, padding, corners):
    """Map positions outside the image back into it, unless the padding mode is 'zeros'."""
    if padding == "zeros":
        return position
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        if high == low:
            return position * 0
        position = abs(position - low)
        turns = floor(position.detach() / (high - low))
        rest = position - turns * (high - low)
        position = where(turns % 2 == 0, rest, (high - low) - rest) + low
    return hardtanh(position, 0, size - 1)


def _keys(x):
    """Cubic convolution kernel with the parameter a = -0.75, as in `interpolate`."""
    x, a = abs(x), -0.75
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return where(x <= 1, near, where(x < 2, far, 0.0))


def _check(input, grid, mode, padding_mode):
    if mode not in _MODES or padding_mode not in _PADDINGS or (mode, input.ndim) == ("bicubic", 5):
        raise ArgumentError(
            "grid_sample: mode or padding_mode is unknown, or does not support this input",
            got=f"mode={mode!r}, padding_mode={padding_mode!r} for input {input.shape}",
            expected=f"one of {_MODES} and one of {_PADDINGS}; 'bicubic' only for 2 spatial axes",
        )
    if (
        input.ndim not in (4, 5)
        or grid.ndim != input.ndim
        or grid.shape[-1] != input.ndim - 2
        or (grid.shape[0] != input.shape[0])
    ):
        raise ShapeError(
            "grid_sample: the shapes of input and grid do not match",
            got=f"input {input.shape} and grid {grid.shape}",
            expected="(batch, channel, height, width) and (batch, height, width, 2), or "
            "(batch, channel, depth, height, width) and (batch, depth, height, width, 3)",
        )
    if math.prod(input.shape[2:]) == 0:
        raise ShapeError(
            "grid_sample: the spatial axes of input must not be empty", got=f"input {input.shape}"
        )
    if input.dtype.kind != "f" or input.dtype != grid.dtype:
        raise DTypeError(
            "grid_sample: input and grid must have the same floating-point dtype",
            got=f"input {input.dtype} and grid {grid.dtype}",
            hint="grid.to(input.dtype)",
        )


@names_arguments
def affine_grid(theta, size, align_corners=None):
    """Positions for `grid_sample`: apply an affine map to the position of each output element.

    Parameters
    ----------
    theta : Tensor of shape (batch, 2, 3) or (batch, 3, 4)
        Matrix of each map, whose last column is the translation.
    size : tuple of int
        Size of the output of `grid_sample`: (batch, channel, *space).
    align_corners : bool, default False
        Whether -1 and 1 refer to the centers of the corner elements, instead of their outer edges.

    Returns
    -------
    Tensor of shape (batch, *space, number of spatial axes)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> affine_grid(mt.tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 1, 2))
    tensor([[[[-0.5,  0. ],
              [ 0.5,  0. ]]]])
    """
    theta = as_operand(theta, "affine_grid", "theta")
    size = sizes_of(size, "affine_grid")
    count = len(size) - 2
    if count not in (2, 3) or theta.shape != (size[0], count, count + 1) or min(size) < 1:
        raise ShapeError(
            "affine_grid: the shape of theta does not match size",
            got=f"theta {theta.shape} and size={size}",
            expected="theta (batch, 2, 3) and size (batch, channel, height, width), or "
            "(batch, 3, 4) and (batch, channel, depth, height, width)",
        )
    place = {"dtype": theta.dtype, "device": theta.device}
    columns = []
    for axis, n in enumerate(size[2:]):
        end = (n > 1) * 1.0 if align_corners else 1 - 1 / n
        along = [-1 if i == axis else 1 for i in range(count)]
        columns.append(linspace(-end, end, n, **place).reshape(along).expand(*size[2:]))
    points = stack([*columns[::-1], ones(size[2:], **place)], -1)  # (*space, x y z 1)
    grid = points.reshape(1, -1, count + 1) @ theta.mT
    return grid.reshape(size[0], *size[2:], count)
