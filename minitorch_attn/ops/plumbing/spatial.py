"""Spatial axes of convolution, pooling and folding: sizes per axis, padding, windows."""

from ...backend import array_module
from ...errors import ArgumentError, ShapeError
from ..reshape import Reshape
from .axes import sizes_of
from .tensor_arguments import not_tensors

__all__ = [
    "batched", "crop", "each_axis", "enlarge", "is_channels_last", "places_of", "shifts",
    "unbatched", "windows",
]  # fmt: skip


def each_axis(value, count, where, name, least=0):
    """Convert an int or a sequence to a tuple with one size per spatial axis.

    Parameters
    ----------
    value : int or sequence of int
        Value passed by the user.
    count : int
        Number of spatial axes.
    where, name : str
        Names of the function and its argument, for error messages.
    least : int
        Smallest allowed size.

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
            f"{where}: {name} must be one number, or one per spatial axis",
            got=f"{name}={value!r}",
            expected=f"{count} numbers",
            hint="leave out the batch axis and the channel axis",
        )
    if min(sizes) < least:
        raise ArgumentError(
            f"{where}: {name} must be at least {least} on every axis", got=f"{name}={value!r}"
        )
    return sizes


def batched(input, count, where):
    """Return `input` as (batch, channel, *space); add the batch axis if it is missing.

    Parameters
    ----------
    input : Tensor
    count : int
        Number of spatial axes.
    where : str
        Name of the function, for error messages.
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
        f"{where}: input must have {count + 1} or {count + 2} axes",
        got=f"input {input.shape}",
        expected=f"(batch, channel, {space}), or (channel, {space})",
        hint="add the batch axis with input.unsqueeze(0)",
    )


def unbatched(result, input, count):
    """Return `result` without its batch axis if `input` does not have one."""
    if input.ndim == count + 2:
        return result
    return Reshape.apply(result, shape=result.shape[1:])


def is_channels_last(x):
    """Return True if the channels of an array (batch, channel, *space) are neighbors in memory."""
    return x.shape[1] > 1 and x.strides[1] == x.itemsize


def enlarge(x, padding):
    """Pad the last axes of an array with zeros at both ends; a negative amount crops the axis.

    Parameters
    ----------
    x : array
    padding : sequence of (int, int)
        Number of zeros before and number of zeros after, for each of the last axes.
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
    """Undo the padding of `enlarge`: return the inner part, whose sizes are `sizes`."""
    inside = [slice(a, a + n) for n, (a, _) in zip(sizes, padding, strict=True)]
    return x[(..., *inside)]


def places_of(space, kernel, stride, padding, dilation):
    """Return the number of windows along each spatial axis.

    Parameters
    ----------
    space, kernel, stride, dilation : sequence of int
        Sizes of the array, and geometry of the windows, one number per spatial axis.
    padding : sequence of (int, int)
        Number of zeros before and after each spatial axis.

    Examples
    --------
    >>> places_of((6,), (2,), (2,), [(0, 0)], (3,)), places_of((5,), (3,), (1,), [(1, 1)], (1,))
    ((2,), (5,))
    """
    axes = zip(space, kernel, stride, padding, dilation, strict=True)
    return tuple([(n + a + b - d * (k - 1) - 1) // s + 1 for n, k, s, (a, b), d in axes])


def windows(x, kernel, stride, dilation):
    """Return every window over the last axes of an array, as a read-only view.

    Parameters
    ----------
    x : array of shape (..., *space)
    kernel, stride, dilation : tuple of int
        Geometry of the windows, one number per spatial axis.

    Returns
    -------
    array of shape (..., *places, *kernel)
        `*places` are the numbers of windows along each spatial axis.

    Examples
    --------
    >>> import numpy as np
    >>> windows(np.arange(6), (2,), (2,), (3,))
    array([[0, 3],
           [2, 5]])
    """
    lead, space = x.shape[: x.ndim - len(kernel)], x.shape[x.ndim - len(kernel) :]
    jumps = x.strides[x.ndim - len(kernel) :]  # bytes from one element to the next
    places = places_of(space, kernel, stride, [(0, 0)] * len(kernel), dilation)
    strides = [s * jump for s, jump in zip(stride, jumps, strict=True)]  # to the next window
    strides += [d * jump for d, jump in zip(dilation, jumps, strict=True)]  # within a window
    return array_module(x).lib.stride_tricks.as_strided(
        x, (*lead, *places, *kernel), (*x.strides[: len(lead)], *strides)
    )


def shifts(places, kernel, stride, dilation):
    """Yield, for each kernel entry, its index and the slices that select this entry in all windows.

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
