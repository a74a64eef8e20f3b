"""Reshape, permute and transpose: change the shape of a tensor, as a view where possible."""

import math

from ..autograd.function import Function
from ..backend import shares_memory
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments, under_name
from ..tensor import wrap
from .plumbing.axes import axes_of, axis_of, sizes_of, too_many_axes
from .plumbing.creation_arguments import dtype_of
from .plumbing.tensor_arguments import as_operand, not_tensors

__all__ = [
    "flatten", "movedim", "moveaxis", "permute", "ravel", "reshape", "squeeze", "swapaxes",
    "swapdims", "t", "transpose", "unflatten", "unsqueeze", "view", "view_as",
]  # fmt: skip


class Reshape(Function):
    """Reshape: the same elements in row-major order, in a different shape.

    Forward:  y = x in another shape
    Backward: grad_x = the same elements of grad_y in the shape of x
    Derivation: y has the same elements as x, so the gradient is reshaped back.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, shape):
        return x.reshape(shape)

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y.reshape(ctx.shapes[0])


class Permute(Function):
    """Permute the axes: axis i of y is axis dims[i] of x.

    Forward:  y = x with its axes in the order dims
    Backward: grad_x = grad_y with its axes in the order of x
    Derivation: y has the same elements as x; the gradient goes through the inverse permutation.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, dims):
        ctx.dims = dims
        return x.transpose(dims)

    @staticmethod
    def backward(ctx, grad_y):
        inverse = [0] * len(ctx.dims)
        for place, axis in enumerate(ctx.dims):
            inverse[axis] = place
        return Permute.call(grad_y, dims=tuple(inverse))


class Transpose(Function):
    """Transpose: exchange two axes.

    Forward:  y = x with two axes exchanged
    Backward: grad_x = grad_y with the same axes exchanged
    Derivation: exchanging the same two axes again undoes the exchange.
    Saved: nothing.
    """

    view = True

    @staticmethod
    def forward(ctx, x, *, dim0, dim1):
        ctx.dims = dim0, dim1
        return x.swapaxes(dim0, dim1)

    @staticmethod
    def backward(ctx, grad_y):
        dim0, dim1 = ctx.dims
        return grad_y.swapaxes(dim0, dim1)


