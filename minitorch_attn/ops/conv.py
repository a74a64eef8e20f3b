r"""Convolution, and the two operations that compute its gradients.

Let x be the image, w the kernels and g an array with the shape of the output. The indices are batch
b, input channel c, output channel m, output position o, kernel position k and image position i. A
position has one coordinate for each spatial axis; o s + k d - p is computed for each coordinate:

    Conv            y[b, m, o] = sum_{c, k} w[m, c, k] x[b, c, o s + k d - p]
    ConvTransposed  x[b, c, i] = sum_{m, k} w[m, c, k] g[b, m, o],   i = o s + k d - p
    ConvKernel      w[m, c, k] = sum_{b, o} g[b, m, o] x[b, c, o s + k d - p]

Here s is the stride, d the dilation and p the padding; x is 0 outside the image. Let S be the sum
of g w x over b, c, m, o and k. The three lines above are the derivatives of S with respect to g, x
and w. If g is the gradient of the output y of Conv, then S = sum(g y), so the gradients of x and w
are the derivatives of S, which ConvTransposed and ConvKernel compute. S is linear in each of g, w
and x, so the gradients of the other two operations follow in the same way.

Each operation runs as one matrix product per group, with the windows of x as columns. If each
channel is a group of its own, `plumbing/depthwise.py` computes the results without these columns.
"""

import math

from ..autograd.autocast import autocasts
from ..autograd.function import Function
from ..backend import array_module, matmul
from ..backend.row_reductions import add_block, row_blocks
from ..computes import computes
from ..named_errors import names_arguments
from .plumbing.columns import columns_of
from .plumbing.conv_arguments import conv_geometry, transposed_geometry
from .plumbing.depthwise import depthwise, depthwise_kernel, depthwise_transposed, is_depthwise
from .plumbing.mirrored_kernels import mirrored, mirrored_padding, reads_columns
from .plumbing.spatial import batched, crop, places_of, shifts, unbatched

_COLUMNS = 1 << 22  # size limit, in bytes, of the columns in memory at one time on the CPU

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip


class Conv(Function):
    r"""Convolution of images with kernels.

    Forward:  y = sum of (window of x * weight) + bias, for each window
    Backward: grad_x = the transposed convolution of grad_y with weight,
        grad_weight = the sum of grad_y * (window of x) over images and positions,
        grad_bias = the sum of grad_y over images and positions
    Derivation: y[b, m, o] = sum_{c, k} w[m, c, k] x[b, c, o s + k d - p] + bias[m], so with
    g = dL/dy
        dL/dx = ConvTransposed(g, w),   dL/dw = ConvKernel(g, x),
        dL/dbias[m] = sum_{b, o} g[b, m, o].
    Saved: x and w. `backward` recomputes the columns, because they are larger than x by a factor
    of the kernel size.
    """

    @staticmethod
    @computes("convolution", reveals=("linear",))
    def forward(ctx, x, weight, bias, *, stride, padding, dilation, groups):
        # x: (batch, in, *space), weight: (out, in / groups, *kernel) -> (batch, out, *place)
        ctx.how = _how(stride, padding, dilation, groups)
        ctx.save(x, weight)
        kernel = weight.shape[2:]
        if is_depthwise(weight.shape[0], x.shape[1], kernel, groups, x.dtype):
            how = {"stride": stride, "padding": padding, "dilation": dilation}
            return _biased(depthwise(x, weight, **how), bias)
        kernels = _grouped(weight, groups)
        if _is_pointwise(kernel, stride, padding):
            return _biased(_mixed(kernels, x, groups), bias)
        places = places_of(x.shape[2:], kernel, stride, padding, dilation)
        y = array_module(x).empty((len(x), weight.shape[0], *places), dtype=x.dtype)
        for images in _blocks(x, places, kernel):
            columns = columns_of(x[images], kernel, stride, padding, dilation, groups)
            part = matmul(kernels, columns)  # (group, out, in * kernel) @ (.., in * kernel, item)
            y[images] = part.reshape(weight.shape[0], -1, *places).swapaxes(0, 1)
        return _biased(y, bias)

    @staticmethod
    def backward(ctx, grad_y):
        x, weight = ctx.saved
        grad_x, grad_weight = conv_gradients(ctx, grad_y, x, weight)
        grad_bias = grad_y.sum(axis=(0, *range(2, grad_y.ndim))) if ctx.needs_grad[2] else None
        return grad_x, grad_weight, grad_bias


