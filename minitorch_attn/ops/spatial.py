"""What convolution, pooling and folding share: sizes per axis, and windows over an array."""

from ..backend import array_module
from ..errors import ArgumentError, ShapeError
from .axes import sizes_of
from .given import not_tensors
from .shape import Reshape

__all__ = ["batched", "crop", "each_axis", "enlarge", "shifts", "unbatched", "windows"]


def each_axis(value, count, where, name, least=0):
    """One size per spatial axis, from an int for all axes or a sequence.

    Parameters
    ----------
    value : int or sequence of int
    count : int
        The number of spatial axes.
    where, name : str
        The function and its argument, for the message.
    least : int
        The smallest size allowed.

    Examples
    --------
    >>> each_axis(3, 2, "conv2d", "stride"), each_axis((1, 2), 2, "conv2d", "stride")
    ((3, 3), (1, 2))
    """
    sizes = sizes_of(value, where, name)
    if len(sizes) == 1:
        sizes *= count
    if len(sizes) != count:
        raise ArgumentError(
            f"{where}: {name} is one number, or one per spatial axis.",
            got=f"{name}={value!r}",
            expected=f"{count} numbers",
        )
    if min(sizes) < least:
        raise ArgumentError(
            f"{where}: {name} is too small.", got=f"{name}={value!r}", expected=f"at least {least}"
        )
    return sizes


def batched(input, count, where):
    """`input` as (batch, channel, *space), whether or not it comes with a batch axis.

    Parameters
    ----------
    input : Tensor
    count : int
        The number of spatial axes.
    where : str
        The function, for the message.
    """
    try:
        ndim = input.ndim
    except AttributeError as error:
        raise not_tensors(error, where, input=input) from None
    if ndim == count + 2:
        return input
    if ndim == count + 1:
        return Reshape.apply(input, shape=(1, *input.shape))
    space = ", ".join(("depth", "height", "width")[3 - count :])
    raise ShapeError(
        f"{where}: input has the wrong number of axes.",
        got=f"input {input.shape}",
        expected=f"(batch, channel, {space}), or (channel, {space})",
    )


def unbatched(result, input, count):
    """`result` without its batch axis if `input` came without one."""
    if input.ndim == count + 2:
        return result
    return Reshape.apply(result, shape=result.shape[1:])


def enlarge(x, padding):
    """An array with zeros around its last axes, or cut off where a number is negative.

    Parameters
    ----------
    x : array
    padding : sequence of (int, int)
        Before and after, for each of the last axes.
    """
    before_axes = x.ndim - len(padding)
    space = x.shape[before_axes:]
    kept = [slice(None)] * before_axes
    kept += [slice(max(-a, 0), n - max(-b, 0))
             for n, (a, b) in zip(space, padding, strict=True)]  # fmt: skip
    x = x[tuple(kept)]
    if not any(a > 0 or b > 0 for a, b in padding):
        return x
    inside, shape = [slice(None)] * before_axes, list(x.shape[:before_axes])
    for n, (a, b) in zip(x.shape[before_axes:], padding, strict=True):
        inside.append(slice(max(a, 0), max(a, 0) + n))
        shape.append(n + max(a, 0) + max(b, 0))
    larger = array_module(x).zeros(tuple(shape), dtype=x.dtype)
    larger[tuple(inside)] = x
    return larger


def crop(x, padding, sizes):
    """The part of `sizes` that begins after the padding, on the last axes."""
    inside = [slice(a, a + n) for n, (a, _) in zip(sizes, padding, strict=True)]
    return x[(..., *inside)]


def windows(x, kernel, stride, dilation):
    """Every window over the last axes of an array, as a read-only view.

    Parameters
    ----------
    x : array of shape (..., *space)
    kernel, stride, dilation : tuple of int
        One number per spatial axis.

    Returns
    -------
    array of shape (..., *places, *kernel)

    Examples
    --------
    >>> import numpy as np
    >>> windows(np.arange(6), (2,), (2,), (3,))
    array([[0, 3],
           [2, 5]])
    """
    count = len(kernel)
    reach = tuple([d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)])
    axes = tuple(range(x.ndim - count, x.ndim))
    every = array_module(x).lib.stride_tricks.sliding_window_view(x, reach, axis=axes)
    steps = [slice(None, None, s) for s in (*stride, *dilation)]
    return every[(..., *steps)]


def shifts(places, kernel, stride, dilation):
    """For each entry of the kernel in turn: its index, and where all windows have that entry.

    Returns
    -------
    iterator of (tuple of int, tuple of slice)
    """
    entries = [()]
    for k in kernel:
        entries = [(*entry, i) for entry in entries for i in range(k)]
    for entry in entries:
        yield entry, tuple([
            slice(i * d, i * d + s * (n - 1) + 1, s)
            for i, n, s, d in zip(entry, places, stride, dilation, strict=True)
        ])  # fmt: skip
