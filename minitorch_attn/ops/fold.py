"""Images as columns of patches and back: `torch.nn.functional.unfold` and `fold`."""

import math

from ..autograd.function import Function
from ..backend import array_module
from ..errors import ShapeError
from .given import as_operand
from .shape import Reshape
from .spatial import batched, crop, each_axis, enlarge, shifts, unbatched, windows

__all__ = ["fold", "unfold"]


class Patches(Function):
    r"""y[b, c, k, o] = x[b, c, o * stride + k * dilation - padding], 0 outside of x.

    k runs over the entries of a patch and o over the places of patches, along every spatial axis.

    Derivative: an element of x receives the gradients of all patches that it is in: PatchSum.
    Saved: nothing.
    """

    @staticmethod
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
    r"""y = zeros with every patch added at its place: the adjoint of Patches.

    Derivative: the patches of the gradient.
    Saved: nothing.
    """

    @staticmethod
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
    """The four numbers of each axis, the padding as pairs."""
    kernel = each_axis(kernel_size, 2, where, "kernel_size", 1)
    stride = each_axis(stride, 2, where, "stride", 1)
    dilation = each_axis(dilation, 2, where, "dilation", 1)
    padding = tuple([(p, p) for p in each_axis(padding, 2, where, "padding")])
    return {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}


def _places(size, how, where):
    """How many patches there are along each axis."""
    numbers = zip(size, how["kernel"], how["stride"], how["padding"], how["dilation"], strict=True)
    places = tuple([(n + a + b - d * (k - 1) - 1) // s + 1 for n, k, s, (a, b), d in numbers])
    if min(places) < 1:
        raise ShapeError(
            f"{where}: the patches are larger than the image.",
            got=f"an image of {tuple(size)} and kernel_size={how['kernel']}",
            expected="dilation * (kernel_size - 1) + 1 <= size + 2 * padding on every axis",
        )
    return places


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Every patch of an image as a column.

    Parameters
    ----------
    input : Tensor of shape (batch, channel, height, width) or (channel, height, width)
    kernel_size, dilation, padding, stride : int or (int, int)
        As in a convolution.

    Returns
    -------
    Tensor of shape (batch, channel * kernel, place)

    Notes
    -----
    Derivative in `Patches`.

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


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """An image from columns of patches, which add up where they overlap: the adjoint of unfold.

    Parameters
    ----------
    input : Tensor of shape (batch, channel * kernel, place) or (channel * kernel, place)
    output_size : int or (int, int)
        Of the image.
    kernel_size, dilation, padding, stride : int or (int, int)
        As they were given to `unfold`.

    Returns
    -------
    Tensor of shape (batch, channel, height, width) or (channel, height, width)

    Notes
    -----
    Derivative in `PatchSum`.

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
            "fold: input has the wrong number of axes.",
            got=f"input {input.shape}",
            expected="(batch, channel * kernel, place), or (channel * kernel, place)",
        )
    size = each_axis(output_size, 2, "fold", "output_size", 1)
    how = _geometry("fold", kernel_size, dilation, padding, stride)
    places = _places(size, how, "fold")
    entries = math.prod(how["kernel"])
    lead, (rows, columns) = input.shape[:-2], input.shape[-2:]
    if rows % entries or columns != math.prod(places):
        raise ShapeError(
            "fold: the columns do not make such an image.",
            got=f"input {input.shape}, output_size={size} and kernel_size={how['kernel']}",
            expected=f"a multiple of {entries} rows and {places[0]} * {places[1]} columns",
        )
    shape = (*(lead or (1,)), rows // entries, *how["kernel"], *places)
    y = PatchSum.apply(Reshape.apply(input, shape=shape), size=size, **how)
    return y if lead else Reshape.apply(y, shape=y.shape[1:])