def reshape(input, shape):
    """Reshape: the elements of `input` in row-major order, in a new shape.

    Parameters
    ----------
    input : Tensor
    shape : tuple of int
        Sizes of the result; one of them may be -1 and is inferred from the others.

    Returns
    -------
    Tensor
        A view of `input` if its memory layout allows, else a copy.

    Raises
    ------
    ShapeError
        If the number of elements does not match.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> reshape(mt.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return Reshape.apply(input, shape=_full_shape(input, shape, "reshape"))


def _full_shape(input, shape, where):
    """Return `shape` with -1 replaced by the inferred size, if it fits the number of elements."""
    shape = sizes_of(shape, where, "shape")
    try:
        count = input.array.size
    except AttributeError as error:
        raise not_tensors(error, where, input=input) from None
    if math.prod(shape) == count and min(shape, default=0) >= 0:
        return shape
    known = math.prod([n for n in shape if n != -1])
    unknown = shape.count(-1)
    if unknown == 1 and known > 0 and count % known == 0:
        return tuple([count // known if n == -1 else n for n in shape])
    if unknown == 1 and known == 0 and count == 0:
        expected = "sizes that determine -1 uniquely"
    else:
        expected = f"sizes with the product {count}, at most one of them -1"
    raise ShapeError(
        f"{where}(input, shape): shape does not match the number of elements",
        got=f"input {input.shape} with {count} elements and shape {shape}",
        expected=expected,
        hint="use -1 for one size, which is then inferred",
    )


def view(input, *shape, size=None, dtype=None):
    """A view of `input` in a new shape, or with its memory read as another dtype; never a copy.

    Parameters
    ----------
    input : Tensor
    *shape : int, or one tuple, or one dtype
        Sizes of the result, or a dtype in which to reinterpret the memory (without gradient).
    size : tuple of int, optional
        Sizes of the result, as a keyword argument instead of `*shape`.
    dtype : dtype, optional
        Dtype in which to reinterpret the memory, as a keyword argument instead of `*shape`.

    Raises
    ------
    ShapeError
        If the memory layout of `input` does not allow a view in that shape.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.arange(6)
    >>> view(x, 2, 3)[0, 0] = 7
    >>> x
    tensor([7, 1, 2, 3, 4, 5])
    """
    named = [value for value in (size, dtype) if value is not None]
    if len(named) + bool(shape) > 1:
        raise ArgumentError(
            "view: more than one of shape, size and dtype is given",
            got=f"shape {shape}, size={size}, dtype={dtype}",
            hint="call view() once with the shape and once with the dtype",
        )
    shape = named or shape
    if len(shape) == 1 and not isinstance(shape[0], int):
        if not isinstance(shape[0], (tuple, list)):
            return _reinterpreted(input, shape[0])
        shape = tuple(shape[0])
    shape = _full_shape(input, shape, "view")
    if not shares_memory(input.array.reshape(shape), input.array):
        raise ShapeError(
            "view(input, shape): the memory layout of input does not match the shape",
            got=f"input {input.shape} with strides {_strides(input)} and shape {shape}",
            expected="a shape that merges only axes that are adjacent in memory",
            hint="use reshape(), which copies if necessary, or call contiguous() first",
        )
    return Reshape.apply(input, shape=shape)


def _strides(tensor):
    """Return the strides in elements, as in PyTorch; NumPy's strides are in bytes."""
    return tuple(step // tensor.dtype.itemsize for step in tensor.array.strides)


def _reinterpreted(input, dtype):
    input = as_operand(input, "view")
    dtype = dtype_of(dtype, "view")
    try:
        other = wrap(input.array.view(dtype))
    except ValueError as error:
        raise ShapeError(
            "view: the last axis cannot be divided into elements of the other dtype",
            got=f"dtype={dtype} for {input.dtype} of shape {input.shape}",
            hint=str(error),
        ) from None
    other._version = input._version
    return other


@names_arguments
def view_as(input, other):
    """A view of `input` in the shape of `other`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> view_as(mt.arange(4), mt.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    input = as_operand(input, "view_as")
    return view(input, as_operand(other, "view_as", "other").shape)


def permute(input, dims):
    """Permute the axes of `input` into the order `dims`, as a view.

    Parameters
    ----------
    input : Tensor
    dims : tuple of int
        New order of the axes; each axis appears once.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> permute(mt.zeros(2, 3, 5), (2, 0, -2)).shape
    (5, 2, 3)
    """
    try:
        ndim = input.ndim
        dims = axes_of(dims, ndim, "permute", "dims")
    except (AttributeError, TypeError) as error:
        raise not_tensors(error, "permute", input=input) from None
    if len(dims) != ndim:
        raise ArgumentError(
            "permute(input, dims): dims must contain every axis exactly once",
            got=f"dims={dims} for input {input.shape}",
            hint="use transpose(dim0, dim1) to exchange only two axes",
        )
    return Permute.apply(input, dims=dims)


def transpose(input, dim0, dim1):
    """Transpose: exchange the axes `dim0` and `dim1` of `input`, as a view.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> transpose(mt.zeros(2, 3, 5), 0, -1).shape
    (5, 3, 2)
    """
    try:
        ndim = input.ndim
        dim0 = axis_of(dim0, ndim, "transpose", "dim0")
        dim1 = axis_of(dim1, ndim, "transpose", "dim1")
    except (AttributeError, TypeError) as error:
        raise not_tensors(error, "transpose", input=input) from None
    if dim0 == dim1:
        return Reshape.apply(input, shape=input.shape)
    return Transpose.apply(input, dim0=dim0, dim1=dim1)


swapdims = under_name("swapdims", transpose)


@names_arguments
def swapaxes(input, axis0, axis1):
    """Exchange the axes `axis0` and `axis1` of `input`, as a view; the same as `transpose`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> swapaxes(mt.zeros(2, 3, 5), 0, -1).shape
    (5, 3, 2)
    """
    return transpose(input, axis0, axis1)


@names_arguments
def t(input):
    """Transpose of a matrix; vectors and 0-d tensors are returned unchanged.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> t(mt.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    input = as_operand(input, "t")
    if input.ndim > 2:
        raise ShapeError(
            "t(input): input must not have more than 2 axes",
            got=f"input {input.shape}",
            expected="a matrix, a vector or a 0-d tensor",
            hint="use transpose(-2, -1) or .mT",
        )
    return transpose(input, 0, -1)


@names_arguments
def movedim(input, source, destination):
    """Move the axes `source` of `input` to the positions `destination`, as a view.

    Parameters
    ----------
    input : Tensor
    source, destination : int or tuple of int
        Axes to move, and the new position of each. The other axes keep their order.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> movedim(mt.zeros(2, 3, 5), 0, -1).shape
    (3, 5, 2)
    """
    input = as_operand(input, "movedim")
    source = axes_of(source, input.ndim, "movedim", "source")
    destination = axes_of(destination, input.ndim, "movedim", "destination")
    if len(source) != len(destination):
        raise ArgumentError(
            "movedim: source and destination must have the same length",
            got=f"source={source} and destination={destination}",
            hint="use permute(dims) to order all axes at once",
        )
    if input.ndim == 0:
        return Reshape.apply(input, shape=())
    dims = [d for d in range(input.ndim) if d not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        dims.insert(place, axis)
    return Permute.apply(input, dims=tuple(dims))


moveaxis = under_name("moveaxis", movedim)


def squeeze(input, dim=None):
    """Squeeze: remove all axes of size 1, or only those listed in `dim`. The result is a view.

    Parameters
    ----------
    input : Tensor
    dim : int or tuple of int, optional
        Axes to remove; an axis that does not have size 1 is kept.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> squeeze(mt.zeros(1, 3, 1)).shape, squeeze(mt.zeros(1, 3, 1), (0, 1)).shape
    ((3,), (3, 1))
    """
    input = as_operand(input, "squeeze")
    dims = range(input.ndim) if dim is None else axes_of(dim, input.ndim, "squeeze")
    shape = [n for i, n in enumerate(input.shape) if n != 1 or i not in dims]
    return Reshape.apply(input, shape=tuple(shape))


def at_least_1d(input):
    """Add an axis of size 1 to a 0-d tensor; return other tensors unchanged."""
    return input if input.array.ndim else Reshape.apply(input, shape=(1,))


def unsqueeze(input, dim):
    """Unsqueeze: insert an axis of size 1 at `dim`, as a view.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> unsqueeze(mt.zeros(2, 3), 1).shape
    (2, 1, 3)
    """
    input = as_operand(input, "unsqueeze")
    dim = axis_of(dim, input.ndim + 1, "unsqueeze")
    try:
        return Reshape.apply(input, shape=(*input.shape[:dim], 1, *input.shape[dim:]))
    except ValueError:
        raise too_many_axes("unsqueeze", "input", input.ndim + 1) from None


def flatten(input, start_dim=0, end_dim=-1):
    """Flatten: merge the axes from `start_dim` to `end_dim`, both included, into one.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> flatten(mt.zeros(2, 3, 5), 1).shape
    (2, 15)
    """
    input = as_operand(input, "flatten")
    start = axis_of(start_dim, input.ndim, "flatten", "start_dim")
    end = axis_of(end_dim, input.ndim, "flatten", "end_dim")
    if start > end:
        raise ArgumentError(
            "flatten: start_dim must not come after end_dim",
            got=f"start_dim={start_dim} and end_dim={end_dim} for input {input.shape}",
            hint=f"start_dim={end_dim}, end_dim={start_dim}",
        )
    if input.ndim == 0:
        return Reshape.apply(input, shape=(1,))
    if start == end:
        return input
    merged = math.prod(input.shape[start : end + 1])
    return Reshape.apply(input, shape=(*input.shape[:start], merged, *input.shape[end + 1 :]))


@names_arguments
def ravel(input):
    """Flatten all elements into one axis.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> ravel(mt.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    input = as_operand(input, "ravel")
    return reshape(input, (-1,)) if input.array.size else reshape(input, (0,))


@names_arguments
def unflatten(input, dim, sizes):
    """Unflatten: split the axis `dim` into axes of `sizes`, as a view; one size may be -1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> unflatten(mt.zeros(2, 15), 1, (3, -1)).shape
    (2, 3, 5)
    """
    input = as_operand(input, "unflatten")
    dim = axis_of(dim, input.ndim, "unflatten")
    sizes = sizes_of(sizes, "unflatten", "sizes")
    size = input.shape[dim]
    known = math.prod([n for n in sizes if n != -1])
    if sizes.count(-1) == 1 and known > 0:
        sizes = tuple([size // known if n == -1 else n for n in sizes])
    if not sizes or math.prod(sizes) != size or min(sizes) < 0:
        raise ShapeError(
            "unflatten(input, dim, sizes): the product of sizes does not match the axis",
            got=f"sizes={sizes} for axis {dim} of input {input.shape}",
            expected=f"the product {size}",
            hint="use -1 for one of the sizes, which is then inferred",
        )
    return Reshape.apply(input, shape=(*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))