@computes("convolution")
def conv_gradients(ctx, grad_y, x, weight):
    """Return grad_x and grad_weight of a convolution, None where they are not needed.

    If grad_weight is not needed, x may be None.
    """
    need_x, need_weight, _ = ctx.needs_grad
    grad_x = grad_weight = None
    if need_x:
        grad_x = ConvTransposed.call(grad_y, weight, None, size=ctx.shapes[0][2:], **ctx.how)
    if need_weight:
        grad_weight = ConvKernel.call(grad_y, x, kernel=weight.shape[2:], **ctx.how)
    return grad_x, grad_weight


class ConvTransposed(Function):
    r"""Transposed convolution: each input position adds a scaled kernel to a larger image.

    Forward:  x = each element of g times weight, added to its window, + bias
    Backward: grad_g = the convolution of grad_x with weight,
        grad_weight = the sum of g * (window of grad_x) over images and positions,
        grad_bias = the sum of grad_x over images and positions
    Derivation: x[b, c, i] = sum_{m, k} w[m, c, k] g[b, m, o] + bias[c], where i = o s + k d - p.
    With h = dL/dx, which has the shape of an image,
        dL/dg = Conv(h, w),   dL/dw = ConvKernel(g, h),   dL/dbias[c] = sum_{b, i} h[b, c, i].
    Saved: g and w.
    """

    @staticmethod
    @computes("convolution", reveals=("linear",))
    def forward(ctx, g, weight, bias, *, size, stride, padding, dilation, groups):
        # g: (batch, out, *place), weight: (out, in / groups, *kernel) -> (batch, in, *size)
        ctx.how = _how(stride, padding, dilation, groups)
        ctx.save(g, weight)
        batch, places, kernel = g.shape[0], g.shape[2:], weight.shape[2:]
        if is_depthwise(g.shape[1], weight.shape[1] * groups, kernel, groups, g.dtype):
            how = {"stride": stride, "padding": padding, "dilation": dilation}
            return _biased(depthwise_transposed(g, weight, size=size, **how), bias)
        kernels = _grouped(weight, groups).swapaxes(1, 2)
        if _is_pointwise(kernel, stride, padding):
            return _biased(_mixed(kernels, g, groups), bias)
        if reads_columns(g, weight, stride, groups):
            how = {**ctx.how, "padding": mirrored_padding(g, size, kernel, padding, dilation)}
            return _biased(Conv.call(g, mirrored(weight, groups), None, **how), bias)
        columns = matmul(kernels, _items(g, groups))  # (.., in * kernel, out) @ (.., out, item)
        count = weight.shape[1] * groups
        columns = columns.reshape(count, *kernel, batch, *places)
        room = [max(n + a, (o - 1) * s + (k - 1) * d + 1) for n, (a, _), o, s, k, d in
                zip(size, padding, places, stride, kernel, dilation, strict=True)]  # fmt: skip
        x = array_module(g).zeros((batch, count, *room), dtype=g.dtype)
        for entry, there in shifts(places, kernel, stride, dilation):
            x[(..., *there)] += columns[(slice(None), *entry)].swapaxes(0, 1)
        return array_module(g).ascontiguousarray(_biased(crop(x, padding, size), bias))

    @staticmethod
    def backward(ctx, grad_x):
        g, weight = ctx.saved
        need_g, need_weight, need_bias = ctx.needs_grad
        grad_g = grad_weight = grad_bias = None
        if need_g:
            grad_g = Conv.call(grad_x, weight, None, **ctx.how)
        if need_weight:
            grad_weight = ConvKernel.call(g, grad_x, kernel=weight.shape[2:], **ctx.how)
        if need_bias:
            grad_bias = grad_x.sum(axis=(0, *range(2, grad_x.ndim)))
        return grad_g, grad_weight, grad_bias


