"""Fold and unfold: convert images to columns of patches, and back."""

import math

from ..autograd.function import Function
from ..backend import array_module
from ..computes import computes
from ..errors import ShapeError
from ..named_errors import names_arguments
from .plumbing.spatial import (
    batched,
    crop,
    each_axis,
    enlarge,
    places_of,
    shifts,
    unbatched,
    windows,
)  # fmt: skip
from .plumbing.tensor_arguments import as_operand
from .reshape import Reshape

__all__ = ["fold", "unfold"]


class Patches(Function):
    r"""Extract all patches (sliding windows) of an image, for any number of spatial axes.

    Forward:  y = every window of x
    Backward: grad_x = zeros, with each window in grad_y added at its position

    Here k is the position within a patch and o the index of the patch; both have one coordinate for
    each spatial axis:
    y[b, c, k, o] = x[b, c, o * stride + k * dilation - padding], or 0 outside x.

    Derivation: an element of x receives the sum of the gradients of all patches that contain it.
    Saved: nothing.
    """

    @staticmethod
    @computes("patches", reveals=("windows",))
    def forward(ctx, x, *, kernel, stride, padding, dilation):
        # x: (batch, channel, *space) -> (batch, channel, *kernel, *place)
        ctx.how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        count = len(kernel)
        view = windows(enlarge(x, padding), kernel, stride, dilation)
        places, entries = range(2, 2 + count), range(2 + count, 2 + 2 * count)
        return view.transpose((0, 1, *entries, *places)).copy()

    @staticmethod
    def backward(ctx, grad_y):
        return PatchSum.call(grad_y, size=ctx.shapes[0][2:], **ctx.how)


class PatchSum(Function):
    r"""Sum of overlapping patches, each added at its position; the adjoint of Patches.

    Forward:  y = zeros with each patch of x added at its position
    Backward: grad_x = every window of grad_y
    Derivation: each entry of a patch is added to one element of y, so the entry receives the
    gradient of this element.
    Saved: nothing.
    """

    @staticmethod
    @computes("patches", reveals=("windows",))
    def forward(ctx, x, *, size, kernel, stride, padding, dilation):
        # x: (batch, channel, *kernel, *place) -> (batch, channel, *size)
        ctx.how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        places = x.shape[2 + len(kernel) :]
        room = [n + a + b for n, (a, b) in zip(size, padding, strict=True)]
        y = array_module(x).zeros((*x.shape[:2], *room), dtype=x.dtype)
        for entry, there in shifts(places, kernel, stride, dilation):
            y[(..., *there)] += x[(slice(None), slice(None), *entry)]
        return array_module(x).ascontiguousarray(crop(y, padding, size))

    @staticmethod
    def backward(ctx, grad_y):
        return Patches.call(grad_y, **ctx.how)


def _geometry(where, kernel_size, dilation, padding, stride):
    """Return kernel, stride, padding (before, after) and dilation, each with one entry per axis."""
    kernel = each_axis(kernel_size, 2, where, "kernel_size", 1)
    stride = each_axis(stride, 2, where, "stride", 1)
    dilation = each_axis(dilation, 2, where, "dilation", 1)
    padding = tuple([(p, p) for p in each_axis(padding, 2, where, "padding")])
    return {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}


def _places(size, how, where):
    """Return the number of patches along each axis; reject kernels larger than the padded image."""
    places = places_of(size, **how)
    if min(places) < 1:
        raise ShapeError(
            f"{where}: kernel_size must not be larger than the padded image",
            got=f"an image of {tuple(size)} and kernel_size={how['kernel']}",
            expected="dilation * (kernel_size - 1) + 1 <= size + 2 * padding on every axis",
            hint="use a larger padding or a smaller kernel_size",
        )
    return places


@names_arguments
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Unfold an image into its patches, one per column.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, height, width) or (channel, height, width)
    kernel_size, dilation, padding, stride : int or (int, int)
        Settings of the windows, as in a convolution.

    Returns
    -------
    Tensor of shape (batch, channel * kernel, place)
        One column per patch; `kernel` is the number of elements of a patch in one channel.

    Notes
    -----
    The derivative is in `Patches`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> unfold(mt.arange(9.0).reshape(1, 3, 3), 2)
    tensor([[0., 1., 3., 4.],
            [1., 2., 4., 5.],
            [3., 4., 6., 7.],
            [4., 5., 7., 8.]])
    """
    x = batched(input, 2, "unfold")
    how = _geometry("unfold", kernel_size, dilation, padding, stride)
    places = _places(x.shape[2:], how, "unfold")
    y = Patches.apply(x, **how)
    rows = x.shape[1] * math.prod(how["kernel"])
    return unbatched(Reshape.apply(y, shape=(x.shape[0], rows, math.prod(places))), input, 2)


@names_arguments
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Fold columns of patches into an image and add overlapping patches; the adjoint of unfold.

    Parameters
    ----------
    input : Tensor of shape (batch, channel * kernel, place) or (channel * kernel, place)
        Columns of patches, as `unfold` returns them.
    output_size : int or (int, int)
        Height and width of the image.
    kernel_size, dilation, padding, stride : int or (int, int)
        Settings of the `unfold` call that made the columns.

    Returns
    -------
    Tensor of shape (batch, channel, height, width) or (channel, height, width)

    Notes
    -----
    The derivative is in `PatchSum`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> fold(mt.ones(4, 4), 3, 2)
    tensor([[[1., 2., 1.],
             [2., 4., 2.],
             [1., 2., 1.]]])
    """
    input = as_operand(input, "fold")
    if input.ndim not in (2, 3):
        raise ShapeError(
            "fold: input must have 2 or 3 axes",
            got=f"input {input.shape}",
            expected="(batch, channel * kernel, place), or (channel * kernel, place)",
            hint="pass columns in the form that unfold returns",
        )
    size = each_axis(output_size, 2, "fold", "output_size", 1)
    how = _geometry("fold", kernel_size, dilation, padding, stride)
    places = _places(size, how, "fold")
    entries = math.prod(how["kernel"])
    lead, (rows, columns) = input.shape[:-2], input.shape[-2:]
    if rows % entries or columns != math.prod(places):
        raise ShapeError(
            "fold: input does not match output_size and kernel_size",
            got=f"input {input.shape}, output_size={size} and kernel_size={how['kernel']}",
            expected=f"a number of rows that is a multiple of {entries}, and "
            f"{places[0]} * {places[1]} columns",
            hint="use the settings of the unfold call that made input",
        )
    shape = (*(lead or (1,)), rows // entries, *how["kernel"], *places)
    y = PatchSum.apply(Reshape.apply(input, shape=shape), size=size, **how)
    return y if lead else Reshape.apply(y, shape=y.shape[1:])
