"""Interpolation: resize images and sequences.

Every mode is linear in the input and processes one axis at a time: each output element is a
weighted sum of a few input elements along the axis. A mode is therefore a table of positions and
weights; `TapSum` computes the sum and its derivative.
"""

import math
from functools import lru_cache

from ..autograd.autocast import autocasts
from ..backend import array_module
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from .plumbing.axes import sizes_of
from .plumbing.tensor_arguments import as_operand
from .plumbing.weighted_sum import Taps, tap_sum
from .pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = ["interpolate"]

_host = array_module()  # tables are made on the host, where the sizes are known

# mode -> numbers of axes of the input that it supports
_MODES = {
    "nearest": (3, 4, 5), "nearest-exact": (3, 4, 5), "linear": (3,), "bilinear": (4,),
    "trilinear": (5,), "bicubic": (4,), "lanczos": (4,), "area": (3, 4, 5),
}  # fmt: skip
_WITH_CORNERS = ("linear", "bilinear", "trilinear", "bicubic")
_PLAIN = ("nearest", "nearest-exact", "area")  # these reject even align_corners=False
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


@lru_cache(maxsize=256)
def _nearest_table(size, places, step, exact):
    """Return the indices (`Taps`) for nearest-neighbor interpolation: one per output element.

    The index is that of the input element at the left edge of the output element, or at the center
    of the output element if `exact`. PyTorch computes these positions in single precision, whatever
    the dtype of the input. On the CPU, PyTorch's forward pass over one or three axes rounds a few
    positions differently from PyTorch's backward pass. Here, both passes use the positions of
    PyTorch's backward pass.
    """
    if not exact and places in (size, 2 * size):
        return Taps((_host.arange(places) * size // max(places, 1))[:, None], None, size)
    single = _host.float32
    step = single(step) if step else single(size) / single(places)
    where = _host.arange(places).astype(single) + single(0.5 if exact else 0.0)
    index = _host.floor(where * step).astype(_host.int64)
    return Taps(_host.minimum(index, size - 1)[:, None], None, size)


def _sources(size, places, step, align_corners, below_zero):
    """Return the index of each output element's left input neighbor, and the distance to it."""
    o = _host.arange(places)
    if align_corners:
        where = o * ((size - 1) / (places - 1) if places > 1 else 0.0)
    else:
        where = (o + 0.5) * (step or size / places) - 0.5
        if not below_zero:
            where = _host.maximum(where, 0.0)
    left = _host.minimum(_host.floor(where), size - 1)
    return left.astype(_host.int64), where - left


@lru_cache(maxsize=256)
def _linear_table(size, places, step, align_corners):
    """Return the indices and weights (`Taps`) for linear interpolation between two neighbors.

    The weights are 1 - t and t, where t is the distance from the left neighbor.
    """
    if size == places:
        left, t = _host.arange(places), _host.zeros(places)
    else:
        left, t = _sources(size, places, step, align_corners, below_zero=False)
    right = _host.minimum(left + 1, size - 1) if size != places else left
    return Taps(_host.stack([left, right], 1), _host.stack([1.0 - t, t], 1), size)


@lru_cache(maxsize=256)
def _cubic_table(size, places, step, align_corners):
    """Return the indices and weights (`Taps`) for cubic convolution over four neighbors.

    The kernel parameter is a = -0.75.

    Neighbors outside the input are replaced by the nearest border element.
    """
    left, t = _sources(size, places, step, align_corners, below_zero=True)
    offsets = _host.arange(-1, 3)
    index = _host.clip(left[:, None] + offsets, 0, size - 1)
    return Taps(index, _keys(t[:, None] - offsets, -0.75), size)


def _keys(x, a):
    """Cubic convolution kernel: Eq. 4 of Keys 1981, with `a` in place of -1/2."""
    x = abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return _host.where(x <= 1, near, _host.where(x < 2, far, 0.0))


def _triangle(x):
    return _host.maximum(1.0 - abs(x), 0.0)


def _keys_half(x):
    return _keys(x, -0.5)


def _lanczos(x):
    return _host.where(abs(x) < 3, _host.sinc(x) * _host.sinc(x / 3), 0.0)


# mode -> (filter, radius of the filter)
_FILTERS = {"bilinear": (_triangle, 1), "bicubic": (_keys_half, 2), "lanczos": (_lanczos, 3)}


@lru_cache(maxsize=256)
def _smooth_table(size, places, step, align_corners, mode):
    """Return the indices and weights (`Taps`) for an antialiasing filter.

    For downscaling, the filter is widened by the downscaling factor.
    """
    function, reach = _FILTERS[mode]
    if align_corners:
        step = (size - 1) / (places - 1) if places > 1 else 0.0
    else:
        step = step or size / places
    wide = max(step, 1.0)
    center = (_host.arange(places) + 0.5) * step
    first = _host.maximum((center - reach * wide + 0.5).astype(_host.int64), 0)
    last = _host.minimum((center + reach * wide + 0.5).astype(_host.int64), size)
    index = first[:, None] + _host.arange(int((last - first).max(initial=1)))
    inside = index < last[:, None]
    weight = _host.where(inside, function((index + 0.5 - center[:, None]) / wide), 0.0)
    total = weight.sum(axis=1, keepdims=True)
    weight /= _host.where(total == 0, 1.0, total)
    return Taps(_host.where(inside, index, size), weight, size)


def _table(mode, size, places, step, align_corners, antialias):
    if mode in ("nearest", "nearest-exact"):
        return _nearest_table(size, places, step, mode == "nearest-exact")
    if antialias:
        return _smooth_table(size, places, step, align_corners, mode)
    if mode == "bicubic":
        return _cubic_table(size, places, step, align_corners)
    return _linear_table(size, places, step, align_corners)


@names_arguments
@autocasts
def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None,
    recompute_scale_factor=None, antialias=False,
):  # fmt: skip
    """Resize `input` by interpolation along its spatial axes.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, *space), with one to three spatial axes
    size : int or sequence of int, optional
        Size of the output along each spatial axis.
    scale_factor : float or sequence of float, optional
        Ratio of output size to input size, as an alternative to `size`. Output sizes are rounded
        down.
    mode : str
        "nearest", "nearest-exact" or "area" for any number of spatial axes; "linear" for one axis;
        "bilinear", "bicubic" or "lanczos" (with `antialias`) for two; "trilinear" for three.
    align_corners : bool, optional
        Whether to align the centers of the corner elements of input and output, instead of their
        outer edges.
    recompute_scale_factor : bool, optional
        Whether to compute positions from the rounded output sizes instead of `scale_factor`.
    antialias : bool
        Whether to widen the filter when the size is reduced, as Pillow does; only for
        "bilinear", "bicubic" and "lanczos".

    Returns
    -------
    Tensor of shape (batch, channel, *size)

    Notes
    -----
    The derivative is in `TapSum`. Cubic convolution is from Keys 1981, IEEE Trans. ASSP 29(6),
    with the kernel parameter a = -0.75, or -0.5 if `antialias` is True.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([[[0.0, 4.0]]])
    >>> interpolate(x, 4, mode="linear"), interpolate(x, scale_factor=1.5)
    (tensor([[[0., 1., 3., 4.]]]), tensor([[[0., 0., 4.]]]))
    """
    input = as_operand(input, "interpolate")
    align_corners = _check(input, size, scale_factor, mode, align_corners, antialias)
    count = input.ndim - 2
    sizes, steps = _output_sizes(input, size, scale_factor, count)
    if recompute_scale_factor and size is not None:
        raise ArgumentError(
            "interpolate: recompute_scale_factor must not be given with size", got=f"size={size}"
        )
    if recompute_scale_factor or size is not None:
        steps = (None,) * count
    if mode == "area":
        return _AREA[input.ndim](input, sizes)
    if min(input.shape[1:]) < 1 or min(sizes) < 1:
        raise ShapeError(
            "interpolate: the sizes of input and output must be at least 1",
            got=f"input {input.shape} and an output of {sizes}",
            hint="use a larger size or scale_factor",
        )
    tables = [
        _table(mode, n, m, step, align_corners, antialias)
        for n, m, step in zip(input.shape[2:], sizes, steps, strict=True)
    ]
    return tap_sum(input, tables)


def _check(input, size, scale_factor, mode, align_corners, antialias):
    """Reject contradictory or unsupported arguments. Return `align_corners` as a bool."""
    if mode not in _MODES or input.ndim not in _MODES[mode]:
        raise ArgumentError(
            "interpolate: mode is unknown or does not support this input",
            got=f"mode={mode!r} for input {input.shape}",
            expected="one of " + ", ".join(m for m in _MODES if input.ndim in _MODES[m])
            if 3 <= input.ndim <= 5
            else "input (batch, channel, *space) with one to three spatial axes",
            hint="use input.unsqueeze(0) if the batch axis is missing",
        )
    if (size is None) == (scale_factor is None):
        raise ArgumentError(
            "interpolate: exactly one of size and scale_factor must be given",
            got=f"size={size} and scale_factor={scale_factor}",
            hint="pass size= in elements, or scale_factor=",
        )
    if mode not in _WITH_CORNERS and (align_corners or (align_corners is False and mode in _PLAIN)):
        raise ArgumentError(
            f"interpolate: align_corners must not be given for mode {mode!r}",
            got=f"align_corners={align_corners}",
            hint=f"omit align_corners, or use mode {', '.join(_WITH_CORNERS)}",
        )
    if antialias and mode not in _FILTERS or mode == "lanczos" and not antialias:
        raise ArgumentError(
            "interpolate: antialias does not match mode",
            got=f"antialias={antialias} and mode={mode!r}",
            expected="True for 'lanczos', True or False for 'bilinear' and 'bicubic', else False",
            hint="change mode or antialias",
        )
    if input.dtype.kind != "f":
        raise DTypeError(
            "interpolate: input must be a floating-point tensor",
            got=f"{input.dtype}",
            hint="interpolate(input.float(), ...)",
        )
    return bool(align_corners)


def _output_sizes(input, size, scale_factor, count):
    """Return the output sizes, and for each axis the step in the input per output element.

    The step is 1 / scale factor. It is None if no scale factor is given, or if it is not positive;
    it is then derived from the sizes.
    """
    given = size if scale_factor is None else scale_factor
    given = tuple(given) if isinstance(given, (tuple, list)) else (given,) * count
    if len(given) != count:
        raise ArgumentError(
            "interpolate: size and scale_factor must be one number, or one per spatial axis",
            got=f"{given} for input {input.shape}",
            expected=f"{count} numbers",
            hint="omit the numbers for the batch and channel axes",
        )
    if scale_factor is None:
        return sizes_of(given, "interpolate"), (None,) * count
    sizes = tuple([math.floor(n * f) for n, f in zip(input.shape[2:], given, strict=True)])
    return sizes, tuple([1.0 / f if f > 0 else None for f in given])