class ConvKernel(Function):
    r"""Kernel gradient of a convolution: correlation of an image with the output gradients.

    Forward:  w = the sum of g * (window of x) over images and positions
    Backward: grad_g = the convolution of x with grad_weight,
        grad_x = the transposed convolution of g with grad_weight
    Derivation: w[m, c, k] = sum_{b, o} g[b, m, o] x[b, c, o s + k d - p], so with v = dL/dw, which
    has the shape of the kernels,
        dL/dg = Conv(x, v),   dL/dx = ConvTransposed(g, v).
    Saved: g and x.
    """

    @staticmethod
    @computes("convolution", reveals=("linear",))
    def forward(ctx, g, x, *, kernel, stride, padding, dilation, groups):
        # g: (batch, out, *place), x: (batch, in, *space) -> (out, in / groups, *kernel)
        ctx.how = _how(stride, padding, dilation, groups)
        ctx.save(g, x)
        if is_depthwise(g.shape[1], x.shape[1], kernel, groups, x.dtype):
            how = {"stride": stride, "padding": padding, "dilation": dilation}
            return depthwise_kernel(g, x, kernel=kernel, **how)
        total = None
        for images in _blocks(x, g.shape[2:], kernel):
            columns = columns_of(x[images], kernel, stride, padding, dilation, groups)
            part = matmul(_items(g[images], groups), columns.swapaxes(1, 2))
            total = add_block(total, part)
        shape = g.shape[1], x.shape[1] // groups, *kernel
        return array_module(x).zeros(shape, x.dtype) if total is None else total.reshape(shape)

    @staticmethod
    def backward(ctx, grad_weight):
        g, x = ctx.saved
        need_g, need_x = ctx.needs_grad
        grad_g = grad_x = None
        if need_g:
            grad_g = Conv.call(x, grad_weight, None, **ctx.how)
        if need_x:
            grad_x = ConvTransposed.call(g, grad_weight, None, size=x.shape[2:], **ctx.how)
        return grad_g, grad_x


def _how(stride, padding, dilation, groups):
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def _blocks(x, places, kernel):
    """Split the batch into parts whose columns fit in the caches; a part has at least one image.

    The first convolution of a ResNet (7 x 7, 160 x 160 pixels) takes a third less time with this
    split.
    """
    size = x.shape[1] * math.prod(places) * math.prod(kernel) * x.itemsize
    return row_blocks(x, max(_COLUMNS // max(size, 1), 1))


def _items(g, groups):
    """Reshape (batch, out, *place) to (group, out, item), one item per position of each image."""
    batch, channels = g.shape[:2]
    return g.swapaxes(0, 1).reshape(groups, channels // groups, batch * math.prod(g.shape[2:]))


def _grouped(weight, groups):
    """Reshape (out, in, *kernel) to (group, out, in * kernel)."""
    return weight.reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))


def _is_pointwise(kernel, stride, padding):
    """True if each window is one element, so that the image itself is the matrix of windows."""
    return math.prod(kernel) == math.prod(stride) == 1 and not any(a or b for a, b in padding)


def _mixed(kernels, x, groups):
    """Pointwise convolution: one matrix per group maps the channels at each position."""
    batch, channels = x.shape[:2]
    x_items = x.reshape(batch, groups, channels // groups, math.prod(x.shape[2:]))
    y = matmul(kernels, x_items)  # (group, out, in) @ (batch, group, in, place)
    return y.reshape(batch, kernels.shape[0] * kernels.shape[1], *x.shape[2:])


def _biased(y, bias):
    """Add one number per channel to y, in place; the channels are on axis 1."""
    if bias is not None:
        y += bias.reshape(-1, *(1 for _ in y.shape[2:]))
    return y


@names_arguments
@autocasts
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution over one spatial axis; see `conv2d`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> conv1d(mt.tensor([[1.0, 2.0, 4.0]]), mt.tensor([[[-1.0, 1.0]]]))
    tensor([[1., 2.]])
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@names_arguments
@autocasts
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution over two spatial axes, with one kernel per output channel.

    The kernel is not flipped, so this convolution is a cross-correlation, as usual in deep
    learning.

    Parameters
    ----------
    input : Tensor of shape (batch, in, height, width) or (in, height, width)
    weight : Tensor of shape (out, in / groups, kernel height, kernel width)
    bias : Tensor of shape (out,), optional
    stride : int or (int, int)
        Step between neighboring windows.
    padding : int, (int, int), "valid" or "same"
        Number of zeros added on each side; "valid" adds none, "same" keeps the size at stride 1.
    dilation : int or (int, int)
        Step between neighboring kernel elements, in elements of the input.
    groups : int
        Number of groups of channels; an output channel uses the input channels of its group only.

    Returns
    -------
    Tensor of shape (batch, out, *out_size) or (out, *out_size)
        Each out_size = (size + 2 padding - dilation (kernel - 1) - 1) // stride + 1.

    Raises
    ------
    ShapeError
        If the channels or the sizes do not match.

    Notes
    -----
    The derivative is in `Conv`. Dumoulin and Visin 2016 [1]_ illustrate the geometry.

    References
    ----------
    .. [1] "A guide to convolution arithmetic for deep learning", arXiv:1603.07285v2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.arange(9.0).reshape(1, 3, 3)
    >>> conv2d(x, mt.ones(1, 1, 2, 2), stride=1)
    tensor([[[ 8., 12.],
             [20., 24.]]])
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@names_arguments
@autocasts
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolution over three spatial axes; see `conv2d`."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@names_arguments
@autocasts
def conv_transpose1d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """Transposed convolution over one spatial axis; see `conv_transpose2d`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> conv_transpose1d(mt.tensor([[1.0, 2.0]]), mt.tensor([[[1.0, 10.0]]]))
    tensor([[ 1., 12., 20.]])
    """
    return _transposed(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@names_arguments
@autocasts
def conv_transpose2d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """Transposed convolution: each input position adds a scaled kernel to a larger image.

    Parameters
    ----------
    input : Tensor of shape (batch, in, height, width) or (in, height, width)
    weight : Tensor of shape (in, out / groups, kernel height, kernel width)
    bias : Tensor of shape (out,), optional
    stride, padding, dilation : int or (int, int)
        Settings of the convolution that is transposed. `padding` is the number of elements that are
        cropped from each side of the output.
    output_padding : int or (int, int)
        Number of elements added at the end of each output axis. It must be less than the stride or
        the dilation.
        The convolution maps several input sizes to the same output size; `output_padding` selects
        one of these input sizes.
    groups : int
        Number of groups of channels.

    Returns
    -------
    Tensor of shape (batch, out, *out_size) or (out, *out_size)
        Each out_size = (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.

    Notes
    -----
    This function computes the input gradient of `conv2d`. Its derivative is in `ConvTransposed`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> conv_transpose2d(mt.tensor([[[1.0, 2.0]]]), mt.ones(1, 1, 1, 2), stride=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return _transposed(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


@names_arguments
@autocasts
def conv_transpose3d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """Transposed convolution over three spatial axes; see `conv_transpose2d`."""
    return _transposed(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups,
        dilation,
    )  # fmt: skip


def _conv(where, count, input, weight, bias, stride, padding, dilation, groups):
    x = batched(input, count, where)
    how = conv_geometry(where, x, weight, bias, stride, padding, dilation, groups)
    return unbatched(Conv.apply(x, weight, bias, **how), input, count)


def _transposed(
    where, count, input, weight, bias, stride, padding, output_padding, groups, dilation
):
    x = batched(input, count, where)
    how = transposed_geometry(
        where, x, weight, bias, stride, padding, output_padding, groups, dilation
    )
    return unbatched(ConvTransposed.apply(x, weight, bias, **how), input, count)
